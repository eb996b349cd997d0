"""The tables of the zoo's page on translation, made from recipes and recorded results."""

import statistics
from pathlib import Path
from typing import Any

from keras_tying.zoo.recipes import list_recipes, load_recipe
from studies.pages import DASH, MISSING, between_marks, mean_and_range, table
from studies.results import read_results, read_seeds

TYINGS = ("none", "decoder", "three_way")
METRICS = {"parameters": ",", "validation_bleu": ".2f", "test_bleu": ".2f"}
"""Formats of the metrics that are published and measured."""
PUBLISHED_OVERLAPS = {  # Press and Wolf, table 1
    "WMT14 en to fr, published": (2_000, 7_000, 85_000),
    "WMT15 en to de, published": (3_000, 11_000, 80_000),
}


def with_results(page: str, folder: Path) -> str:
    """The page of a folder of translation recipes with the tables of its results."""
    page = between_marks(page, "results", score_table(folder))
    page = between_marks(page, "schedules", schedule_table(folder))
    return between_marks(page, "subwords", overlap_table(folder))


def with_bleu(readme: str, folder: Path) -> str:
    """The repository's README with the BLEU of the translators of Multi30k."""
    return between_marks(readme, "BLEU", schedule_table(folder))


def schedule_table(folder: Path) -> str:
    """Test BLEU by tying, of the English-German recipes of Multi30k and of their earlier settings, and the orders.

    Below it is the mean validation BLEU of each setting.
    """
    files = {"untied": "untied", "decoder tied": "decoder", "three-way tied": "three_way"}
    columns: list[dict[str, list[dict[str, Any]]]] = [  # of the recipes, and of the earlier settings
        {name: read_seeds(folder / "results", f"multi30k_en_de_{file}{ending}") for name, file in files.items()}
        for ending in ("", "_25_epochs")
    ]
    if not all(seeds for column in columns for seeds in column.values()):
        return MISSING
    bleu = [{name: [each["test_bleu"] for each in seeds] for name, seeds in column.items()} for column in columns]
    rows = [
        [name, f"{columns[0][name][0]['parameters']:,}", *(mean_and_range(column[name]) for column in bleu)]
        for name in files
    ]
    epochs = [f"{column['untied'][0]['epochs']} epochs" for column in columns]
    orders = [
        sorted(files, key={name: -statistics.fmean(column[name]) for name in files}.__getitem__) for column in bleu
    ]
    best_first = "; ".join(f"{', '.join(order)} ({count})" for order, count in zip(orders, epochs, strict=True))
    titles = ["Multi30k, English to German", "parameters", *(f"test BLEU, {count}" for count in epochs)]
    validation = " and ".join(
        f"{_validation(column):.2f} ({count})" for column, count in zip(columns, epochs, strict=True)
    )
    return (
        table(titles, "|---|" + "--:|" * 3, rows)
        + f"\n\nBest first: {best_first}. The mean validation BLEU of the three models is "
        f"{validation}. The recipes have {epochs[0]} because they take half the time. {_seeds_text(epochs, bleu)}"
    )


def _validation(column: dict[str, list[dict[str, Any]]]) -> float:
    """The mean validation BLEU of all models, each the mean of its seeds."""
    return statistics.fmean(statistics.fmean(each["validation_bleu"] for each in seeds) for seeds in column.values())


def _seeds_text(epochs: list[str], scores: list[dict[str, list[float]]]) -> str:
    """How many seeds the columns of scores have, in a sentence."""
    counts = [sorted({*map(len, column.values())}) for column in scores]
    if counts == [[1]] * len(counts):
        return "Each model was trained with one seed."
    ranges = (" to ".join(map(str, dict.fromkeys([count[0], count[-1]]))) for count in counts)
    seeds = "; ".join(f"{each} ({of})" for each, of in zip(ranges, epochs, strict=True))
    return f"A cell is the mean of its seeds, with the lowest and the highest in brackets. Seeds: {seeds}."


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
        seeds = read_seeds(folder / "results", name)
        cells = [f"[{name}](results/{path.name})" if seeds else name]
        for metric, form in METRICS.items():
            published = getattr(recipes[name].published, metric, None)
            cells += [DASH if published is None else str(published), _mean(seeds, metric, form)]
        rows.append([*cells, _mean(seeds, "test_chrf", ".2f")])
    return table(columns, "|---|" + "--:|" * 7, rows)


def _mean(seeds: list[dict[str, Any]], metric: str, form: str) -> str:
    """A metric of several seeds; the same number of parameters has no range."""
    values = [results[metric] for results in seeds if results.get(metric) is not None]
    return mean_and_range(sorted(set(values)) if metric == "parameters" else values, form)


def overlap_table(folder: Path) -> str:
    """How many subwords occur in the source text alone, in the target text alone and in both, by corpus."""
    rows = [[text, *(f"{count:,}" for count in counts)] for text, counts in PUBLISHED_OVERLAPS.items()]
    for path in sorted((folder / "results").glob("overlap_*.json")):
        found = read_results(path) or {}
        text = f"[{found['corpus']} {found['source']} to {found['target']}](results/{path.name})"
        rows.append([text, *(f"{found[key]:,}" for key in ("only_source", "only_target", "both"))])
    return table(["text", "of the source alone", "of the target alone", "of both"], "|---|--:|--:|--:|", rows)
