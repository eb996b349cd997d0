"""Cards of the zoo's results, and the table of all of them, made from the recipes.

python -m keras_tying.zoo.cards
"""

from pathlib import Path

from keras_tying.files import write_atomically
from keras_tying.zoo.recipes import Measured, Published, Recipe, list_recipes, load_recipe, recipe_folder

PERPLEXITIES = ("train_perplexity", "validation_perplexity", "test_perplexity")
NOT_MEASURED = "not measured"
START, END = "<!-- results, made by `make zoo` -->", "<!-- end of results -->"


def write_cards(folder: Path | None = None) -> None:
    """Writes a card a recipe and `README.md` into the recipes' folder."""
    folder = folder or recipe_folder()
    found = {name: load_recipe(name) for name in list_recipes()}
    for name, recipe in found.items():
        write_atomically(folder / f"{name}.md", card(name, recipe).encode())
    write_atomically(folder / "README.md", table(found).encode())
    readme = folder.parent / "README.md"
    if readme.exists():
        write_atomically(readme, with_summary(readme.read_text(encoding="utf-8"), found).encode())


def with_summary(readme: str, found: dict[str, Recipe]) -> str:
    """The repository's README with the rows of what has been published and measured between its two marks."""
    shown = {name: recipe for name, recipe in found.items() if recipe.published and recipe.measured}
    return between_marks(readme, START, END, _rows(shown, "zoo/"))


def between_marks(page: str, start: str, end: str, lines: list[str]) -> str:
    """A page with what stands between two marks replaced; as it was if it lacks them."""
    before, _, rest = page.partition(start)
    _, found, after = rest.partition(end)
    return "\n".join([before + start, *lines, end + after]) if found else page


def card(name: str, recipe: Recipe) -> str:
    """The Markdown card of one recipe."""
    published, measured = recipe.published, recipe.measured
    rows = [
        (label.replace("_", " "), _figure(published, label), _figure(measured, label, absent=NOT_MEASURED))
        for label in PERPLEXITIES
    ]
    parameters = f"{measured.parameters:,}" if measured else NOT_MEASURED
    rows.append(("parameters", published.parameters or "—" if published else "—", parameters))
    lines = [
        f"# {recipe.title}",
        "",
        recipe.description,
        "",
        "| | published | measured |",
        "|---|--:|--:|",
        *(f"| {label} | {theirs} | {ours} |" for label, theirs, ours in rows),
        "",
    ]
    if published:
        lines += [f"Published in: {published.source}.", ""]
    if measured:
        minutes = measured.wall_time_seconds / 60
        lines += [
            f"Measured with seed {measured.seed} after {measured.epochs} epochs, {minutes:.0f} minutes of training "
            f"({measured.words_per_second:,.0f} words a second) on {measured.device}, in {measured.precision}; "
            f"{versions_line(measured.versions)}.",
            "Curves of the run: " + f"[results/{name}.json](results/{name}.json).",
            "",
            "```",
            measured.command,
            "```",
        ]
    else:
        lines += ["```", f"python train/lm.py --recipe {name}", "```"]
    if recipe.notes:
        lines += ["", "## Notes", "", recipe.notes.strip()]
    return "\n".join(lines) + "\n"


def table(found: dict[str, Recipe]) -> str:
    """The Markdown table of all recipes."""
    lines = [
        "# The zoo",
        "",
        "One recipe (TOML) and one card (Markdown) a result. Perplexities on the test split; the cards have the",
        "others. This page and the cards are made from the recipes by `make zoo`; a recipe's measured figures are",
        "written by the command that ran it (`python train/lm.py --recipe NAME --record`).",
        "",
        *_rows(found),
        "",
        "Studies: [what embeddings learn](embeddings.md), [joint language models](nnjm.md), "
        "[the augmented loss](augmentation.md).",
    ]
    return "\n".join(lines) + "\n"


def versions_line(versions: dict[str, str]) -> str:
    """Packages and their versions in words."""
    return ", ".join(f"{package} {version}" for package, version in versions.items())


def _rows(found: dict[str, Recipe], folder: str = "") -> list[str]:
    rows = ["| recipe | model | parameters | published | measured |", "|---|---|--:|--:|--:|"]
    for name, recipe in found.items():
        published, measured = recipe.published, recipe.measured
        size = f"{measured.parameters:,}" if measured else (published and published.parameters) or "—"
        rows.append(
            f"| [{name}]({folder}{name}.md) | {recipe.title} | {size} | "
            f"{_figure(published, 'test_perplexity')} | "
            f"{_figure(measured, 'test_perplexity', absent=NOT_MEASURED)} |"
        )
    return rows


def _figure(figures: Published | Measured | None, label: str, absent: str = "—") -> str:
    value = None if figures is None else getattr(figures, label)
    return absent if value is None else f"{value:.1f}"


if __name__ == "__main__":
    write_cards()
