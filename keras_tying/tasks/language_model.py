"""Language models: windows of a text, carried state, perplexity."""

import math
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import safetensors.numpy

from keras_tying.data import SPLITS, PreparedText, Vocabulary, Windows, windows
from keras_tying.data.text import warn_of_unknown_words
from keras_tying.files import write_atomically
from keras_tying.inference import DynamicEvaluation, NeuralCache, TemperedSoftmax, TrainedLanguageModel
from keras_tying.inference.dynamic_evaluation import check_training_text
from keras_tying.inference.language_model import check_length, mc_perplexity, stream_perplexity
from keras_tying.models import LanguageModel
from keras_tying.tasks.markdown import markdown
from keras_tying.tasks.text import TextTask, open_corpus
from keras_tying.training.batches import BlockBatches
from keras_tying.training.progress import Progress
from keras_tying.training.runs import Run, RunSettings

INITIAL_WEIGHTS = "initial_weights.safetensors"
GENERATED_WORDS = 60
"""Length of the sample text in TensorBoard."""
FIRST_WORDS = 1_000_000
"""Words of a text that are looked at."""


class LanguageModelTask(TextTask):
    """A recurrent language model of the zoo on one text."""

    name = "language_model"
    model_class = LanguageModel
    splits = SPLITS

    ids: dict[str, np.ndarray | PreparedText]
    """Word ids of each split."""

    def __init__(self, settings: RunSettings):
        super().__init__(settings)
        self.start: TrainedLanguageModel | None = None
        """The trained model that a new run starts from. Its words become those of the run."""
        self.initial_weights: dict[str, np.ndarray] = {}
        """Weights that training starts from, by place. Empty: random ones."""

    @property
    def best_metric(self) -> str | None:  # type: ignore[override]  # the recipe decides
        return "val_perplexity" if self.recipe.optimisation.keep_best else None

    @property
    def epoch_size(self) -> int:
        return len(self.ids["train"])

    def learn_vocabularies(self) -> dict[str, Any]:
        data = self.recipe.data
        if self.start is not None:
            return {"vocabulary.txt": self._vocabulary_of_start(self.start)}
        vocabulary = self.vocabulary_of_corpus()
        if data.corpus != "files" and data.vocabulary_size not in (None, len(vocabulary)):
            raise ValueError(
                f"The recipe is made for {data.vocabulary_size:,} words of the corpus {data.corpus!r}. "
                f"Received: a corpus of {len(vocabulary):,}. Check the data folder, or change data.vocabulary_size."
            )
        return {"vocabulary.txt": vocabulary}

    def _vocabulary_of_start(self, start: TrainedLanguageModel) -> Vocabulary:
        """Takes weights and words of a trained model; `add_words` adds those of the training text."""
        if self.settings.add_words:
            found = self.vocabulary_of_corpus().words
            start = start.with_vocabulary([*start.vocabulary.words, *(w for w in found if w not in start.vocabulary)])
        else:
            self.warn_of_tokenization()
        values = (keras.ops.convert_to_numpy(weight) for weight in start.model.weights)
        self.initial_weights = {f"{place:03d}": np.array(value, order="C") for place, value in enumerate(values)}
        return start.vocabulary

    def write_files(self, folder: Path) -> None:
        super().write_files(folder)
        if self.initial_weights:
            write_atomically(folder / INITIAL_WEIGHTS, safetensors.numpy.save(self.initial_weights))

    def open_files(self, run: Run) -> None:
        super().open_files(run)
        if INITIAL_WEIGHTS in self.settings.fingerprints:
            path = self.checked(run, INITIAL_WEIGHTS, "file of initial weights")
            self.initial_weights = safetensors.numpy.load_file(path)

    def load_text(self) -> None:
        corpus = open_corpus(self.settings)
        self.ids = {split: corpus.ids(split, self.vocabulary) for split in SPLITS}
        self.windows()  # the training text is long enough
        for split, rows in (("valid", self.recipe.optimisation.batch_size), ("test", 1)):
            check_length(self.ids[split], rows, f"The {split} text")
        for split, ids in self.ids.items():
            share = np.mean(ids[:FIRST_WORDS] == self.vocabulary.unknown_id)
            warn_of_unknown_words(share, split, self.tokenization)

    def build_model(self) -> keras.Model:
        model = self.create_model(vocabulary_size=len(self.vocabulary))
        if self.initial_weights:
            for place, weight in enumerate(model.weights):
                weight.assign(self.initial_weights[f"{place:03d}"])
        return model

    def windows(self) -> Windows:
        """The training text, cut into windows."""
        settings = self.recipe.optimisation
        return windows(self.ids["train"], settings.batch_size, settings.sequence_length, len(self.vocabulary))

    def describe(self, model: keras.Model) -> str:
        settings, batches = self.recipe.optimisation, self._window_batches()
        cut = batches.windows
        unused = cut.lost + (cut.batches - batches.total) * batches.words_per_batch
        return (
            f"parameters  {model.count_params():,} (untied: {untied_parameters(model):,})\n"
            f"vocabulary  {len(self.vocabulary):,} words\n"
            + "".join(f"{split:10}  {len(ids):,} tokens\n" for split, ids in self.ids.items())
            + f"batches     {batches.total:,} per epoch, {settings.batch_size} rows x {settings.sequence_length} words"
            f"; {unused:,} training tokens at the ends of rows are not used"
        )

    def batches(self, model: keras.Model) -> "WindowBatches":
        model.carry_state(self.recipe.optimisation.batch_size)
        return self._window_batches()

    def _window_batches(self) -> "WindowBatches":
        seed = self.settings.seed if self.recipe.optimisation.random_starts else None
        return WindowBatches(self.windows(), seed)

    def validate(self, model: keras.Model) -> dict[str, float]:
        """Perplexity of the validation text, read in as many rows as a training batch has."""
        return {"val_perplexity": stream_perplexity(model, self.ids["valid"], self.recipe.optimisation.batch_size)}

    def sample(self, model: keras.Model) -> tuple[str, str]:
        words = model.generate(np.array([[self.vocabulary.end_id]]), GENERATED_WORDS, seed=0)
        return "generated text", markdown(" ".join(self.vocabulary.decode(words[0])))

    def word_frequencies(self, model: keras.Model) -> dict[str, dict[str, int]]:
        return dict.fromkeys(model.embedding_matrices(), self.vocabulary.frequencies(self.ids["train"]))

    def last_metrics(self, progress: Progress) -> dict[str, Any]:
        if self.recipe.loss.name == "sampled" or not progress.history:  # over words that were drawn, or none
            return {}
        epoch = progress.history[-1]
        if self.recipe.train_perplexity == "best_epoch":
            epoch = min(progress.history, key=lambda metrics: metrics["val_perplexity"])
        return {"train_perplexity": epoch["perplexity"]}

    def measure(self, model: keras.Model) -> dict[str, Any]:
        results = {
            "validation_perplexity": stream_perplexity(model, self.ids["valid"]),
            "test_perplexity": stream_perplexity(model, self.ids["test"]),
        }
        if self.recipe.train_perplexity == "trained_model":
            rows = self.recipe.optimisation.batch_size
            results["train_perplexity"] = stream_perplexity(model, self.ids["train"], rows)
        return results

    def headline(self, results: dict[str, Any]) -> str:
        return f"test perplexity {results['test_perplexity']:.2f} (validation {results['validation_perplexity']:.2f})"

    def trained(self, model: keras.Model) -> TrainedLanguageModel:
        return TrainedLanguageModel(model, self.vocabulary, self.tokenization)

    def evaluate(self, model: keras.Model, arguments: Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
        texts = {split: self.ids[split] for split in ("valid", "test")}
        ways = [f"--{name}" for name in ("temperature", "cache", "dynamic") if name in arguments.given]
        if ways and self.settings.text["valid"] == self.settings.text["test"]:
            raise ValueError(
                f"The settings of {', '.join(ways)} are chosen on the validation text, which must not be the test "
                "text. Received: one text for both."
            )
        if arguments.mc_passes is not None:
            check_length(texts["test"], self.recipe.optimisation.batch_size, "With --mc-passes the test text")
        if arguments.dynamic:
            check_training_text(self.ids["train"])
        for split, ids in texts.items():
            yield f"{split:5} perplexity {stream_perplexity(model, ids):8.2f} over {len(ids) - 1:,} words", {}
        if (passes := arguments.mc_passes) is not None:
            settings = self.recipe.optimisation
            for split, ids in texts.items():
                averaged = mc_perplexity(model, ids, passes, settings.batch_size, settings.sequence_length)
                yield f"{split:5} perplexity {averaged:8.2f} by the mean of {passes} passes with dropout", {}
        for way in self._other_ways(model, arguments):
            validation = way.fit(texts["valid"]).fitted_perplexity
            yield f"valid perplexity {validation:8.2f} with {way.settings}", {}
            test = way.perplexity(texts["test"])
            metrics = {f"validation_perplexity_{way.name}": validation, f"test_perplexity_{way.name}": test}
            yield f"test  perplexity {test:8.2f} with {way.settings}", metrics | {f"{way.name}_settings": way.settings}

    def _other_ways(self, model: keras.Model, arguments: Namespace) -> Iterator[Any]:
        """The other ways to measure that the arguments ask for. Their settings are chosen on the validation text."""
        if "temperature" in arguments.given:
            yield TemperedSoftmax(model)
        if arguments.cache:
            yield NeuralCache(model)
        if arguments.dynamic:
            yield DynamicEvaluation(model, self.ids["train"])


def untied_parameters(model: keras.Model) -> int:
    """Number of parameters of a language model of the zoo if it were untied. It is not made, as it may be large."""
    alone = ("bias", "cluster_bias", "clusters")  # which embed no words
    shared = [weight for weight in model.embedding.weights if model.tied and weight.name not in alone]
    return model.count_params() + sum(math.prod(weight.shape) for weight in shared)


class WindowBatches(BlockBatches):
    """Windows of a text in batches, the same in each epoch or with random starts.

    With random starts each epoch skips a number of words below `sequence_length` at the start of every row, so that
    windows end at other words, and an epoch has one batch less. Merity et al. draw the length of each window for this
    purpose; with one length, one shape of batches is compiled, and the learning rate needs no scale.

    Args:
        windows: The text.
        seed: Seed of random starts. Default: the windows are the same in each epoch.

    Raises:
        ValueError: If random starts leave no batch.

    Reference:
        Merity, Keskar and Socher, Regularizing and Optimizing LSTM Language Models, 2018, section 4.1.
    """

    def __init__(self, windows: Windows, seed: int | None = None):
        super().__init__()
        self.windows = windows
        self.seed = seed
        self.batch_size = windows.batch_size
        self.total = windows.batches - (seed is not None)
        self.words_per_batch = windows.batch_size * windows.sequence_length
        if self.total < 1:
            raise ValueError(
                "With optimisation.random_starts a text needs at least two windows per row. "
                f"Received: {len(windows.ids):,} tokens. Use more text, a smaller batch size or shorter windows."
            )

    def block(self, index: int, count: int, rows: slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets `int32 [N, B, T]` of up to `count` batches."""
        first = self.first_batch + index
        return self.windows.block(first, min(count, self.total - first), rows, skip=self._skip())

    def _skip(self) -> int:
        """Words that this epoch skips."""
        if self.seed is None:
            return 0
        return int(np.random.default_rng([self.seed, self.epoch]).integers(self.windows.sequence_length))
