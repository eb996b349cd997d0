"""Training a joint language model on aligned text, from an empty folder or from where a run stood."""

import keras
import numpy as np
from pydantic import Field

from keras_tying.backend.replicas import part_of
from keras_tying.data import JointSamples, Vocabulary
from keras_tying.losses import SequenceCrossEntropy
from keras_tying.optimizers import ClippedSGD
from keras_tying.tables import Table
from keras_tying.training.callbacks import BeginEpoch, GradientNorm, StopOnNaN, StopWhenStalled, Validation
from keras_tying.training.checkpointing import Checkpoints, KeepBest
from keras_tying.training.checkpoints import CheckpointStore
from keras_tying.training.feeding import feed
from keras_tying.training.fitting import STEPS_PER_CALL, fit_to_the_end
from keras_tying.training.joint_batches import JointBatches, model_inputs
from keras_tying.training.progress import Progress
from keras_tying.training.runs import Run
from keras_tying.training.schedules import halved_rate
from keras_tying.training.tensorboard import TensorBoardLog

SAMPLES_PER_CALL = 2048
"""Samples scored at a time when perplexity is measured; it does not change the result."""


class JointSchedule(Table):
    """How a joint language model is trained."""

    batch_size: int = Field(default=128, ge=1)
    learning_rate: float = Field(default=0.3, gt=0)
    """Halved after each epoch that made the validation perplexity worse."""
    clip_norm: float = Field(default=5.0, gt=0)
    """The gradient's global norm is cut down to this."""
    epochs: int = Field(default=30, ge=1)
    """Epochs at most."""
    patience: int = Field(default=5, ge=1)
    """Epochs without a better validation perplexity before training stops."""


def sample_perplexity(model, samples: JointSamples) -> float:
    """Exact perplexity of a text under a `JointLanguageModel`: `exp` of the mean negative log-likelihood."""
    total = 0.0
    for start in range(0, len(samples), SAMPLES_PER_CALL):
        chosen = np.arange(start, min(start + SAMPLES_PER_CALL, len(samples)))
        scores = model.score(model_inputs(model, samples, chosen), samples.target_ids[chosen])
        total -= float(np.sum(scores, dtype=np.float64))
    with np.errstate(over="ignore"):  # a model that has diverged has infinite perplexity
        return float(np.exp(total / len(samples)))


def train_joint_language_model(
    model: keras.Model,
    train: JointSamples,
    valid: JointSamples,
    vocabulary: Vocabulary,
    schedule: JointSchedule,
    run: Run,
    seed: int,
    checkpoint_minutes: float = 5.0,
) -> Checkpoints:
    """Trains `model`, continuing from the run's newest checkpoint, and leaves it where it was best.

    Stopped at any moment and continued, training ends with the weights of an undisturbed run.

    Args:
        model: An untrained `JointLanguageModel`.
        train: Training text.
        valid: Validation text; the parameters with its best perplexity are kept.
        vocabulary: Target words, named in TensorBoard.
        schedule: Batches, learning rates and epochs.
        run: Folder that receives checkpoints and logs.
        seed: Decides the order of the samples.
        checkpoint_minutes: Time between checkpoints within an epoch.

    Returns:
        The checkpoint callback, with the history of all epochs and the training time.

    Raises:
        ValueError: If the text does not fill a batch, or the replicas of the model cannot have as many samples each.
        TrainingDiverged: If the loss becomes NaN or infinite.
        TrainingInterrupted: If SIGINT or SIGTERM asked to stop; a checkpoint is written.
    """
    part_of(model, schedule.batch_size)
    batches = len(train) // schedule.batch_size
    if not batches:
        raise ValueError(
            f"The training text needs at least {schedule.batch_size} target words for one batch. Received: {len(train)}"
        )
    model.compile(
        ClippedSGD(schedule.learning_rate, schedule.clip_norm),
        SequenceCrossEntropy(),
        steps_per_execution=STEPS_PER_CALL,
    )
    checkpoints = Checkpoints(CheckpointStore(run.checkpoints), checkpoint_minutes, batches)
    checkpoints.restore(model)
    best = KeepBest(CheckpointStore(run.best, keep=1), checkpoints.history)

    def rate(epoch: int, _: float) -> float:
        return halved_rate([logs["val_perplexity"] for logs in checkpoints.history], schedule.learning_rate)

    order = JointBatches(model, train, schedule.batch_size, seed)
    callbacks = [
        BeginEpoch(order),
        keras.callbacks.LearningRateScheduler(rate),
        StopOnNaN(),
        Validation(lambda: sample_perplexity(model, valid)),
        GradientNorm(),
        Progress(schedule.epochs, batches, schedule.batch_size, lambda: checkpoints.batch),
        TensorBoardLog(run.tensorboard, vocabulary.words, lambda: _predictions(model, valid, vocabulary)),
        best,
        checkpoints,
        StopWhenStalled(checkpoints.history, schedule.patience),
    ]

    def data(epoch: int, batch: int) -> dict:
        order.begin(epoch, batch)
        return feed(model, order)

    fit_to_the_end(model, data, schedule.epochs, schedule.patience, checkpoints, callbacks)
    best.restore(model)
    return checkpoints


def _predictions(model, samples: JointSamples, vocabulary: Vocabulary, count: int = 40) -> str:
    """The first words of a text, each before the word the model would have put there."""
    chosen = np.arange(min(count, len(samples)))
    scores = keras.ops.convert_to_numpy(model(model_inputs(model, samples, chosen)))
    likeliest = vocabulary.decode(np.argmax(scores, -1))
    return " ".join(
        f"{word} ({guess})"
        for word, guess in zip(vocabulary.decode(samples.target_ids[chosen]), likeliest, strict=True)
    )
