"""Cards of the language models' recipes, and the tables of all recipes."""

from pathlib import Path

from keras_tying.zoo.recipes import Recipe, list_recipes, load_recipe
from studies.pages import DASH, NOT_MEASURED, Section, between_marks, code, number, page, section, table, versions_line

METRICS = ("train_perplexity", "validation_perplexity", "test_perplexity")
ZOO_PAGE = Section(
    title="The zoo",
    text="""
Each result has a recipe (TOML) and a card (Markdown). This table shows test perplexities; the cards also show training
and validation perplexities. `python train/lm.py --recipe NAME --record` trains a recipe and writes the measured metrics
into it. `make zoo` makes this page and the cards from the recipes.
""",
)
STUDIES_TEXT = (
    "Recipes of translators are in [translation.md](translation.md). Studies: [what embeddings learn](embeddings.md), "
    "[joint language models](nnjm.md), [the augmented loss](augmentation.md)."
)


def card_pages(folder: Path) -> dict[Path, str]:
    """The card of each recipe of a folder, and the `README.md` that lists them, by their paths."""
    recipes = read_recipes(folder)
    cards = {folder / f"{name}.md": card(name, recipe) for name, recipe in recipes.items()}
    return cards | {folder / "README.md": page(ZOO_PAGE, [recipe_table(recipes), STUDIES_TEXT])}


def with_results(readme: str, folder: Path) -> str:
    """The repository's README with the table of the recipes that have published and measured perplexities."""
    shown = {name: recipe for name, recipe in read_recipes(folder).items() if recipe.published and recipe.measured}
    return between_marks(readme, "results", recipe_table(shown, f"{folder.name}/"))


def read_recipes(folder: Path) -> dict[str, Recipe]:
    """The language models' recipes of a folder by name."""
    return {name: load_recipe(folder / f"{name}.toml") for name in list_recipes("language_model", folder)}


def card(name: str, recipe: Recipe) -> str:
    """The Markdown card of one recipe."""
    published, measured = recipe.published, recipe.measured
    rows = [[metric.replace("_", " "), *perplexities(recipe, metric)] for metric in METRICS]
    size = f"{measured.parameters:,}" if measured else NOT_MEASURED
    rows.append(["parameters", (published and published.parameters) or DASH, size])
    parts = [table(["", "published", "measured"], "|---|--:|--:|", rows)]
    if published:
        parts.append(f"Published in: {published.source}.")
    if measured:
        curves = f"results/{name}.json"
        parts.append(
            f"Measured with seed {measured.seed} after {measured.epochs} epochs, "
            f"{measured.wall_time_seconds / 60:.0f} minutes of training ({measured.words_per_second:,.0f} words per "
            f"second) on {measured.device}, in {measured.precision}; {versions_line(measured.versions)}.\n"
            f"Curves of the run: [{curves}]({curves})."
        )
    parts.append(code(measured.command if measured else f"python train/lm.py --recipe {name}"))
    if recipe.notes:
        parts += section(Section(title="Notes", text=recipe.notes))
    return page(Section(title=recipe.title, text=recipe.description), parts)


def recipe_table(recipes: dict[str, Recipe], folder: str = "") -> str:
    """The Markdown table of recipes, with links to their cards in a folder."""
    rows = []
    for name, recipe in recipes.items():
        published, measured = recipe.published, recipe.measured
        size = f"{measured.parameters:,}" if measured else (published and published.parameters) or DASH
        rows.append([f"[{name}]({folder}{name}.md)", recipe.title, size, *perplexities(recipe, "test_perplexity")])
    return table(["recipe", "model", "parameters", "published", "measured"], "|---|---|--:|--:|--:|", rows)


def perplexities(recipe: Recipe, metric: str) -> list[str]:
    """The published and the measured value of a metric, as a table shows them."""
    published, measured = (getattr(values, metric, None) for values in (recipe.published, recipe.measured))
    return [number(published), number(measured, absent=NOT_MEASURED)]
