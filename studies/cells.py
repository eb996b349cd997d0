"""The published cells, what was measured of each, and the table and the page of both.

The cells are in zoo/studies/cells.toml. Measured values are read from zoo/results and never typed.
"""

import csv
import io
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from keras_tying.tables import Table, load_table
from studies.pages import NOT_MEASURED, Section, page, section, spelled, table
from studies.results import read_seeds

COLUMNS = ("paper", "table", "row", "column", "published", "recipe", "measured", "low", "high", "seeds", "reached")
UNITS = {"M": 1e6, "K": 1e3}
ABOUT = "~"
PLURALS = {
    "train_perplexity": "perplexities of the training text",
    "validation_perplexity": "validation perplexities",
    "test_perplexity": "test perplexities",
    "parameters": "numbers of parameters",
}
"""What numbers of a metric are called."""
DECIMALS = 4
"""Decimals of measured values, of which the last ones say nothing."""


class OtherSettings(Table):
    """Settings of training that were tried for all rows of a table and not chosen."""

    name: str
    """What cards call them."""
    results: str
    """Name of their results, like that of the table."""


class PublishedTable(Section):
    """Rows of a published table that were measured on one text."""

    title: str = ""
    paper: str
    table: str
    """Number of the table or figure, as in the `source` of recipes."""
    text: str
    """The text that the models are trained and measured on."""
    own_split: bool = False
    """Whether the measured text has a split and tokenization of this project; those of the paper are not known."""
    recipe: str = "{recipe}"
    """Name of the recipe, or the command that measures the rows."""
    results: str = "{recipe}"
    """Name of a file in the zoo's results, without its ending; `NAME_s2.json` and so on beside it are other seeds."""
    path: list[str] = Field(default=["{column}"])
    """Keys of the value in that file: `*` is each of the values there, `NAME=VALUE` only those that have it."""
    better: Literal["lower", "higher", "equal"] = "lower"
    """Which measured values reach the published one."""
    numbers: str = ""
    """What the numbers are, in the plural. Empty: the columns are metrics, which say it."""
    others: list[OtherSettings] = Field(default_factory=list)
    """Settings of training that are worse on the validation text."""
    rows: dict[str, dict[str, str]]
    """Published values as printed, by row and column. The key `recipe` names the recipe of a row."""

    def cells(self, folder: Path) -> Iterator["Cell"]:
        """The cells, with what the results of a zoo's folder have of them."""
        for row, columns in self.rows.items():
            names = {"row": row, "recipe": columns.get("recipe", "")}
            recipe = self.recipe.format(**names)
            results = read_seeds(folder / "results", self.results.format(**names))
            others = {each.name: read_seeds(folder / "results", each.results.format(**names)) for each in self.others}
            for column, published in columns.items():
                if column != "recipe":
                    keys = [key.format(**names, column=column) for key in self.path]
                    better = "equal" if column == "parameters" else self.better
                    values = values_at(results, keys)
                    other = {name: values_at(seeds, keys) for name, seeds in others.items()}
                    place = (self.paper, self.table, row, self.text, column)
                    yield Cell(*place, published, recipe, better, values, other, self.own_split, self.numbers)


class Cells(Section):
    """`studies/cells.toml` of the zoo."""

    tables: list[PublishedTable] = Field(min_length=1)


