"""Samples as Markdown, which TensorBoard and the pages of trained models show."""

import html
import re
from collections.abc import Iterable, Sequence


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown. Characters of a cell that have a meaning in Markdown or HTML stand for themselves."""
    cells = [[markdown(text) for text in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *cells))


def markdown(text: str) -> str:
    """A text in one line of Markdown, in which every character stands for itself."""
    line = re.sub(r"([\\`*_\[\]|~#])", r"\\\1", html.escape(" ".join(text.split()), quote=False))
    return re.sub(r"^(\d*)([-+.)])", r"\1\\\2", line)  # what begins an item of a list
