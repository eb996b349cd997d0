"""Recipes: one TOML schema for every task.

A recipe is a file, or a row of a file with a table `[rows]`: the recipe `NAME_ROW` is what NAME.toml says, with what
`[rows.ROW]` says over it. It holds all settings of a training run: `[model]`, `[data]`, `[loss]` and `[optimisation]`.
It also holds the published metrics (`[published]`) and the metrics of a run of the recipe (`[measured]`). The recipes
are in `zoo/` of the repository and inside the installed package.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import Field, field_validator

from keras_tying.tables import Table, read_toml, validate_table

Precision = Literal["float32", "mixed_bfloat16", "mixed_float16"]
OptimizerName = Literal["sgd", "adam", "rmsprop", "adadelta"]
TaskName = Literal["language_model", "translation", "joint_language_model", "skip_gram"]


class RecipeTable(Table):
    """A table of a recipe, whose integers are below 2**31: every backend can count so far."""

    @field_validator("*")
    @classmethod
    def check_integers(cls, value: Any) -> Any:
        if isinstance(value, int) and abs(value) >= 2**31:
            raise ValueError("expected integers below 2**31")
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            cls.check_integers(each)
        return value


class Model(RecipeTable):
    name: str
    """Name of a builder in the zoo."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the builder. The vocabulary sizes come from the data."""


class Loss(RecipeTable):
    name: Literal["cross_entropy", "augmented", "sampled"] = "cross_entropy"
    """`SequenceCrossEntropy`, `AugmentedLoss` or `SampledCrossEntropy`."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the loss class, for example `label_smoothing`."""


class Optimisation(RecipeTable):
    """Optimizer, learning rate and length of training."""

    optimizer: OptimizerName = "sgd"
    """The optimizer. Adadelta has the published rho 0.95 and epsilon 1e-6. RMSprop is Adam with beta_1 0."""
    beta_2: float = Field(default=0.999, ge=0, lt=1)
    """Momentum of the mean square of the gradient (adam and rmsprop only)."""
    learning_rate: float = Field(default=1.0, gt=0)
    """Full learning rate, which a warm-up ends with."""
    full_rate_epochs: int | None = Field(default=None, ge=0)
    """Epochs at the full learning rate. `decay` applies after them."""
    decay: float = Field(default=1.0, gt=0, le=1)
    """Factor of the learning rate for each epoch after `full_rate_epochs`."""
    final_learning_rate: float | None = Field(default=None, ge=0)
    """The learning rate falls to this value at the last update."""
    schedule: Literal["linear", "cosine"] = "linear"
    """How the learning rate falls to `final_learning_rate`."""
    warmup_epochs: float = Field(default=0.0, ge=0)
    """Epochs in which the learning rate rises linearly from 0, before the cosine: a one-cycle schedule."""
    halve_when_worse: bool = False
    """The learning rate is halved after each epoch that increases the validation perplexity."""
    clip_norm: float | None = Field(default=None, gt=0)
    """Maximum global norm of the gradient."""
    decoupled_weight_decay: float = Field(default=0.0, ge=0, lt=1)
    """After each update all parameters are multiplied by 1 minus this value (sgd with `clip_norm` only)."""
    l2: float = Field(default=0.0, ge=0)
    """L2 penalty on all parameters, l2 / 2 times the sum of squares. Its gradient is clipped (adam and rmsprop) or
    not (sgd with `clip_norm`)."""
    averaging: Literal["exponential", "non_monotonic"] | None = None
    """Validation and the trained model use an average of the weights (not adadelta, nor sgd without `clip_norm`): an
    exponential one, or the mean since the validation perplexity was worse than the best of all but the last
    `non_monotonic_epochs` epochs (NT-ASGD)."""
    average_momentum: float = Field(default=0.999, ge=0, lt=1)
    """Momentum of the exponential average."""
    non_monotonic_epochs: int = Field(default=5, ge=1)
    """Number of last epochs whose validation perplexities do not start the mean."""
    epochs: int = Field(default=1, ge=0)
    """Maximum number of epochs. A language model can have none: its run measures and exports the model it starts from.
    """
    patience: int | None = Field(default=None, ge=1)
    """Training stops after this many epochs without a better validation perplexity."""


