"""Recipes: everything that decides a training run, and what came of it.

One TOML file a published result, under `zoo/` in the repository and inside the installed package.
"""

import json
from pathlib import Path
from typing import Any, Literal

import tomlkit
from pydantic import Field

from keras_tying import losses
from keras_tying.files import write_atomically
from keras_tying.tables import Table, TableT, load_table

Precision = Literal["float32", "mixed_bfloat16", "mixed_float16"]

LOSSES = {
    "augmented": losses.AugmentedLoss,
    "cross_entropy": losses.SequenceCrossEntropy,
    "sampled": losses.SampledCrossEntropy,
}


class Data(Table):
    corpus: str = "embedded"
    """Name of a corpus, or `"files"`."""
    tokenization: Literal["spaces", "plain"] | None = None
    """How lines become tokens; `None` leaves it to the corpus."""
    vocabulary_size: int | None = Field(default=None, ge=3)
    """Cap on the word types; `None` takes every word."""
    minimum_count: int = Field(default=1, ge=1)
    """Words seen less often in training become `<unk>`."""

    def check_vocabulary(self, words: int) -> None:
        """Raises ValueError if a named corpus did not give as many words as the recipe is made for."""
        if self.corpus != "files" and self.vocabulary_size is not None and words != self.vocabulary_size:
            raise ValueError(
                f"The recipe is made for {self.vocabulary_size:,} words of the corpus {self.corpus!r}. "
                f"Received: a corpus of {words:,}. Check the data folder, or change data.vocabulary_size."
            )


class Optimisation(Table):
    batch_size: int = Field(default=20, ge=1)
    """Rows the training text is cut into."""
    steps: int = Field(default=20, ge=1)
    """Length of a window: steps of backpropagation through time."""
    learning_rate: float = Field(default=1.0, gt=0)
    clip_norm: float = Field(default=5.0, gt=0)
    """The gradient's global norm is cut down to this."""
    epochs: int = Field(default=13, ge=1)
    full_rate_epochs: int = Field(default=4, ge=0)
    """Epochs before the learning rate begins to fall."""
    decay: float = Field(default=0.5, gt=0, le=1)
    """Factor of the learning rate at each epoch after those."""
    patience: int | None = Field(default=None, ge=1)
    """Epochs without a better validation perplexity before training stops; `None` never stops."""
    weight_decay: float = Field(default=0.0, ge=0, lt=1)
    """After each update all parameters are multiplied by 1 minus this."""
    l2: float = Field(default=0.0, ge=0)
    """Penalty on half the sum of all parameters' squares; its gradient is not clipped."""


class Model(Table):
    name: str
    """Name in the zoo."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the zoo's function, besides `vocabulary_size`."""


class Loss(Table):
    name: str = "cross_entropy"
    """A key of `LOSSES`."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Arguments of that loss."""

    def create(self) -> losses.SequenceCrossEntropy:
        """The loss to compile with; raises ValueError if there is none of that name."""
        if self.name not in LOSSES:
            raise ValueError(f"There is no loss {self.name!r}. Known: {sorted(LOSSES)}")
        return LOSSES[self.name](**self.arguments)


class Published(Table):
    source: str
    train_perplexity: float | None = None
    validation_perplexity: float | None = None
    test_perplexity: float | None = None
    parameters: str | None = None
    """As printed, for example `"2.65M"`."""


class Measured(Table):
    """What a run of the recipe gave; written by the command that ran it."""

    train_perplexity: float
    validation_perplexity: float
    test_perplexity: float
    parameters: int
    seed: int
    epochs: int
    wall_time_seconds: float
    words_per_second: float
    device: str
    precision: Precision = "float32"
    versions: dict[str, str]
    command: str


class RunSettings(Table):
    """Everything that decided a run: `config.toml` of its folder."""

    recipe_name: str
    seed: int
    command: str
    vocabulary_sha256: str = ""
    data_dir: str | None = None
    files: dict[str, str] | None = None
    prepared: str | None = None
    """Folder of a prepared text."""
    precision: Precision = "float32"
    """Of computation; variables stay float32."""
    recipe: "Recipe"


class Recipe(Table):
    title: str = ""
    description: str = ""
    notes: str = ""
    """What a reader of the result should know: choices, deviations, what was tried."""
    model: Model
    loss: Loss = Loss()
    data: Data = Data()
    optimisation: Optimisation = Optimisation()
    published: Published | None = None
    measured: Measured | None = None


def recipe_folder() -> Path:
    """Where the recipes are: inside the installed package, else `zoo/` of the checkout."""
    installed = Path(__file__).parents[1] / "recipes"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "zoo"


def list_recipes(folder: Path | None = None) -> list[str]:
    """Names of all recipes of a folder. Default: those of language models."""
    return sorted(path.stem for path in (folder or recipe_folder()).glob("*.toml"))


def load_recipe(name_or_path: str | Path) -> Recipe:
    """Reads a recipe by name, or from a TOML file of one's own.

    Raises:
        ValueError: If there is no such recipe, or a key is unknown or has a value of the wrong type.
    """
    return find_recipe(Recipe, recipe_folder(), name_or_path)


def find_recipe(kind: type[TableT], folder: Path, name_or_path: str | Path) -> TableT:
    """Reads a recipe of some kind: one that `folder` has by name, or a TOML file from anywhere.

    Raises:
        ValueError: If there is no such recipe, or a key is unknown or has a value of the wrong type.
    """
    path = Path(name_or_path)
    if path.suffix != ".toml":
        path = folder / f"{name_or_path}.toml"
    if not path.is_file():
        raise ValueError(f"There is no recipe {str(name_or_path)!r}. Known: {list_recipes(folder)}, or a .toml file.")
    return load_table(kind, path)


def record_measured(settings: RunSettings, results: dict[str, Any]) -> None:
    """Writes what a run gave into its recipe's `[measured]` table and its curves beside it.

    Args:
        settings: The run's settings.
        results: Its `results.json`.

    Raises:
        ValueError: If the run was not made by the recipe as it stands.
    """
    name = settings.recipe_name
    check_unchanged(name, load_recipe(name), settings.recipe)
    path = recipe_folder() / f"{name}.toml"
    measured = Measured(**{key: value for key, value in results.items() if key in Measured.model_fields})
    document = tomlkit.parse(path.read_text(encoding="utf-8"))
    document["measured"] = measured.model_dump()
    write_atomically(path, tomlkit.dumps(document).encode())
    write_results(recipe_folder(), name, results)


def check_unchanged(name: str, recipe: Any, trained: Any) -> None:
    """Compares a recipe with what a run was trained by; words about it may differ.

    Raises:
        ValueError: If model, loss, data or optimisation do.
    """
    parts = ("model", "loss", "data", "optimisation")
    if any(getattr(recipe, part, None) != getattr(trained, part, None) for part in parts):
        raise ValueError(f"The run's settings differ from the recipe {name!r}, so its figures are not recorded there.")


def write_results(folder: Path, name: str, results: dict[str, Any]) -> None:
    """Writes figures, and the curves that led to them, beside the recipes of a folder."""
    path = folder / "results" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, (json.dumps(results, indent=2) + "\n").encode())
