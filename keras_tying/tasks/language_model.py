"""Language models: windows of a text, carried state, perplexity."""

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_tying.data import SPLITS, PreparedText, Windows, windows
from keras_tying.data.batching import rows_of
from keras_tying.metrics.perplexity import perplexity_of
from keras_tying.tasks.text import TextTask, open_corpus
from keras_tying.training.batches import BlockBatches
from keras_tying.training.progress import Progress

GENERATED_WORDS = 60
"""Length of the sample text in TensorBoard."""


class LanguageModelTask(TextTask):
    """A recurrent language model of the zoo on one text."""

    name = "language_model"
    script = "train/lm.py"
    splits = SPLITS

    ids: dict[str, np.ndarray | PreparedText]
    """Word ids of each split."""

    @property
    def epoch_size(self) -> int:
        return len(self.ids["train"])

    def learn_vocabularies(self) -> dict[str, Any]:
        data = self.recipe.data
        vocabulary = self.vocabulary_of_corpus()
        if data.corpus != "files" and data.vocabulary_size not in (None, len(vocabulary)):
            raise ValueError(
                f"The recipe is made for {data.vocabulary_size:,} words of the corpus {data.corpus!r}. "
                f"Received: a corpus of {len(vocabulary):,}. Check the data folder, or change data.vocabulary_size."
            )
        return {"vocabulary.txt": vocabulary}

    def load_text(self) -> None:
        corpus = open_corpus(self.settings)
        self.ids = {split: corpus.ids(split, self.vocabulary) for split in SPLITS}
        self.windows()  # the training text is long enough
        for split, rows in (("valid", self.recipe.optimisation.batch_size), ("test", 1)):
            check_length(self.ids[split], rows, f"The {split} text")

    def build_model(self, **changes: Any) -> keras.Model:
        return self.create_model(changes, vocabulary_size=len(self.vocabulary))

    def windows(self) -> Windows:
        """The training text, cut into windows."""
        settings = self.recipe.optimisation
        return windows(self.ids["train"], settings.batch_size, settings.sequence_length, len(self.vocabulary))

    def describe(self, model: keras.Model) -> str:
        settings, cut = self.recipe.optimisation, self.windows()
        untied = self.build_model(tied=False).count_params()
        return (
            f"parameters  {model.count_params():,} (untied: {untied:,})\n"
            f"vocabulary  {len(self.vocabulary):,} words\n"
            + "".join(f"{split:10}  {len(ids):,} tokens\n" for split, ids in self.ids.items())
            + f"batches     {cut.batches:,} per epoch, {settings.batch_size} rows x {settings.sequence_length} words; "
            f"{cut.lost:,} training tokens at the ends of rows are not used"
        )

    def batches(self, model: keras.Model) -> "WindowBatches":
        model.carry_state(self.recipe.optimisation.batch_size)
        return WindowBatches(self.windows())

    def validate(self, model: keras.Model) -> dict[str, float]:
        """Perplexity of the validation text, read in as many rows as a training batch has."""
        return {"val_perplexity": stream_perplexity(model, self.ids["valid"], self.recipe.optimisation.batch_size)}

    def sample(self, model: keras.Model) -> tuple[str, str]:
        words = model.generate(np.array([[self.vocabulary.end_id]]), GENERATED_WORDS, seed=0)
        return "generated text", " ".join(self.vocabulary.decode(words[0]))

    def word_frequencies(self, model: keras.Model) -> dict[str, dict[str, int]]:
        return dict.fromkeys(model.embedding_matrices(), self.vocabulary.frequencies(self.ids["train"]))

    def measure(self, model: keras.Model, progress: Progress) -> dict[str, Any]:
        return {
            "train_perplexity": progress.history[-1]["perplexity"],
            "validation_perplexity": stream_perplexity(model, self.ids["valid"]),
            "test_perplexity": stream_perplexity(model, self.ids["test"]),
        }

    def headline(self, results: dict[str, Any]) -> str:
        return f"test perplexity {results['test_perplexity']:.2f} (validation {results['validation_perplexity']:.2f})"

    def export(self, model: keras.Model, path: Path) -> None:
        from keras_tying.export import export_language_model

        tokenization = self.recipe.data.tokenization or open_corpus(self.settings).tokenization
        export_language_model(model, self.vocabulary, path, tokenization)

    def evaluate(self, model: keras.Model, arguments: Namespace) -> list[str]:
        lines, settings = [], self.recipe.optimisation
        for split in ("valid", "test"):
            ids = self.ids[split]
            lines.append(f"{split:5} perplexity {stream_perplexity(model, ids):8.2f} over {len(ids) - 1:,} words")
            if arguments.mc_passes is not None:
                averaged = mc_perplexity(model, ids, arguments.mc_passes, settings.batch_size, settings.sequence_length)
                lines.append(
                    f"{split:5} perplexity {averaged:8.2f} by the mean of {arguments.mc_passes} passes with dropout"
                )
        return lines


