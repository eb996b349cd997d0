"""Colours and files of the studies' plots."""

import hashlib
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from keras_tying.files import write_atomically

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


DATA = "Data"
"""The text of a PNG that has the SHA-256 of what it shows."""


def panels(rows: int, columns: int, size: tuple[float, float], title: str = "", **options) -> tuple[Figure, list[Axes]]:
    """A figure of panels.

    Args:
        rows: Number of rows.
        columns: Number of columns.
        size: Width and height of a panel, in inches.
        title: Title of the figure.
        **options: Those of `Figure.subplots`.
    """
    figure = Figure(figsize=(columns * size[0], rows * size[1]), layout="constrained")
    if title:
        figure.suptitle(title)
    return figure, list(np.ravel(figure.subplots(rows, columns, **options)))


def panel(xlabel: str, ylabel: str, size: tuple[float, float] = (6, 4.4)) -> tuple[Figure, Axes]:
    """A figure of one panel with labelled axes."""
    figure, (axes,) = panels(1, 1, size)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    return figure, axes


def write_png(figure: Figure, path: Path, dpi: int = 80, data: Any = None) -> Path:
    """Writes a figure atomically as PNG; returns its path.

    Args:
        figure: The figure.
        path: The file.
        dpi: Its resolution.
        data: What the figure shows, if it is drawn from recorded results. The file names the SHA-256 of this as JSON,
            so that a test can tell a plot that is older than its results.
    """
    content = BytesIO()
    drawn = {} if data is None else {DATA: fingerprint_of(data)}
    figure.savefig(content, format="png", dpi=dpi, metadata=drawn)
    write_atomically(path, content.getvalue())
    return path


def fingerprint_of(data: Any) -> str:
    """SHA-256 of data as JSON."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def data_of(path: Path) -> str | None:
    """The fingerprint of the data that a plot shows, if it names one."""
    return Image.open(path).info.get(DATA)
