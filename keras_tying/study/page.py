"""The zoo's page on embeddings, made from the recorded studies.

python -m keras_tying.study.page
"""

from pathlib import Path
from typing import Any

from keras_tying.files import write_atomically
from keras_tying.study.figures import table
from keras_tying.study.results import MISSING, provenance, read_results
from keras_tying.tables import Table, load_table
from keras_tying.zoo.recipes import recipe_folder

PLOTS = {
    "similarity": "Cosines against human scores",
    "map": "Neighbourhoods",
    "updates": "Updates of a word's row by frequency",
}


class Study(Table):
    """One part of the page: its results are `results/NAME.json`, written by `train/embeddings.py --record NAME`."""

    title: str
    text: str
    """What was trained on what, and what the figures show."""
    published: dict[str, Any]
    """Figures of the paper, in the structure of the results."""


class Page(Table):
    title: str
    text: str
    studies: dict[str, Study]


def write_page(folder: Path | None = None) -> Path:
    """Writes `embeddings.md` from `studies/embeddings.toml` and the results; returns its path."""
    folder = folder or recipe_folder()
    content = load_table(Page, folder / "studies" / "embeddings.toml")
    parts = [f"# {content.title}", content.text.strip()]
    for name, study in content.studies.items():
        parts += [f"## {study.title}", study.text.strip(), *_results(folder / "results", name, study)]
    path = folder / "embeddings.md"
    write_atomically(path, ("\n\n".join(parts) + "\n").encode())
    return path


def _results(results: Path, name: str, study: Study) -> list[str]:
    path = results / f"{name}.json"
    figures = read_results(path)
    if figures is None:
        return [MISSING]
    plots = [
        f"![{title}](results/{name}_{plot}.png)"
        for plot, title in PLOTS.items()
        if (results / f"{name}_{plot}.png").exists()
    ]
    return [table(figures, study.published), *plots, *provenance(path, figures)]


if __name__ == "__main__":
    write_page()
