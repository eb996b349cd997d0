"""Task: the interface between the training engine and a kind of model."""

from abc import ABC, abstractmethod
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import keras

from keras_tying import zoo
from keras_tying.data import Vocabulary
from keras_tying.files import check_fingerprint
from keras_tying.losses import AugmentedLoss, SampledCrossEntropy, SequenceCrossEntropy
from keras_tying.training.batches import EpochBatches
from keras_tying.training.progress import Progress
from keras_tying.training.runs import Run, RunSettings
from keras_tying.zoo.recipes import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOSSES = {"cross_entropy": SequenceCrossEntropy, "augmented": AugmentedLoss, "sampled": SampledCrossEntropy}
"""Losses by their name in recipes."""

Mode = Callable[[Namespace, Callable[[], Any]], int]
"""A mode of a command: takes the arguments and a function that makes a task from them, returns the exit code."""


class Task(ABC):
    """A kind of model with its text, loss, validation, metrics and export.

    The engine calls the methods from `learn_vocabularies` on. `add_arguments`, `modes`, `given_files`, `changes` and
    `initial_vectors` define the task's command line.

    Args:
        settings: Everything that decides the run.

    Attributes:
        vocabularies: Vocabularies, or subwords, by their file in the run's folder; see `vocabulary_kinds`.
    """

    name: ClassVar[str]
    """The value of the key `task` in its recipes."""
    script: ClassVar[str]
    """The script that trains it, for example `"train/lm.py"`."""
    usage: ClassVar[str]
    """The help text of its command."""
    default_recipes: ClassVar[tuple[str, ...]]
    """What the command trains without `--recipe`."""
    vocabulary_kinds: ClassVar[Mapping[str, type[Any]]]
    """Class of each vocabulary, by file name."""
    default_loss_arguments: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Arguments of the loss where the recipe gives none."""
    best_metric: ClassVar[str | None] = None
    """Validation metric whose best epoch is kept: `"val_perplexity"` or `"val_bleu"`. `None` keeps the last epoch."""
    unit: ClassVar[str] = "words"
    """What an epoch is counted in."""

    def __init__(self, settings: RunSettings):
        self.settings = settings
        self.recipe: Any = settings.recipe
        self.vocabularies: dict[str, Any] = {}

    @classmethod
    @abstractmethod
    def add_arguments(cls, parser: ArgumentParser) -> None:
        """Adds the arguments of this task to those that all tasks share."""

    @classmethod
    def modes(cls) -> dict[str, tuple[str, "Mode"]]:
        """Further modes of its command by option: help text and what it does.

        An option whose help text starts with `RUN:` takes the folder of a run.
        """
        return {}

    @classmethod
    def given_files(cls, arguments: Namespace) -> dict[str, list[list[Path]]] | None:
        """The user's own text, by split; `None` for a named corpus. Raises ValueError if a part is missing."""
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
    def complete(cls, tasks: list[Any], folder: Path) -> None:
        """Makes what is missing of the text of new runs, beside the folder of the first of them. Default: nothing."""
        return None

    @abstractmethod
    def learn_vocabularies(self) -> dict[str, Any]:
        """Makes the vocabularies of a new run from its training text. Raises ValueError if the text does not fit."""

    def open_vocabularies(self, run: Run) -> None:
        """Reads the vocabularies of a run.

        Raises:
            ValueError: If a file is not the one the run was made with.
        """
        for file, kind in self.vocabulary_kinds.items():
            vocabulary = kind.load(run.folder / file)
            expected = self.settings.fingerprints[file]
            check_fingerprint(run.folder / file, "vocabulary this run was made with", expected, vocabulary.sha256)
            self.vocabularies[file] = vocabulary

    @abstractmethod
    def load_text(self) -> None:
        """Reads the text of all splits that training and measuring need."""

    @abstractmethod
    def build_model(self, **changes: Any) -> keras.Model:
        """The recipe's model, built, with other arguments where `changes` has them."""

    def create_model(self, changes: Mapping[str, Any], **sizes: int) -> keras.Model:
        """A model of the zoo: the recipe's arguments, then the sizes of the text, then `changes`."""
        model = self.recipe.model
        try:
            return zoo.create_model(model.name, **{**model.arguments, **sizes, **changes})
        except TypeError as error:
            raise ValueError(f"The model {model.name!r} does not take the recipe's arguments: {error}") from None

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

    def sample(self, model: keras.Model) -> tuple[str, str]:
        """A title and a text that shows what the model has learned, for TensorBoard."""
        return "", ""

    def plot(self, model: keras.Model) -> "Figure | None":
        """A plot of what the model has learned, for TensorBoard."""
        return None

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that the model predicts."""
        return self.vocabularies["vocabulary.txt"]

    @property
    def words(self) -> list[str]:
        """The words of `model.embedding`, in order of ids."""
        return self.vocabulary.words

    @property
    @abstractmethod
    def epoch_size(self) -> int:
        """Number of words (see `unit`) per epoch."""

    @abstractmethod
    def measure(self, model: keras.Model, progress: Progress) -> dict[str, Any]:
        """Metrics of the trained model, for `results.json`."""

    @abstractmethod
    def headline(self, results: dict[str, Any]) -> str:
        """The results in one line."""

    @abstractmethod
    def export(self, model: keras.Model, path: Path) -> None:
        """Writes the SavedModel. Needs the TensorFlow backend."""

    def write_artifacts(self, model: keras.Model, run: Run) -> list[Path]:
        """Writes what a trained run leaves besides model, export and results. Returns the paths."""
        return []

    @abstractmethod
    def evaluate(self, model: keras.Model, arguments: Namespace) -> list[str]:
        """Measures a trained model anew: lines to print."""


TaskT = TypeVar("TaskT", bound=Task)


def open_task(task_class: type[TaskT], run: Run) -> TaskT:
    """The task of an existing run, with its vocabularies.

    Raises:
        ValueError: If it is a run of another task, or a vocabulary is not the one it was made with.
    """
    settings = run.settings()
    check_task(task_class, settings.recipe, str(run.folder))
    task = task_class(settings)
    task.open_vocabularies(run)
    return task


def check_task(task_class: type[Task], recipe: Recipe, name: str) -> None:
    """Raises ValueError if a recipe is for another task; `name` says where the recipe is from."""
    if recipe.task != task_class.name:
        raise ValueError(
            f"{name} is for the task {recipe.task!r}. Received: {task_class.script}, for {task_class.name!r}."
        )
