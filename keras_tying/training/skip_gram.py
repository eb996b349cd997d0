"""Training skip-gram embeddings, from an empty folder or from where a run stood."""

from typing import Any, Literal

import keras
import numpy as np
from pydantic import Field

from keras_tying.backend.replicas import replicas_of
from keras_tying.data import PreparedText, SkipGramBatches, Vocabulary, word_counts
from keras_tying.data.skip_gram import noise_distribution
from keras_tying.metrics import nearest_neighbours
from keras_tying.tables import Table
from keras_tying.training.callbacks import LearningRate, StopOnNaN
from keras_tying.training.checkpointing import Checkpoints
from keras_tying.training.checkpoints import CheckpointStore
from keras_tying.training.fitting import STEPS_PER_CALL, fit_to_the_end
from keras_tying.training.progress import Progress
from keras_tying.training.runs import Run
from keras_tying.training.tensorboard import TensorBoardLog
from keras_tying.zoo.recipes import Precision

SPAN = 16
SPANS_OF_A_BATCH = 64
LARGEST_STEP = 12.0


class SkipGramSettings(Table):
    """Everything that decides a run: `config.toml` of its folder."""

    corpus: str = "embedded"
    """Name of a corpus, or `"files"`."""
    files: list[str] | None = None
    prepared: str | None = None
    """Folder of a prepared text, instead of a corpus; its vocabulary is as it was prepared."""
    data_dir: str | None = None
    tokenization: Literal["spaces", "plain", "letters"] | None = None
    """How lines become tokens; `None` leaves it to the corpus."""
    minimum_count: int = Field(default=5, ge=1)
    """Words seen less often are passed over."""
    tied: bool = False
    units: int = Field(default=100, ge=1)
    window: int = Field(default=5, ge=1)
    negatives: int = Field(default=5, ge=1)
    subsample: float = Field(default=1e-3, ge=0)
    """Words whose share of the text is larger are thinned out; 0 keeps all."""
    learning_rate: float = Field(default=0.025, gt=0)
    """It falls linearly over the run."""
    final_learning_rate: float = Field(default=1e-4, ge=0)
    epochs: int = Field(default=5, ge=1)
    seed: int = 1
    precision: Precision = "float32"
    """Of computation; variables stay float32."""
    vocabulary_sha256: str = ""
    command: str = ""


def train_skip_gram(
    model: keras.Model,
    ids: np.ndarray | PreparedText,
    vocabulary: Vocabulary,
    settings: SkipGramSettings,
    run: Run,
    checkpoint_minutes: float = 5.0,
) -> Checkpoints:
    """Trains `model`, continuing from the run's newest checkpoint if it has one.

    Stopped at any moment and continued, training ends with the weights of an undisturbed run.

    Args:
        model: An untrained `SkipGram`.
        ids: The text `int32 [N]`, on disk or in memory.
        vocabulary: Its words; `<unk>` and `<eos>` are not trained.
        settings: Windows, learning rate, epochs and seed.
        run: Folder that receives checkpoints and logs.
        checkpoint_minutes: Time between checkpoints within an epoch.

    Returns:
        The checkpoint callback, with the history of all epochs and the training time.

    Raises:
        ValueError: If fewer than two different words occur in the text.
        TrainingDiverged: If the loss becomes NaN or infinite.
        TrainingInterrupted: If SIGINT or SIGTERM asked to stop; a checkpoint is written.
    """
    counts = word_counts(ids, vocabulary)
    text = SkipGramBatches(
        ids,
        counts,
        vocabulary.end_id,
        settings.window,
        settings.subsample,
        SPAN,
        spans_of_a_batch(counts, settings, replicas_of(model)),
        seed=settings.seed,
    )
    model.compile(
        keras.optimizers.SGD(
            keras.optimizers.schedules.PolynomialDecay(
                settings.learning_rate, settings.epochs * text.batches, settings.final_learning_rate
            )
        ),
        steps_per_execution=STEPS_PER_CALL,
    )
    checkpoints = Checkpoints(CheckpointStore(run.checkpoints), checkpoint_minutes, text.batches)
    checkpoints.restore(model)
    callbacks = [
        LearningRate(),
        StopOnNaN(),
        Progress(settings.epochs, text.batches, round(len(ids) / text.batches), lambda: checkpoints.batch),
        TensorBoardLog(run.tensorboard, vocabulary.words, lambda: _neighbours(model, vocabulary), "nearest words"),
        checkpoints,
    ]

    def data(epoch: int, batch: int) -> dict[str, Any]:
        return {"x": ((each,) for each in text.epoch(epoch, batch)), "steps_per_epoch": text.batches - batch}

    fit_to_the_end(model, data, settings.epochs, None, checkpoints, callbacks)
    return checkpoints


def spans_of_a_batch(counts: np.ndarray, settings: SkipGramSettings, replicas: int = 1) -> int:
    """Spans whose updates may be summed, so that a batch does what word2vec's single updates do.

    The most frequent word is drawn as a negative again and again within a batch. Its row moves by the sum,
    and if learning rate times draws exceeds `LARGEST_STEP`, which small vocabularies reach soon, the row
    overshoots and training diverges. So the batch is kept smaller for them.

    Args:
        counts: Occurrences `[V]`.
        settings: Learning rate, negatives and window.
        replicas: Of the model, each of which gets as many.
    """
    draws = settings.negatives * (settings.window + 1) * noise_distribution(counts).max()  # for each word of the text
    spans = int(np.clip(LARGEST_STEP / (settings.learning_rate * draws * SPAN), 1, SPANS_OF_A_BATCH))
    return max(spans // replicas, 1) * replicas


def _neighbours(model: keras.Model, vocabulary: Vocabulary, words: int = 20, near: int = 8) -> str:
    """Words of the middle of the vocabulary with the words nearest to them, as a Markdown list."""
    matrix = keras.ops.convert_to_numpy(model.embedding.embeddings)
    ids = np.unique(np.linspace(0.05, 0.25, words) * len(vocabulary)).astype(int)
    nearest, _ = nearest_neighbours(matrix, ids, near)
    lines = zip(vocabulary.decode(ids), map(vocabulary.decode, nearest), strict=True)
    return "\n".join(f"- {word}: {', '.join(others)}" for word, others in lines)
