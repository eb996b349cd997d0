"""The zoo's page on the augmented loss, made from the recorded results.

python -m keras_tying.study.augmentation_page
"""

from pathlib import Path

from keras_tying.files import write_atomically
from keras_tying.study.results import MISSING, provenance, read_results
from keras_tying.tables import Table, load_table
from keras_tying.zoo.cards import NOT_MEASURED
from keras_tying.zoo.recipes import Measured, Published, load_recipe, recipe_folder

FIGURES = ("validation_perplexity", "test_perplexity")


class Perplexities(Table):
    title: str
    text: str
    recipes: list[str]
    """Rows of the table."""
    picture: str
    """Name of a picture of their curves among the results."""
    caption: str


class NextWords(Table):
    title: str
    text: str
    table: str
    """Name of a table of `train/compare.py next-words` among the results."""


class Subspace(Table):
    title: str
    text: str


class Page(Table):
    title: str
    text: str
    perplexities: Perplexities
    next_words: NextWords
    subspace: Subspace


def write_page(folder: Path | None = None) -> Path:
    """Writes `augmentation.md` from `studies/augmentation.toml`, recipes and results; returns its path."""
    folder = folder or recipe_folder()
    content = load_table(Page, folder / "studies" / "augmentation.toml")
    parts = [
        f"# {content.title}",
        content.text.strip(),
        f"## {content.perplexities.title}",
        content.perplexities.text.strip(),
        *_perplexities(content.perplexities, folder),
        f"## {content.next_words.title}",
        content.next_words.text.strip(),
        _table(folder / "results" / f"{content.next_words.table}.md"),
        f"## {content.subspace.title}",
        content.subspace.text.strip(),
        *_distances(folder / "results" / "subspace.json"),
    ]
    path = folder / "augmentation.md"
    write_atomically(path, ("\n\n".join(parts) + "\n").encode())
    return path


def _perplexities(content: Perplexities, folder: Path) -> list[str]:
    lines = [
        "| | validation: published | measured | test: published | measured |",
        "|---|--:|--:|--:|--:|",
    ]
    for name in content.recipes:
        recipe = load_recipe(folder / f"{name}.toml")
        cells = [
            _figure(figures, label, absent)
            for label in FIGURES
            for figures, absent in ((recipe.published, "—"), (recipe.measured, NOT_MEASURED))
        ]
        lines.append(f"| [{recipe.title}]({name}.md) | {' | '.join(cells)} |")
    parts = ["\n".join(lines)]
    if (folder / "results" / f"{content.picture}.png").exists():
        parts.append(f"![{content.caption}](results/{content.picture}.png)")
    return parts


def _figure(figures: Published | Measured | None, label: str, absent: str) -> str:
    value = getattr(figures, label, None)
    return absent if value is None else f"{value:.1f}"


def _table(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip() if path.exists() else MISSING


def _distances(path: Path) -> list[str]:
    results = read_results(path)
    if results is None or "by_beta" not in results:
        return [MISSING]
    runs, tables = results["runs"], []
    for over, sweep, fixed in (("beta", results["by_beta"], "tau"), ("tau", results["by_tau"], "beta")):
        lines = [f"| {over}, at {fixed} {sweep[fixed]:g} | distance | runs |", "|--:|--:|--:|"]
        for value, distance in zip(sweep[over], sweep["distance"], strict=True):
            of_point = sum((run[over], run[fixed]) == (value, sweep[fixed]) for run in runs)
            lines.append(f"| {value:g} | {distance:.3f} | {of_point} |")
        tables.append("\n".join(lines))
    picture = f"![Subspace distance over beta and tau]({path.parent.name}/{path.stem}.png)"
    return [*tables, picture, *provenance(path, results)]


if __name__ == "__main__":
    write_page()
