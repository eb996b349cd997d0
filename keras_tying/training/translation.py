"""Training a translation model, from an empty folder or from where a run stood."""

from collections.abc import Sequence

import keras
from matplotlib.figure import Figure

from keras_tying.backend.replicas import replicas_of
from keras_tying.data import PairBatches, SentencePairs, Subwords
from keras_tying.losses import SequenceCrossEntropy
from keras_tying.metrics import translation_scores
from keras_tying.training.attention_pictures import attention_figure
from keras_tying.training.callbacks import BeginEpoch, LearningRate, StopOnNaN, StopWhenStalled, Validation
from keras_tying.training.checkpointing import Checkpoints, KeepBest
from keras_tying.training.checkpoints import CheckpointStore
from keras_tying.training.feeding import feed
from keras_tying.training.fitting import fit_to_the_end
from keras_tying.training.progress import Progress
from keras_tying.training.runs import Run
from keras_tying.training.tensorboard import TensorBoardLog
from keras_tying.training.translation_batches import STEPS_PER_CALL, TranslationBatches
from keras_tying.training.translation_evaluation import pair_perplexity, translate_sentences
from keras_tying.training.translation_recipes import TranslationSchedule

SAMPLES = 10
"""Validation sentences shown with their translations."""


def train_translator(
    model: keras.Model,
    train: SentencePairs,
    valid: Sequence[tuple[str, str]],
    subwords: Subwords,
    schedule: TranslationSchedule,
    run: Run,
    seed: int,
    checkpoint_minutes: float = 5.0,
) -> Checkpoints:
    """Trains `model`, continuing from the run's newest checkpoint, and leaves it where it was best.

    Stopped at any moment and continued, training ends with the weights of an undisturbed run.

    Args:
        model: An untrained `Translator`.
        train: Training text.
        valid: Validation text, translated greedily after each epoch; the parameters with its best BLEU
            are kept.
        subwords: The subwords both are made of.
        schedule: Optimizer, batches and epochs.
        run: Folder that receives checkpoints and logs.
        seed: Decides the order of the pairs.
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
    best = KeepBest(CheckpointStore(run.best, keep=1), checkpoints.history, "val_bleu")
    valid_pairs = SentencePairs.encode(valid, subwords, subwords)
    sources, references = zip(*valid, strict=True)
    translations: list[str] = []

    def bleu() -> float:
        translations[:] = translate_sentences(model, subwords, sources, beam_size=1)
        return translation_scores(translations, references)["bleu"]

    def sample() -> str:
        rows = zip(sources[:SAMPLES], references, translations, strict=False)
        return "\n\n".join(f"{source}\n\n- {reference}\n- {found}" for source, reference, found in rows)

    def picture() -> Figure:
        return attention_figure(model, subwords, sources[0], translations[0])

    order = TranslationBatches(batches, replicas_of(model))
    callbacks = [
        BeginEpoch(order),
        LearningRate(),
        StopOnNaN(),
        Validation(lambda: pair_perplexity(model, valid_pairs)),
        Validation(bleu, "val_bleu"),
        Progress(schedule.epochs, len(batches), round(train.target_tokens / len(batches)), lambda: checkpoints.batch),
        TensorBoardLog(run.tensorboard, subwords.words, sample, "translations", picture),
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


def optimizer(schedule: TranslationSchedule, batches: int) -> keras.optimizers.Optimizer:
    """The optimizer of a schedule, for epochs of so many batches."""
    rate = schedule.learning_rate
    if schedule.final_learning_rate is not None:
        rate = keras.optimizers.schedules.PolynomialDecay(rate, schedule.epochs * batches, schedule.final_learning_rate)
    if schedule.optimizer == "adadelta":
        return keras.optimizers.Adadelta(rate, rho=0.95, epsilon=1e-6, global_clipnorm=schedule.clip_norm)
    return keras.optimizers.Adam(rate, global_clipnorm=schedule.clip_norm)
