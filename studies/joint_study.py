"""What `zoo/studies/nnjm.toml` says: the grids of joint language models, their cells, and the tables of the page."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from keras_tying.tables import Table, load_table
from keras_tying.zoo.recipes import AlignedData, SampleOptimisation, recipe_folder
from studies.pages import Section


class Cell(Table):
    """A model that is trained with several seeds."""

    model: str
    """Name in the zoo."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the zoo's function, except the sizes of the text; `learning_rate` replaces the grid's."""
    word_vectors: str | None = None
    """Cell whose trained word vectors, of the same seed, are its initial ones."""
    vectors: dict[Literal["source", "target"], str] = Field(default_factory=dict)
    """Word2vec files in the data folder, by side. The word vectors of these sides start from them and are fixed."""

    @property
    def model_arguments(self) -> dict[str, Any]:
        return {name: value for name, value in self.arguments.items() if name != "learning_rate"}


Todo = tuple[str, Cell, int]
"""A cell to train: its name, the cell and a seed."""


class Point(Cell):
    """A cell that is a point of a curve."""

    at: float


class Group(Table):
    seeds: int = Field(ge=1)
    cells: dict[str, Cell]


class Grid(Table):
    """Cells that are trained on one text."""

    title: str
    groups: list[str]
    """Names of groups, or `"sweeps"`, in the order of training."""
    data: AlignedData
    optimisation: SampleOptimisation = SampleOptimisation()
    rates_of: str | None = None
    """Name of a grid of the same text whose results choose the learning rate of this one (see `best_rate`), and whose
    alignment it uses if it has no links."""
    links: str | None = None
    """Folder with the links of the pairs, `SPLIT.align.gz`, relative to the zoo's folder."""
    corpus: str | None = None
    """Name of a parallel corpus, from `languages[0]` to `languages[1]`, instead of `files`; it is aligned."""
    languages: tuple[str, str] = ("fr", "en")
    sentence_length: int | None = None
    """Maximum number of source words in the global context. Default: that of the study."""
    files: dict[str, list[str]] = Field(default_factory=dict)
    """Source, target and links of each split, relative to the data folder; splits without links are aligned."""


class PerplexityTable(Section):
    """A table of the page, one row per cell."""

    columns: list[str] | None = None
    """Grids whose results are its columns. Default: those of the study."""
    split: Literal["valid", "test"] = "test"
    published: dict[str, float] = Field(default_factory=dict)
    rows: list[str] | None = None
    """Names of cells. Default: those with a published perplexity."""


class Pair(Table):
    lower: str
    higher: str


class Ordering(Section):
    """Pairs of cells, of which the first is expected to have the lower test perplexity."""

    lower: str
    """Title of the column of the first cells."""
    higher: str
    pairs: list[Pair]
    columns: list[str] | None = None
    """Grids whose results are its columns. Default: those of the study."""


class Pictures(Table):
    grid: str
    weights: str
    """Cell of the grid whose first layer is drawn."""
    window: int
    """Window of that cell."""
    history: str
    """Cell of the grid whose perplexity is drawn by epoch."""
    captions: dict[str, str]
    """Captions by the plot's name, in the order of the page."""


class JointStudy(Section):
    """`studies/nnjm.toml` of the zoo."""

    columns: list[str]
    """Grids whose results are columns of the tables that name no others."""
    sentence_length: int
    """Maximum number of source words in the global context, for grids that have none of their own."""
    grids: dict[str, Grid]
    groups: dict[str, Group]
    sweeps: dict[str, list[Point]]
    """Points of curves, by the quantity that changes; each is the cell `"QUANTITY, INDEX"`, with one seed."""
    tables: list[PerplexityTable]
    orderings: list[Ordering]
    pictures: Pictures

    def todo(self, grid: str, seeds: int | None = None, main_only: bool = False) -> Iterator[Todo]:
        """Cells with their names and seeds, in the order of training.

        Args:
            grid: Name of a grid.
            seeds: Maximum number of seeds per cell.
            main_only: Whether to skip all groups except the first.
        """
        points: dict[str, Cell] = {
            f"{quantity}, {i}": point for quantity, points in self.sweeps.items() for i, point in enumerate(points)
        }
        groups = {**self.groups, "sweeps": Group(seeds=1, cells=points)}
        for name in self.grids[grid].groups[: 1 if main_only else None]:
            for seed in range(1, min(groups[name].seeds, seeds or groups[name].seeds) + 1):
                for cell_name, cell in groups[name].cells.items():
                    yield cell_name, cell, seed


def load_study(folder: Path | None = None) -> JointStudy:
    """Reads `studies/nnjm.toml` of the zoo's folder, or of another one."""
    return load_table(JointStudy, (folder or recipe_folder()) / "studies" / "nnjm.toml")


def results_file(folder: Path, grid: str) -> Path:
    """Path of a grid's results in the zoo's folder."""
    return folder / "results" / f"nnjm_{grid.replace('-', '_')}.json"


def model_file(runs: Path, cell: str, seed: int) -> Path:
    """Path of a trained model in the folder of its grid's runs."""
    words = "".join(letter if letter.isalnum() else " " for letter in cell.lower()).split()
    return runs / f"{'-'.join(words)}-{seed}.keras"