class WindowBatches(BlockBatches):
    """Windows of a text in batches, the same in each epoch.

    Args:
        windows: The text.
    """

    def __init__(self, windows: Windows):
        super().__init__()
        self.windows = windows
        self.batch_size = windows.batch_size
        self.total = windows.batches
        self.words_per_batch = windows.batch_size * windows.sequence_length

    def block(self, index: int, count: int, rows: slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets `int32 [N, B, T]` of up to `count` batches."""
        return self.windows.block(self.first_batch + index, count, rows)


def stream_perplexity(model, ids: np.ndarray | PreparedText, batch_size: int = 1, sequence_length: int = 500) -> float:
    """Exact perplexity of a text under a language model, with the recurrent state carried through all of it.

    With one row every token but the first is predicted, once. With more rows the text is cut into that
    many contiguous pieces, which is faster and leaves out the first token of each and the few tokens
    that do not divide evenly.

    Args:
        model: A `LanguageModel`, or any object with its `token_log_probabilities`.
        ids: Word ids `[N]`, in memory or on disk.
        batch_size: Number of rows.
        sequence_length: Tokens per call. It bounds the memory and does not change the result.

    Returns:
        `exp` of the mean negative log-likelihood.

    Raises:
        ValueError: If the text is too short to predict anything, or an id is outside the vocabulary.
    """
    total, count = 0.0, 0
    for log_probabilities in _stream(model, ids, batch_size, sequence_length):
        total -= float(np.sum(log_probabilities, dtype=np.float64))
        count += log_probabilities.size
    return perplexity_of(total / count)


def mc_perplexity(
    model, ids: np.ndarray | PreparedText, passes: int, batch_size: int = 1, sequence_length: int = 35
) -> float:
    """Perplexity under the mean probabilities of several passes with dropout (Monte Carlo dropout).

    Args:
        model: A `LanguageModel` with dropout.
        ids: Word ids `[N]`, in memory or on disk.
        passes: Number of passes over the text.
        batch_size: Number of rows, as of `stream_perplexity`.
        sequence_length: Tokens per call. Variational dropout draws new masks for each call: use the window of training.

    Raises:
        ValueError: As `stream_perplexity`; or if `passes` is not positive.

    Reference:
        Gal and Ghahramani, A Theoretically Grounded Application of Dropout in Recurrent Neural Networks, section 5.1.
    """
    if passes < 1:
        raise ValueError(f"`passes` must be at least 1. Received: passes={passes}")
    summed = np.array(-np.inf)  # log of the sum of the probabilities of each token
    for _ in range(passes):
        parts = _stream(model, ids, batch_size, sequence_length, stochastic=True)
        log_probabilities = np.concatenate([part.astype(np.float64) for part in parts], axis=1)
        summed = np.logaddexp(summed, log_probabilities)
    return perplexity_of(np.log(passes) - float(np.mean(summed)))


def _stream(model, ids, batch_size, sequence_length, **options) -> Iterator[np.ndarray]:
    """Log-probabilities `[batch_size, sequence_length]` of a text read from start to end."""
    check_length(ids, batch_size)
    length = len(ids) // batch_size
    states = None
    for start in range(0, length - 1, sequence_length):
        rows = rows_of(ids, batch_size, start, min(start + sequence_length + 1, length))
        log_probabilities, states = model.token_log_probabilities(rows[:, :-1], rows[:, 1:], states, **options)
        yield ops.convert_to_numpy(log_probabilities)


def check_length(ids: np.ndarray | PreparedText, batch_size: int, what: str = "A text") -> None:
    """Raises ValueError if a text is too short to be measured in `batch_size` rows; `what` names it."""
    if len(ids) < 2 * batch_size:
        raise ValueError(
            f"{what} needs at least {2 * batch_size} tokens for {batch_size} rows. Received: {len(ids)} tokens."
        )
