"""Training a translation model, from an empty folder or from where a run stood."""

from collections.abc import Callable

import keras
import numpy as np

from keras_tying.data import PairBatches, SentencePairs
from keras_tying.losses import SequenceCrossEntropy
from keras_tying.training.callbacks import BeginEpoch, LearningRate, StopOnNaN, StopWhenStalled, Validation
from keras_tying.training.checkpointing import Checkpoints, KeepBest
from keras_tying.training.checkpoints import CheckpointStore
from keras_tying.training.fitting import STEPS_PER_CALL, fit_to_the_end
from keras_tying.training.progress import Progress
from keras_tying.training.runs import Run
from keras_tying.training.tensorboard import TensorBoardLog
from keras_tying.training.translation_batches import TranslationBatches, of_any_shape
from keras_tying.training.translation_recipes import TranslationSchedule


def train_translator(
    model: keras.Model,
    train: SentencePairs,
    valid: SentencePairs,
    words: list[str],
    schedule: TranslationSchedule,
    run: Run,
    seed: int,
    sample: Callable[[], str],
    checkpoint_minutes: float = 5.0,
) -> Checkpoints:
    """Trains `model`, continuing from the run's newest checkpoint, and leaves it where it was best.

    Stopped at any moment and continued, training ends with the weights of an undisturbed run.

    Args:
        model: An untrained `Translator`.
        train: Training text.
        valid: Validation text; the parameters with its best perplexity are kept.
        words: Target subwords, named in TensorBoard.
        schedule: Optimizer, batches and epochs.
        run: Folder that receives checkpoints and logs.
        seed: Decides the order of the pairs.
        sample: Returns a text that shows what the model has learned, for TensorBoard.
        checkpoint_minutes: Time between checkpoints within an epoch.

    Returns:
        The checkpoint callback, with the history of all epochs and the training time.

    Raises:
        ValueError: If a batch cannot hold the longest sentence.
        TrainingDiverged: If the loss becomes NaN or infinite.
        TrainingInterrupted: If SIGINT or SIGTERM asked to stop; a checkpoint is written.
    """
    batches = PairBatches(train, schedule.batch_tokens, seed)
    model.compile(
        optimizer(schedule, len(batches)),
        SequenceCrossEntropy("mean", label_smoothing=schedule.label_smoothing),
        steps_per_execution=STEPS_PER_CALL,
    )
    checkpoints = Checkpoints(CheckpointStore(run.checkpoints), checkpoint_minutes, len(batches))
    checkpoints.restore(model)
    best = KeepBest(CheckpointStore(run.best, keep=1), checkpoints.history)
    order = TranslationBatches(batches)
    callbacks = [
        BeginEpoch(order),
        LearningRate(),
        StopOnNaN(),
        Validation(lambda: pair_perplexity(model, valid)),
        Progress(schedule.epochs, len(batches), round(batches.words / len(batches)), lambda: checkpoints.batch),
        TensorBoardLog(run.tensorboard, words, sample, "translations"),
        best,
        checkpoints,
        StopWhenStalled(checkpoints.history, schedule.patience),
    ]

    def data(epoch: int, batch: int) -> dict:
        order.begin(epoch, batch)
        return {"x": of_any_shape(order)}

    fit_to_the_end(model, data, schedule.epochs, schedule.patience, checkpoints, callbacks)
    best.restore(model)
    return checkpoints


def optimizer(schedule: TranslationSchedule, batches: int) -> keras.optimizers.Optimizer:
    """The optimizer of a schedule, for epochs of so many batches."""
    rate = schedule.learning_rate
    if schedule.final_learning_rate is not None:
        rate = keras.optimizers.schedules.PolynomialDecay(
            rate, schedule.epochs * batches, schedule.final_learning_rate
        )
    if schedule.optimizer == "adadelta":
        return keras.optimizers.Adadelta(rate, rho=0.95, epsilon=1e-6, global_clipnorm=schedule.clip_norm)
    return keras.optimizers.Adam(rate, global_clipnorm=schedule.clip_norm)


def pair_perplexity(model: keras.Model, pairs: SentencePairs, batch_tokens: int = 4000) -> float:
    """Exact perplexity of target sentences, their ends included, given their sources."""
    total = 0.0
    longest = int(max(pairs.source_lengths.max(), pairs.target_lengths.max()))
    for chosen in PairBatches(pairs, max(batch_tokens, longest), seed=0).order(0):
        inputs, targets, weights = pairs.batch(chosen)
        scores = model.score(inputs, np.where(weights > 0, targets, -1))
        total -= float(np.sum(scores, dtype=np.float64))
    with np.errstate(over="ignore"):  # a model that has diverged has infinite perplexity
        return float(np.exp(total / len(pairs.targets)))
