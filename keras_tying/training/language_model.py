"""Training a language model by recipe, from an empty folder or from where a run stood."""

from dataclasses import dataclass

import keras
import numpy as np

from keras_tying.data import Vocabulary, Windows, windows
from keras_tying.losses import SequenceCrossEntropy
from keras_tying.optimizers import ClippedSGD
from keras_tying.training.callbacks import (
    CarryState,
    GradientNorm,
    StopOnNaN,
    StopWhenStalled,
    Validation,
    stalled,
)
from keras_tying.training.checkpointing import Checkpoints
from keras_tying.training.checkpoints import CheckpointStore
from keras_tying.training.progress import Progress
from keras_tying.training.runs import Run
from keras_tying.training.schedules import decayed_rate
from keras_tying.training.tensorboard import TensorBoardLog

STEPS_PER_CALL = 1 if keras.backend.backend() == "torch" else 20
"""Training steps a compiled call takes; losses are read back between calls. PyTorch compiles none."""


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


def train_language_model(
    model: keras.Model,
    train_ids: np.ndarray,
    valid_ids: np.ndarray,
    vocabulary: Vocabulary,
    schedule: Schedule,
    run: Run,
    checkpoint_minutes: float = 5.0,
) -> Checkpoints:
    """Trains `model`, continuing from the run's newest checkpoint if it has one.

    Stopped at any moment and continued, training ends with the weights of an undisturbed run.

    Args:
        model: An untrained `LanguageModel`.
        train_ids: Training text `[N]`.
        valid_ids: Validation text, read after each epoch in as many rows as a batch has.
        vocabulary: Names the words in TensorBoard.
        schedule: Batches, learning rates and epochs.
        run: Folder that receives checkpoints and logs.
        checkpoint_minutes: Time between checkpoints within an epoch.

    Returns:
        The checkpoint callback, with the history of all epochs and the training time.

    Raises:
        TrainingDiverged: If the loss becomes NaN or infinite.
        TrainingInterrupted: If SIGINT or SIGTERM asked to stop; a checkpoint is written.
    """
    cut = windows(train_ids, schedule.batch_size, schedule.steps, len(vocabulary))
    model.carry_state(schedule.batch_size)
    model.compile(
        ClippedSGD(schedule.learning_rate, schedule.clip_norm),
        SequenceCrossEntropy(),
        steps_per_execution=STEPS_PER_CALL,
    )
    checkpoints = Checkpoints(CheckpointStore(run.checkpoints), checkpoint_minutes, cut.batches)
    checkpoints.restore(model)
    callbacks = _callbacks(model, cut, valid_ids, vocabulary, schedule, run, checkpoints)

    def fit(cut: Windows, last: int) -> None:
        if checkpoints.epoch >= last or stalled(checkpoints.history, schedule.patience):
            return
        model.fit(
            cut.inputs,
            cut.targets,
            batch_size=cut.batch_size,
            shuffle=False,
            initial_epoch=checkpoints.epoch,
            epochs=last,
            callbacks=callbacks,
            verbose=0,
        )

    with checkpoints.stop_on_signals():
        if checkpoints.batch:  # the rest of an epoch that was interrupted
            fit(cut.since(checkpoints.batch), checkpoints.epoch + 1)
        fit(cut, schedule.epochs)
    return checkpoints


def _callbacks(model, cut, valid_ids, vocabulary, schedule, run, checkpoints) -> list:
    def rate(epoch: int, _: float) -> float:
        return decayed_rate(epoch, schedule.learning_rate, schedule.full_rate_epochs, schedule.decay)

    def sample() -> str:
        words = model.generate(np.array([[vocabulary.end_id]]), 60, seed=0)
        return " ".join(vocabulary.decode(words[0]))

    return [
        CarryState(),
        keras.callbacks.LearningRateScheduler(rate),
        StopOnNaN(),
        Validation(valid_ids, schedule.batch_size),
        GradientNorm(),
        Progress(schedule.epochs, cut.batches, schedule.batch_size * schedule.steps, lambda: checkpoints.batch),
        TensorBoardLog(run.tensorboard, vocabulary.words, sample),
        checkpoints,
        StopWhenStalled(checkpoints.history, schedule.patience),
    ]
