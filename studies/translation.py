"""The tables of the zoo's page on translation, made from recipes and recorded results."""

from pathlib import Path
from typing import Any

from keras_tying.zoo.recipes import list_recipes, load_recipe
from studies.pages import DASH, NOT_MEASURED, between_marks, number, table
from studies.results import read_results

TYINGS = ("none", "decoder", "three_way")
METRICS = {"parameters": ",", "validation_bleu": ".2f", "test_bleu": ".2f"}
"""Formats of the metrics that are published and measured."""
PUBLISHED_OVERLAPS = {  # Press and Wolf, table 1
    "WMT14 en to fr, published": (2_000, 7_000, 85_000),
    "WMT15 en to de, published": (3_000, 11_000, 80_000),
}


def with_results(page: str, folder: Path) -> str:
    """The page of a folder of translation recipes with the tables of its results."""
    return between_marks(between_marks(page, "results", score_table(folder)), "subwords", overlap_table(folder))


def score_table(folder: Path) -> str:
    """Parameters, BLEU and chrF of each recipe, published and measured; recipes of a corpus by their tying."""
    columns = ["recipe", "parameters: published", "measured", "validation BLEU: published", "measured"]
    columns += ["test BLEU: published", "measured", "test chrF"]
    recipes = {name: load_recipe(folder / f"{name}.toml") for name in list_recipes("translation", folder)}

    def sort_key(name: str) -> tuple[str, str, int]:
        data: Any = recipes[name].data
        arguments = recipes[name].model.arguments
        return data.corpus, data.target_language, TYINGS.index(arguments["tying"])

    rows = []
    for name in sorted(recipes, key=sort_key):
        path = folder / "results" / f"{name}.json"
        measured = read_results(path) or {}
        cells = [f"[{name}](results/{path.name})" if measured else name]
        for metric, form in METRICS.items():
            published = getattr(recipes[name].published, metric, None)
            cells += [DASH if published is None else str(published), number(measured.get(metric), form, NOT_MEASURED)]
        rows.append([*cells, number(measured.get("test_chrf"), ".2f", NOT_MEASURED)])
    return table(columns, "|---|" + "--:|" * 7, rows)


def overlap_table(folder: Path) -> str:
    """How many subwords occur in the source text alone, in the target text alone and in both, by corpus."""
    rows = [[text, *(f"{count:,}" for count in counts)] for text, counts in PUBLISHED_OVERLAPS.items()]
    for path in sorted((folder / "results").glob("overlap_*.json")):
        found = read_results(path) or {}
        text = f"[{found['corpus']} {found['source']} to {found['target']}](results/{path.name})"
        rows.append([text, *(f"{found[key]:,}" for key in ("only_source", "only_target", "both"))])
    return table(["text", "of the source alone", "of the target alone", "of both"], "|---|--:|--:|--:|", rows)
