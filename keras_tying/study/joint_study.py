"""The study of joint language models: what is trained on what and shown how, as `zoo/studies/nnjm.toml` says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from keras_tying.tables import Table, load_table
from keras_tying.training.joint_language_model import JointSchedule
from keras_tying.training.joint_runs import JointData, JointFiles
from keras_tying.zoo.recipes import recipe_folder


class Cell(Table):
    """A model to train, with several seeds."""

    model: str
    """Name in the zoo."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Of the zoo's function, besides the sizes of the text; a `learning_rate` is the schedule's."""
    word_vectors: str | None = None
    """Cell whose word vectors, of the same seed, it starts from."""

    @property
    def model_arguments(self) -> dict[str, Any]:
        return {name: value for name, value in self.arguments.items() if name != "learning_rate"}


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
    """Names of groups, or `"sweeps"`, in the order they are trained in."""
    data: JointData
    schedule: JointSchedule
    files: dict[str, JointFiles]
    """Of each split, below the folder of the data; those without an alignment are aligned."""


class PerplexityTable(Table):
    """A table of the page, a row a cell."""

    title: str
    text: str = ""
    split: Literal["valid", "test"] = "test"
    published: dict[str, float] = Field(default_factory=dict)
    rows: list[str] | None = None
    """Cells, where they are not those with a published figure."""


class Pair(Table):
    lower: str
    higher: str


class Ordering(Table):
    """Cells of which one is said to have the lower test perplexity."""

    title: str
    text: str
    lower: str
    """What the column of the lower ones is called."""
    higher: str
    pairs: list[Pair]


class Pictures(Table):
    grid: str
    weights: str
    """Cell of the grid whose first layer is drawn."""
    window: int
    """Of that cell."""
    history: str
    """Cell of the grid whose perplexity is drawn epoch by epoch."""
    captions: dict[str, str]
    """By the picture's name, in the order of the page."""


class JointStudy(Table):
    """All of `studies/nnjm.toml`."""

    title: str
    text: str
    columns: list[str]
    """Grids whose figures stand side by side in the tables."""
    sentence_length: int
    """Source words the global context sees at most."""
    grids: dict[str, Grid]
    groups: dict[str, Group]
    sweeps: dict[str, list[Point]]
    """Points of curves, by the quantity that changes; each is the cell `"QUANTITY, PLACE"`, with one seed."""
    tables: list[PerplexityTable]
    orderings: list[Ordering]
    pictures: Pictures

    def groups_of(self, grid: str) -> list[Group]:
        """What is trained on a grid's text, in order."""
        points: dict[str, Cell] = {
            f"{quantity}, {place}": point
            for quantity, points in self.sweeps.items()
            for place, point in enumerate(points)
        }
        known = {**self.groups, "sweeps": Group(seeds=1, cells=points)}
        return [known[name] for name in self.grids[grid].groups]

    def todo(self, grid: str, seeds: int | None = None, main_only: bool = False) -> Iterator[tuple[str, Cell, int]]:
        """Cells by name and their seeds, in the order they are trained in.

        Args:
            grid: Name of a grid.
            seeds: Seeds of a cell at most.
            main_only: Whether to leave out all groups but the first.
        """
        for group in self.groups_of(grid)[: 1 if main_only else None]:
            for seed in range(1, min(group.seeds, seeds or group.seeds) + 1):
                for name, cell in group.cells.items():
                    yield name, cell, seed


def load_study(folder: Path | None = None) -> JointStudy:
    """Reads `studies/nnjm.toml` of the zoo's folder, or of another one."""
    return load_table(JointStudy, (folder or recipe_folder()) / "studies" / "nnjm.toml")


def results_file(folder: Path, grid: str) -> Path:
    """Where a grid's results are in the zoo's folder."""
    return folder / "results" / f"nnjm_{grid.replace('-', '_')}.json"