class Published(Table):
    source: str
    """Paper and table."""
    parameters: str | None = None
    """Number of parameters as printed, for example `"2.65M"`."""
    train_perplexity: float | None = None
    """Perplexity of the training text."""
    validation_perplexity: float | None = None
    """Perplexity of the validation text."""
    test_perplexity: float | None = None
    """Perplexity of the test text."""
    validation_bleu: float | None = None
    """BLEU of the validation translations."""
    test_bleu: float | None = None
    """BLEU of the test translations."""


class Measured(Table):
    """The metrics of a run of the recipe, written by the command of the run."""

    train_perplexity: float | None = None
    """Perplexity of the training text. For language models: what the key `train_perplexity` of the recipe says."""
    validation_perplexity: float | None = None
    """Perplexity of the validation text."""
    test_perplexity: float | None = None
    """Perplexity of the test text."""
    validation_perplexity_temperature: float | None = None
    """Perplexity of the validation text at a softmax temperature, chosen on the validation text as what follows is."""
    test_perplexity_temperature: float | None = None
    """Perplexity of the test text at that temperature."""
    validation_perplexity_cache: float | None = None
    """Perplexity of the validation text with a neural cache."""
    test_perplexity_cache: float | None = None
    """Perplexity of the test text with a neural cache."""
    validation_perplexity_dynamic: float | None = None
    """Perplexity of the validation text with dynamic evaluation."""
    test_perplexity_dynamic: float | None = None
    """Perplexity of the test text with dynamic evaluation."""
    validation_bleu: float | None = None
    """BLEU of the validation translations."""
    test_bleu: float | None = None
    """BLEU of the test translations."""
    test_chrf: float | None = None
    """chrF of the test translations."""
    pair_loss: float | None = None
    """Mean loss of skip-gram pairs in the last epoch."""
    parameters: int
    """Number of parameters of the model."""
    seed: int
    """Seed of weights, order and dropout."""
    epochs: int
    """Number of epochs that were trained."""
    wall_time_seconds: float
    """Seconds of training."""
    words_per_second: float | None = None
    """Words per second of training."""
    samples_per_second: float | None = None
    """Samples per second of training."""
    device: str
    """The CPU or GPU that trained."""
    commit: str | None = None
    """Git commit of the code that trained. If it is missing, it was not recorded."""
    precision: Precision = "float32"
    """Type of computation."""
    versions: dict[str, str]
    """Versions of Python, Keras, the backend and NumPy."""
    command: str
    """The command of the run."""


class Recipe(Table):
    """The keys of every recipe. Each task has its own `data` and `optimisation` tables."""

    title: str = ""
    """Name of the model for readers, for example `"Small + WT"`."""
    description: str = ""
    """One or two sentences about the model and its text."""
    notes: str = ""
    """Notes about the result: choices, deviations from the paper, trials."""
    task: TaskName
    """What is trained. It decides which keys `[data]` and `[optimisation]` have."""
    model: Model
    data: Table
    loss: Loss = Loss()
    optimisation: Optimisation
    published: Published | None = None
    measured: Measured | None = None


Tokenization = Literal["words", "spaces", "plain", "letters"]
"""See `keras_tying.data.tokenize`."""


class TextData(RecipeTable):
    corpus: str = "embedded"
    """Name of a corpus, or `"files"`."""
    tokenization: Tokenization | None = None
    """How lines are split into tokens. Default: the tokenization of the corpus, `"words"` for files."""
    vocabulary_size: int | None = Field(default=None, ge=3)
    """Maximum number of word types. Default: every word."""
    minimum_count: int = Field(default=1, ge=1)
    """Words that occur less often in the training text become `<unk>`."""


class WindowOptimisation(Optimisation):
    full_rate_epochs: int | None = Field(default=4, ge=0)
    decay: float = Field(default=0.5, gt=0, le=1)
    clip_norm: float | None = Field(default=5.0, gt=0)
    epochs: int = Field(default=13, ge=0)
    batch_size: int = Field(default=20, ge=1)
    """Number of rows into which the training text is cut."""
    sequence_length: int = Field(default=20, ge=1)
    """Words per window: the length of backpropagation through time."""
    random_starts: bool = False
    """Each epoch skips a random number of words, below `sequence_length`, so that windows end at other words."""
    keep_best: bool = False
    """The run ends with the weights of the epoch with the best validation perplexity, not with the last ones."""


