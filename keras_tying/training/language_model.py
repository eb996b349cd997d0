"""Training a language model by recipe, from an empty folder or from where a run stood."""

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from keras_tying.data import PreparedText, Vocabulary, windows
from keras_tying.optimizers import ClippedSGD
from keras_tying.training.callbacks import (
    BeginEpoch,
    CarryState,
    GradientNorm,
    StopOnNaN,
    StopWhenStalled,
    Validation,
)
from keras_tying.training.checkpointing import Checkpoints
from keras_tying.training.checkpoints import CheckpointStore
from keras_tying.training.evaluation import stream_perplexity
from keras_tying.training.feeding import feed
from keras_tying.training.fitting import STEPS_PER_CALL, fit_to_the_end
from keras_tying.training.progress import Progress
from keras_tying.training.runs import Run
from keras_tying.training.schedules import decayed_rate
from keras_tying.training.tensorboard import TensorBoardLog
from keras_tying.training.window_batches import WindowBatches


@dataclass(frozen=True)
class Schedule:
    """How a language model is trained; see the recipes' `[optimisation]` table."""

    batch_size: int
    steps: int
    learning_rate: float
    clip_norm: float
    epochs: int
    full_rate_epochs: int
    decay: float
    patience: int | None = None
    weight_decay: float = 0.0
    l2: float = 0.0


def train_language_model(
    model: keras.Model,
    train_ids: np.ndarray | PreparedText,
    valid_ids: np.ndarray | PreparedText,
    vocabulary: Vocabulary,
    schedule: Schedule,
    run: Run,
    checkpoint_minutes: float = 5.0,
    loss: keras.losses.Loss | str = "auto",
) -> Checkpoints:
    """Trains `model`, continuing from the run's newest checkpoint if it has one.

    Stopped at any moment and continued, training ends with the weights of an undisturbed run.

    Args:
        model: An untrained `LanguageModel`.
        train_ids: Training text `[N]`, in memory or on disk.
        valid_ids: Validation text, read after each epoch in as many rows as a batch has.
        vocabulary: Names the words in TensorBoard.
        schedule: Batches, learning rates and epochs.
        run: Folder that receives checkpoints and logs.
        checkpoint_minutes: Time between checkpoints within an epoch.
        loss: What `model.compile` takes.

    Returns:
        The checkpoint callback, with the history of all epochs and the training time.

    Raises:
        TrainingDiverged: If the loss becomes NaN or infinite.
        TrainingInterrupted: If SIGINT or SIGTERM asked to stop; a checkpoint is written.
    """
    cut = windows(train_ids, schedule.batch_size, schedule.steps, len(vocabulary))
    model.carry_state(schedule.batch_size)
    model.compile(
        ClippedSGD(schedule.learning_rate, schedule.clip_norm, schedule.weight_decay, weight_decay=schedule.l2 or None),
        loss,
        steps_per_execution=STEPS_PER_CALL,
    )
    checkpoints = Checkpoints(CheckpointStore(run.checkpoints), checkpoint_minutes, cut.batches)
    checkpoints.restore(model)
    batches = WindowBatches(cut)
    callbacks = _callbacks(model, batches, valid_ids, vocabulary, schedule, run, checkpoints)

    def data(epoch: int, batch: int) -> dict[str, Any]:
        batches.begin(epoch, batch)
        return feed(model, batches)

    fit_to_the_end(model, data, schedule.epochs, schedule.patience, checkpoints, callbacks)
    return checkpoints


def _callbacks(model, batches, valid_ids, vocabulary, schedule, run, checkpoints) -> list:
    def rate(epoch: int, _: float) -> float:
        return decayed_rate(epoch, schedule.learning_rate, schedule.full_rate_epochs, schedule.decay)

    def sample() -> str:
        words = model.generate(np.array([[vocabulary.end_id]]), 60, seed=0)
        return " ".join(vocabulary.decode(words[0]))

    return [
        BeginEpoch(batches),
        CarryState(),
        keras.callbacks.LearningRateScheduler(rate),
        StopOnNaN(),
        Validation(lambda: stream_perplexity(model, valid_ids, schedule.batch_size)),
        GradientNorm(),
        Progress(
            schedule.epochs, batches.windows.batches, schedule.batch_size * schedule.steps, lambda: checkpoints.batch
        ),
        TensorBoardLog(run.tensorboard, vocabulary.words, sample),
        checkpoints,
        StopWhenStalled(checkpoints.history, schedule.patience),
    ]