@dataclass(frozen=True)
class Cell:
    """A published number and what was measured of it.

    Attributes:
        paper: Authors of the paper.
        table: Table or figure of the paper.
        row: Row of the table.
        text: The text that is trained and measured on.
        metric: What is measured.
        published: The number as printed.
        recipe: Name of the recipe, or a command.
        better: Which values reach the published one: `"lower"`, `"higher"` or `"equal"`.
        values: The measured values, one per seed.
        others: The values by other settings of training, by their names.
        own_split: Whether the measured text is split and tokenized in another way than the paper's.
        numbers: What the number is one of, in the plural; empty if the metric says it.
    """

    paper: str
    table: str
    row: str
    text: str
    metric: str
    published: str
    recipe: str
    better: str
    values: list[float]
    others: dict[str, list[float]] = field(default_factory=dict)
    own_split: bool = False
    numbers: str = ""

    @property
    def kind(self) -> str:
        """What the number is one of, in the plural."""
        return self.numbers or PLURALS.get(self.metric, spelled(self.metric))

    @property
    def measured(self) -> float | None:
        """The mean of the seeds."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def reached(self) -> bool | None:
        """Whether the mean, rounded as the published number is, reaches it; `None` if they cannot be compared."""
        if self.measured is None or self.own_split or self.published.startswith(ABOUT):
            return None
        unit = UNITS.get(self.published[-1], 1.0)
        digits = self.published.rstrip("".join(UNITS))
        published, decimals = float(digits), len(digits.partition(".")[2])
        mean = float(f"{self.measured / unit:.{decimals}f}")
        return {"lower": mean <= published, "higher": mean >= published, "equal": mean == published}[self.better]

    def line(self) -> list[str]:
        """The cell as a line of the table."""
        several = len(self.values) > 1
        return [
            *(self.paper, self.table, self.row, f"{self.text}, {spelled(self.metric)}", self.published),
            *(self.recipe, plain(self.measured)),
            *(plain(limit(self.values)) if several else "" for limit in (min, max)),
            str(len(self.values) or ""),
            {True: "yes", False: "no", None: ""}[self.reached],
        ]


def values_at(seeds: list[dict[str, Any]], keys: list[str]) -> list[float]:
    """The values at a path of the results of all seeds."""
    return [value for results in seeds for value in found(results, keys)]


def found(results: Any, keys: list[str]) -> list[float]:
    """The values at a path of results.

    >>> runs = {"runs": [{"tau": 1.0, "distance": 0.3}, {"tau": 10.0, "distance": 0.1}]}
    >>> found(runs, ["runs", "*", "tau=10.0", "distance"]), found(runs, ["runs", "*", "distance"])
    ([0.1], [0.3, 0.1])
    """
    places = [results]
    for key in keys:
        name, equals, value = key.partition("=")
        if key == "*":
            places = [each for place in places for each in (place.values() if isinstance(place, dict) else place)]
        elif equals:
            places = [place for place in places if str(place.get(name)) == value]
        else:
            places = [place[key] for place in places if key in place]
    return [place for place in places if place is not None]


def plain(value: float | None) -> str:
    """A number without trailing zeros; empty if there is none.

    >>> plain(2651600), plain(0.30004), plain(109.5875), plain(None)
    ('2651600', '0.3', '109.5875', '')
    """
    return "" if value is None else f"{value:.{DECIMALS}f}".rstrip("0").rstrip(".")


def read_cells(folder: Path) -> list[Cell]:
    """All cells, with what the results of a zoo's folder have of them, in the order of the papers."""
    tables = load_table(Cells, folder / "studies" / "cells.toml").tables
    return [cell for each in tables for cell in each.cells(folder)]


def published_values(folder: Path, results: str) -> dict[str, Any]:
    """The published values of a file of results, by its own keys.

    Args:
        folder: The zoo's folder.
        results: Name of the file, without its ending.
    """
    values: dict[str, Any] = {}
    for each in load_table(Cells, folder / "studies" / "cells.toml").tables:
        for row, columns in each.rows.items() if each.results == results else ():
            for column, published in columns.items():
                *keys, last = (key.format(row=row, column=column) for key in each.path if key != "spearman")
                place = values
                for key in keys:
                    place = place.setdefault(key, {})
                place[last] = float(published)
    return values


def counts_text(cells: list[Cell]) -> str:
    """How many cells are measured and reached, in sentences."""
    compared = [cell for cell in cells if cell.reached is not None]
    measured = Counter(cell.kind for cell in compared)
    reached = Counter(cell.kind for cell in compared if cell.reached)
    kinds = ", ".join(f"{reached[kind]} of {count} {kind}" for kind, count in measured.items())
    roughly = [cell for cell in cells if cell.values and cell.own_split]
    texts = ", ".join(dict.fromkeys(cell.text for cell in roughly))
    counts = (
        f"Of the {len(cells)} numbers of three papers, {len(compared)} are measured and {reached.total()} of these are "
        f"reached: {kinds}. A number is reached if the mean of the seeds, rounded as printed, is as good or better; "
        "correlations between embeddings and numbers of parameters must be equal."
    )
    more = f" {len(roughly)} more are measured on another split of the text ({texts}) and do not count."
    about = sum(bool(cell.values) and cell.published.startswith(ABOUT) for cell in cells)
    only_about = f" {about} more is measured where the paper prints “about”, and does not count."
    return counts + (more if roughly else "") + (only_about if about else "")


def cell_table(cells: list[Cell]) -> str:
    """All cells as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *(cell.line() for cell in cells)])
    return text.getvalue()


def cell_page(folder: Path, cells: list[Cell], lines: str) -> str:
    """The page of the cells.

    Args:
        folder: The zoo's folder.
        cells: Its cells.
        lines: The text of `cell_table`.
    """
    parts = [counts_text(cells)]
    rows = list(csv.DictReader(io.StringIO(lines)))
    for title, group in groupby(rows, key=lambda row: f"{row['paper']}, {row['table']}"):
        shown = [[row["row"], row["column"], row["published"], *_shown(row), f"`{row['recipe']}`"] for row in group]
        titles = ["row", "column", "published", "measured", "seeds", "reached", "recipe"]
        parts += section(Section(title=title), table(titles, "|---|---|--:|--:|--:|---|---|", shown))
    return page(load_table(Cells, folder / "studies" / "cells.toml"), parts)


def _shown(row: dict[str, str]) -> list[str]:
    """What was measured of a cell, with the range of several seeds, for a page."""
    span = f" ({row['low']} to {row['high']})" if row["low"] != row["high"] else ""
    return [row["measured"] + span or NOT_MEASURED, row["seeds"], row["reached"]]