class LanguageModelRecipe(Recipe):
    task: Literal["language_model"] = "language_model"
    train_perplexity: Literal["last_epoch", "best_epoch", "trained_model"] = "last_epoch"
    """What the perplexity of the training text in the results is: that during the last epoch or the one with the best
    validation perplexity, both with dropout, or that of the trained model, without."""
    data: TextData = TextData()
    optimisation: WindowOptimisation = WindowOptimisation()


class ParallelData(RecipeTable):
    corpus: str = "embedded"
    """Name of a parallel corpus, or `"files"`."""
    source_language: str = "en"
    """Language of the sentences to translate, as in the names of the corpus's files."""
    target_language: str = "de"
    """Language of the translations."""
    vocabulary_size: int = Field(default=8_000, ge=3)
    """Number of subwords in the joint vocabulary of both languages."""
    maximum_length: int | None = Field(default=None, ge=1)
    """Training pairs with more subwords in a sentence are left out. Default: all pairs are used."""


class TokenBatchOptimisation(Optimisation):
    optimizer: OptimizerName = "adam"
    learning_rate: float = Field(default=1e-3, gt=0)
    clip_norm: float | None = Field(default=1.0, gt=0)
    epochs: int = Field(default=10, ge=1)
    batch_tokens: int = Field(default=1200, ge=1)
    """Maximum number of positions per batch and side, padding included. On JAX and PyTorch, rows and lengths are then
    padded to multiples of 8, which may exceed it."""
    updates: int | None = Field(default=None, ge=1)
    """Training ends after this many updates, if `epochs` have not ended before. The last epoch is then a part of
    one."""


class TranslationRecipe(Recipe):
    task: Literal["translation"] = "translation"
    data: ParallelData = ParallelData()
    optimisation: TokenBatchOptimisation = TokenBatchOptimisation()


class AlignedData(RecipeTable):
    corpus: Literal["files"] = "files"
    """Aligned text is read from files."""
    tokenization: Tokenization = "spaces"
    """How lines are split into tokens. The command splits text without links into `"words"` if a recipe names none."""
    source_vocabulary_size: int = Field(default=10_000, ge=3)
    """Maximum number of source word types."""
    target_vocabulary_size: int = Field(default=10_000, ge=3)
    """Maximum number of target word types."""
    sentences: int | None = Field(default=None, ge=1)
    """Sentence pairs to train on, from the start of the text. Default: all."""


class SampleOptimisation(Optimisation):
    learning_rate: float = Field(default=0.3, gt=0)
    halve_when_worse: bool = True
    clip_norm: float | None = Field(default=5.0, gt=0)
    epochs: int = Field(default=30, ge=1)
    patience: int | None = Field(default=5, ge=1)
    batch_size: int = Field(default=128, ge=1)
    """Target words per batch."""


class JointLanguageModelRecipe(Recipe):
    task: Literal["joint_language_model"] = "joint_language_model"
    data: AlignedData = AlignedData()
    optimisation: SampleOptimisation = SampleOptimisation()


class SkipGramData(TextData):
    minimum_count: int = Field(default=5, ge=1)
    """Words that occur less often are left out."""
    window: int = Field(default=5, ge=1)
    """Maximum distance between a word and its context words."""
    subsample: float = Field(default=1e-3, ge=0)
    """Words with a larger share of the text are subsampled. 0 keeps all."""


class SkipGramOptimisation(Optimisation):
    learning_rate: float = Field(default=0.025, gt=0)
    final_learning_rate: float | None = Field(default=1e-4, ge=0)
    epochs: int = Field(default=5, ge=1)


class SkipGramRecipe(Recipe):
    task: Literal["skip_gram"] = "skip_gram"
    data: SkipGramData = SkipGramData()
    optimisation: SkipGramOptimisation = SkipGramOptimisation()


AnyRecipe = Annotated[
    LanguageModelRecipe | TranslationRecipe | JointLanguageModelRecipe | SkipGramRecipe, Field(discriminator="task")
]
"""A recipe of any task, which is determined by its key `task`."""

RECIPES: dict[str, type[Recipe]] = {
    "language_model": LanguageModelRecipe,
    "translation": TranslationRecipe,
    "joint_language_model": JointLanguageModelRecipe,
    "skip_gram": SkipGramRecipe,
}

DECIDING = {"model", "data", "loss", "optimisation", "train_perplexity"}
"""Keys of a recipe that decide a run and its results; not every task has all."""

