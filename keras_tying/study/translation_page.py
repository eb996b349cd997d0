"""The tables of the zoo's page on translation, made from recipes and recorded results.

python -m keras_tying.study.translation_page
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_tying.files import write_atomically
from keras_tying.study.results import read_results
from keras_tying.training.translation_recipes import (
    PublishedTranslation,
    TranslationRecipe,
    load_translation_recipe,
    translation_recipe_folder,
)
from keras_tying.zoo.cards import NOT_MEASURED, between_marks
from keras_tying.zoo.recipes import list_recipes

RESULTS = "<!-- results, made by `make zoo` -->", "<!-- end of results -->"
OVERLAPS = "<!-- subwords, made by `make zoo` -->", "<!-- end of subwords -->"

TYINGS = ("none", "decoder", "three_way")
PUBLISHED_OVERLAPS = {  # in thousands: Press and Wolf, table 1
    "WMT14 en to fr, published": (2, 7, 85),
    "WMT15 en to de, published": (3, 11, 80),
}


def write_tables(folder: Path | None = None) -> Path:
    """Writes the tables into the page of a folder of translation recipes; returns its path."""
    folder = folder or translation_recipe_folder()
    page = folder / "README.md"
    text = between_marks(page.read_text(encoding="utf-8"), *RESULTS, _results(folder))
    write_atomically(page, between_marks(text, *OVERLAPS, _overlaps(folder)).encode())
    return page


def _results(folder: Path) -> list[str]:
    lines = [
        "| recipe | parameters: published | measured | validation BLEU: published | measured "
        "| test BLEU: published | measured | test chrF |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    recipes = {name: load_translation_recipe(folder / f"{name}.toml") for name in list_recipes(folder)}
    for name, recipe in sorted(recipes.items(), key=lambda item: _place(item[1])):
        published = recipe.published
        measured = read_results(folder / "results" / f"{name}.json")
        link = f"[{name}](results/{name}.json)" if measured else name
        cells = [
            *(_published(published, "parameters"), _measured(measured, "parameters", ",")),
            *(_published(published, "validation_bleu"), _measured(measured, "valid_bleu")),
            *(_published(published, "test_bleu"), _measured(measured, "test_bleu"), _measured(measured, "test_chrf")),
        ]
        lines.append(f"| {link} | {' | '.join(cells)} |")
    return lines


def _place(recipe: TranslationRecipe) -> tuple:
    return recipe.data.corpus, recipe.data.target, TYINGS.index(recipe.model.arguments["tying"])


def _published(figures: PublishedTranslation | None, label: str) -> str:
    value = getattr(figures, label, None)
    return "—" if value is None else str(value)


def _measured(figures: Mapping[str, Any] | None, label: str, form: str = ".2f") -> str:
    return NOT_MEASURED if figures is None else format(figures[label], form)


def _overlaps(folder: Path) -> list[str]:
    lines = ["| text | of the source alone | of the target alone | of both |", "|---|--:|--:|--:|"]
    for text, thousands in PUBLISHED_OVERLAPS.items():
        lines.append(f"| {text} | {' | '.join(f'{number},000' for number in thousands)} |")
    for path in sorted((folder / "results").glob("overlap_*.json")):
        found = read_results(path) or {}
        counts = (f"{found[key]:,}" for key in ("only_source", "only_target", "both"))
        text = f"{found['corpus']} {found['source']} to {found['target']}"
        lines.append(f"| [{text}](results/{path.name}) | {' | '.join(counts)} |")
    return lines


if __name__ == "__main__":
    write_tables()
