"""Task: the interface between the training engine and a kind of model."""

from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import keras

from keras_tying import zoo
from keras_tying.data import Vocabulary
from keras_tying.files import check_fingerprint, sha256_of, sha256_of_lines
from keras_tying.losses import AugmentedLoss, SampledCrossEntropy, SequenceCrossEntropy
from keras_tying.training.batches import EpochBatches
from keras_tying.training.progress import Progress
from keras_tying.training.runs import Run, RunSettings
from keras_tying.zoo.recipes import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOSSES = {"cross_entropy": SequenceCrossEntropy, "augmented": AugmentedLoss, "sampled": SampledCrossEntropy}
"""Losses by their name in recipes."""

OF_A_PACKAGE = "It depends on the version of Python (of Babel for translators): use that of the run."
OF_THIS_LIBRARY = "It depends on the version of keras-tying: use that of the run, or train anew."
"""What to do if a text has changed that comes with a package, or that this library makes of a download."""

SCRIPTS = {
    "language_model": "train/lm.py",
    "translation": "train/nmt.py",
    "joint_language_model": "train/nnjm.py",
    "skip_gram": "train/word2vec.py",
}
"""The script that trains each task, by the name of the task in recipes."""


class Task(ABC):
    """A kind of model with its text, loss, validation and metrics.

    The engine calls the methods from `learn_vocabularies` on. `given_files`, `changes` and `initial_vectors`
    say what the arguments of its command mean; the arguments themselves are in `keras_tying/commands`.

    Args:
        settings: Everything that decides the run.

    Attributes:
        vocabularies: Vocabularies, or subwords, by their file in the run's folder; see `vocabulary_kinds`.
    """

    name: ClassVar[str]
    """The value of the key `task` in its recipes."""
    model_class: ClassVar[type[keras.Model]]
    """Class of its models."""
    vocabulary_kinds: ClassVar[Mapping[str, type[Any]]]
    """Class of each vocabulary, by file name."""
    default_loss_arguments: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Arguments of the loss where the recipe gives none."""
    best_metric: ClassVar[str | None] = None
    """Validation metric whose best epoch is kept: `"val_perplexity"` or `"val_bleu"`. `None` keeps the last epoch."""
    validation_metrics: ClassVar[tuple[str, ...]] = ("val_perplexity",)
    """Names of what `validate` measures."""
    unit: ClassVar[str] = "words"
    """What an epoch is counted in."""

    def __init__(self, settings: RunSettings):
        self.settings = settings
        self.recipe: Any = settings.recipe
        self.vocabularies: dict[str, Any] = {}
        self._text_is_open = False

    @classmethod
    def given_files(cls, arguments: Namespace) -> dict[str, list[list[Path]]] | None:
        """The user's own text, by split; `None` for a named corpus."""
        return None

    @classmethod
    def changes(cls, recipe: Recipe, arguments: Namespace) -> dict[str, Any]:
        """What this task's own arguments change in a recipe, for example `{"data.corpus": "ptb"}`."""
        return {}

    @classmethod
    def initial_vectors(cls, arguments: Namespace) -> dict[str, Path]:
        """Where word vectors start from: a `run`, or files for `source` and `target`."""
        return {}

    @classmethod
    def complete(cls, tasks: list[Any], existing: list[Run], folder: Path) -> None:
        """Makes what is missing of the text of new runs. Default: nothing.

        Args:
            tasks: The tasks of the new runs.
            existing: Runs of the same command that there are already.
            folder: A temporary folder, which lasts until the new runs are written.
        """
        return None

    @abstractmethod
    def learn_vocabularies(self) -> dict[str, Any]:
        """Makes the vocabularies of a new run from its training text. Raises ValueError if the text does not fit."""

    def write_files(self, folder: Path) -> None:
        """Writes the files that a new run holds besides its settings. Default: the vocabularies."""
        for file, vocabulary in self.vocabularies.items():
            vocabulary.save(folder / file)

    def open_files(self, run: Run) -> None:
        """Reads what `write_files` wrote.

        Raises:
            ValueError: If a file is not the one the run was made with.
        """
        for file, kind in self.vocabulary_kinds.items():
            self.vocabularies[file] = kind.load(self.checked(run, file, "vocabulary"))

    def checked(self, run: Run, file: str, what: str) -> Path:
        """The path of a file of the run. Raises ValueError if it is not the one the run was made with."""
        if file not in self.settings.fingerprints:
            raise ValueError(f"{run.config}: fingerprints must have the key {file!r}. Restore the file.")
        path = run.folder / file
        check_fingerprint(path, f"{what} this run was made with", self.settings.fingerprints[file], sha256_of(path))
        return path

    @abstractmethod
    def text_parts(self) -> Mapping[str, Sequence[Any]]:
        """What the text of each split is read from: paths, or lists of lines or of pairs in memory."""

    def open_text(self) -> None:
        """Loads the text, once. The settings of a new run get its fingerprints; an existing run is held to them.

        Raises:
            ValueError: If a file of the text has changed since the run was made.
        """
        if self._text_is_open:
            return
        parts = self.text_parts()
        found = {
            split: [sha256_of(part) if isinstance(part, Path) else sha256_of_lines(part) for part in each]
            for split, each in parts.items()
        }
        for split, expected in self.settings.text.items():
            received = found.get(split, [])
            if len(received) != len(expected):
                raise ValueError(
                    f"The {split} text of the run is in {len(expected)} files. Received: {len(received)}. Restore them."
                )
            for part, before, now in zip(parts[split], expected, received, strict=True):
                if isinstance(part, Path):
                    check_fingerprint(part, "text this run was made with", before, now)
                else:
                    corpus = self.recipe.data.corpus
                    remedy = OF_A_PACKAGE if corpus == "embedded" else OF_THIS_LIBRARY
                    name = f"The {split} text of {corpus!r}"
                    check_fingerprint(name, "text this run was made with", before, now, remedy)
        self.settings = self.settings.model_copy(update={"text": found})
        self.load_text()
        self._text_is_open = True

    @property
    def reads_corpus(self) -> bool:
        """Whether text of a named corpus is read, from the folder `data_dir` of the settings."""
        return not (self.settings.files or self.settings.prepared)

    @abstractmethod
    def load_text(self) -> None:
        """Reads the text of all splits that training and measuring need. Raises ValueError if one is too short."""

    @abstractmethod
    def build_model(self) -> keras.Model:
        """The recipe's model, built."""

    def create_model(self, **sizes: int) -> keras.Model:
        """A model of the zoo: the recipe's arguments and the sizes of the text.

        Raises:
            ValueError: If the model does not take the arguments, they contain a size of the text, or it is of another
                task.
        """
        model = self.recipe.model
        if ignored := [name for name in sizes if name in model.arguments]:
            raise ValueError(
                f"model.{ignored[0]} is that of the text. Received: {model.arguments[ignored[0]]!r}. Leave it out."
            )
        try:
            created = zoo.create_model(model.name, **model.arguments, **sizes)
        except TypeError as error:
            raise ValueError(f"The model {model.name!r} does not take the recipe's arguments: {error}") from None
        if not isinstance(created, self.model_class):
            raise ValueError(
                f"{SCRIPTS[self.name]} trains models of the class {self.model_class.__name__}. Received: model.name="
                f"{model.name!r}, which makes a {type(created).__name__}. Choose another model.name."
            )
        return created

    @abstractmethod
    def describe(self, model: keras.Model) -> str:
        """Model and text in a few lines, printed before training."""

    @abstractmethod
    def batches(self, model: keras.Model) -> EpochBatches:
        """The training batches. Raises ValueError if the text is too short for one."""

    def loss(self) -> keras.losses.Loss | str:
        """The recipe's loss, as `compile` takes it."""
        loss = self.recipe.loss
        try:
            return LOSSES[loss.name](**{**self.default_loss_arguments, **loss.arguments})
        except TypeError as error:
            raise ValueError(f"The recipe's loss {loss.name!r} does not take its arguments: {error}") from None

    @abstractmethod
    def validate(self, model: keras.Model) -> dict[str, float]:
        """Metrics of the validation text after an epoch, under names such as `"val_perplexity"`."""

    def sample(self, model: keras.Model) -> tuple[str, str] | None:
        """A title and a text, in Markdown, that shows what the model has learned, for TensorBoard."""
        return None

    def plot(self, model: keras.Model) -> "tuple[str, Figure] | None":
        """A title and a plot of what the model has learned, for TensorBoard."""
        return None

    @abstractmethod
    def word_frequencies(self, model: keras.Model) -> dict[str, dict[str, int]]:
        """Occurrences of each word in the training text, in order of ids, for each role in `embedding_matrices()`."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that the model predicts."""
        return self.vocabularies["vocabulary.txt"]

    @property
    @abstractmethod
    def epoch_size(self) -> int:
        """Number of words (see `unit`) per epoch."""

    def last_metrics(self, progress: Progress) -> dict[str, Any]:
        """Metrics of the last epoch of training that belong to the results. Default: none."""
        return {}

    @abstractmethod
    def measure(self, model: keras.Model) -> dict[str, Any]:
        """Metrics of a trained model on the texts that it is measured on, for `results.json`."""

    @abstractmethod
    def headline(self, results: dict[str, Any]) -> str:
        """The results in one line."""

    @abstractmethod
    def trained(self, model: keras.Model) -> Any:
        """A trained model with its text: an object of `keras_tying.inference`."""

    def write_artifacts(self, model: keras.Model, run: Run) -> list[Path]:
        """Writes what a trained run leaves besides model, export and results. Returns the paths."""
        return []

    @abstractmethod
    def evaluate(self, model: keras.Model, arguments: Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
        """Measures a trained model anew: each line to print, with what it adds to `results.json`."""


TaskT = TypeVar("TaskT", bound=Task)


def open_task(task_class: type[TaskT], run: Run) -> TaskT:
    """The task of an existing run, with its vocabularies.

    Raises:
        ValueError: If it is a run of another task, or a vocabulary is not the one it was made with.
    """
    check_run(task_class, run)
    settings = run.settings()
    task = task_class(settings)
    task.open_files(run)
    return task


def command_of(task: str) -> str:
    """The command of a task, by the name of the task in recipes."""
    return f"keras-tying {Path(SCRIPTS[task]).stem}"


def check_run(task_class: type[Task], run: Run) -> None:
    """Raises ValueError if a run is one of another task."""
    task = run.settings().recipe.task
    if task != task_class.name:
        raise ValueError(f"{run.folder} is a model of `{command_of(task)}`. Received: `{command_of(task_class.name)}`")


def check_task(task_class: type[Task], recipe: Recipe, name: str) -> None:
    """Raises ValueError if a recipe is for another task; `name` says where the recipe is from."""
    if recipe.task != task_class.name:
        raise ValueError(
            f"{name} is for {SCRIPTS[recipe.task]}, the task {recipe.task!r}. Received: {SCRIPTS[task_class.name]}, "
            f"for {task_class.name!r}."
        )