RecipeT = TypeVar("RecipeT", bound=Recipe)


def recipe_folder() -> Path:
    """The folder of the recipes: inside the installed package, else `zoo/` of the checkout."""
    installed = Path(__file__).parents[1] / "recipes"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "zoo"


def list_recipes(task: str | None = None, folder: Path | None = None) -> list[str]:
    """Names of the recipes, in alphabetical order.

    Args:
        task: Only the recipes of this task, for example `"translation"`. Default: the recipes of all tasks.
        folder: The folder of the recipes. Default: `recipe_folder()`.

    Example:

    >>> "ptb_small_tied" in list_recipes("language_model")
    True
    """
    tables: dict[str, dict[str, Any]] = {}
    for path in (folder or recipe_folder()).glob("*.toml"):
        tables |= _rows_of(read_toml(path), path.stem)
    return sorted(name for name, table in tables.items() if task in (None, table.get("task", "language_model")))


def load_recipe(name_or_path: str | Path, default_task: TaskName = "language_model") -> Recipe:
    """Reads a recipe of the zoo by name, or any TOML file.

    Args:
        name_or_path: One of `list_recipes()`, or the path of a `.toml` file.
        default_task: The task if the file has no key `task`.

    Raises:
        ValueError: If there is no such recipe, or a key is missing, unknown or has a value of the wrong type.

    Example:

    >>> load_recipe("ptb_small_tied").optimisation.learning_rate
    1.0
    """
    path = Path(name_or_path)
    if path.suffix != ".toml":
        path = recipe_folder() / f"{name_or_path}.toml"
    file = recipe_file(path)
    if file is None and str(name_or_path) != path.stem:
        raise ValueError(f"There is no recipe in {path}. Expected the path of a .toml file, or the name of a recipe.")
    if file is None:
        raise ValueError(f"There is no recipe {str(name_or_path)!r}. Known: {list_recipes()}, or a .toml file.")
    rows = _rows_of(read_toml(file), file.stem)
    if path.stem not in rows:
        raise ValueError(f"{path} holds several recipes. Expected the name of one of them: {', '.join(rows)}.")
    table = rows[path.stem]
    task = table.get("task", default_task)
    if not isinstance(task, str) or task not in RECIPES:
        raise ValueError(f"{path}: task must be one of {list(get_args(TaskName))}. Received: {task!r}")
    return validate_table(RECIPES[task], table, str(path))


def recipe_file(path: Path) -> Path | None:
    """The file of the recipe with a path: the path itself, or the file beside it that has it as a row."""
    if path.is_file():
        return path
    beside = (file for file in path.parent.glob("*.toml") if path.stem.startswith(f"{file.stem}_"))
    return next((file for file in beside if path.stem in _rows_of(read_toml(file), file.stem)), None)


def _rows_of(table: dict[str, Any], name: str) -> dict[str, dict[str, Any]]:
    """The recipes of a file by name: the file itself, or its rows."""
    rows = table.pop("rows", None)
    if not isinstance(rows, dict):
        return {name: table if rows is None else {**table, "rows": rows}}
    if wrong := [row for row, changes in rows.items() if not isinstance(changes, dict)]:
        raise ValueError(f"Each of `rows` must be a table. Received: rows.{wrong[0]} = {rows[wrong[0]]!r}")
    return {f"{name}_{row}": _merged(table, changes) for row, changes in rows.items()}


def _merged(table: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A table with changes, which go over it table by table."""
    return table | {
        key: _merged(table[key], value) if isinstance(value, dict) and isinstance(table.get(key), dict) else value
        for key, value in changes.items()
    }


def for_other_text(recipe: RecipeT, name: str | Path, corpus: str) -> RecipeT:
    """The settings of a recipe for another text than its own.

    The title says so, and neither published nor measured results are taken over.

    Args:
        recipe: The recipe.
        name: Its name, or the path of its file.
        corpus: Name of the corpus, or `"files"` for a text of one's own.
    """
    text, name = ("Own text" if corpus == "files" else corpus), Path(name).name.removesuffix(".toml")
    return recipe.model_copy(
        update={
            "title": f"{text}, with the settings of {name}",
            "description": f"{text}; model and training of the recipe {name} ({recipe.title}).",
            "notes": "",
            "published": None,
            "measured": None,
        }
    )
