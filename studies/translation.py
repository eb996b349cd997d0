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
    return between_marks(readme, "BLEU", bleu_table(folder))


def bleu_table(folder: Path) -> str:
    """Test BLEU of the English-German recipes of Multi30k, and whether it shows which tying is best."""
    results = settings_results(folder)
    if not results:
        return MISSING
    chosen = next(iter(results.values()))
    bleu = {name: [each["test_bleu"] for each in seeds] for name, seeds in chosen.items()}
    rows = [
        [name, f"{seeds[0]['parameters']:,}", mean_and_range(bleu[name]), str(len(seeds))]
        for name, seeds in chosen.items()
    ]
    best = max(bleu, key=lambda name: statistics.fmean(bleu[name]))
    alone = all(min(bleu[best]) > max(scores) for name, scores in bleu.items() if name != best)
    verdict = f"The {best} model is the best." if alone else "The ranges overlap, so which tying is best is not known."
    if alone and min(map(len, bleu.values())) == 1:
        verdict = f"The {best} model has the highest BLEU, but one seed may be chance."
    titles = ["Multi30k, English to German", "parameters", "test BLEU", "seeds"]
    return table(titles, "|---|--:|--:|--:|", rows) + f"\n\n{verdict}"


def schedule_table(folder: Path) -> str:
    """Validation and test BLEU by tying, of the English-German recipes of Multi30k and of their other settings.

    Below it are the orders, and the mean validation BLEU of each setting.
    """
    results = settings_results(folder)
    if not results:
        return MISSING
    bleu = {
        f"{split} BLEU, {epochs}": {name: [each[f"{split}_bleu"] for each in seeds] for name, seeds in models.items()}
        for split in ("validation", "test")
        for epochs, models in results.items()
    }
    first = next(iter(results.values()))
    rows = [
        [name, f"{seeds[0]['parameters']:,}", *(mean_and_range(scores[name]) for scores in bleu.values())]
        for name, seeds in first.items()
    ]
    tests = {epochs: bleu[f"test BLEU, {epochs}"] for epochs in results}
    orders = {
        epochs: sorted(scores, key=lambda name: -statistics.fmean(scores[name])) for epochs, scores in tests.items()
    }
    best_first = "; ".join(f"{', '.join(order)} ({epochs})" for epochs, order in orders.items())
    validation = " and ".join(f"{_validation(models):.2f} ({epochs})" for epochs, models in results.items())
    titles = ["Multi30k, English to German", "parameters", *bleu]
    return (
        table(titles, "|---|" + "--:|" * (len(titles) - 1), rows)
        + f"\n\nBest test BLEU first: {best_first}. The mean validation BLEU of the three "
        f"models is {validation}. {_seeds_text(results)}"
    )


def settings_results(folder: Path) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Results of all seeds by setting and model, first those of the recipes; empty if a model has none."""
    files = {"untied": "untied", "decoder tied": "decoder", "three-way tied": "three_way"}
    settings = [
        {name: read_seeds(folder / "results", f"multi30k_en_de_{file}{ending}") for name, file in files.items()}
        for ending in ("", "_12_epochs")
    ]
    if not all(seeds for models in settings for seeds in models.values()):
        return {}
    return {f"{models['untied'][0]['epochs']} epochs": models for models in settings}


def _validation(column: dict[str, list[dict[str, Any]]]) -> float:
    """The mean validation BLEU of all models, each the mean of its seeds."""
    return statistics.fmean(statistics.fmean(each["validation_bleu"] for each in seeds) for seeds in column.values())


def _seeds_text(results: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    """How many seeds the models of each setting have, in a sentence."""
    counts = {epochs: sorted({*map(len, models.values())}) for epochs, models in results.items()}
    if all(count == [1] for count in counts.values()):
        return "Each model was trained with one seed."
    ranges = (f"{' to '.join(map(str, dict.fromkeys([c[0], c[-1]])))} ({epochs})" for epochs, c in counts.items())
    return (
        f"A figure is the mean of its seeds, with the lowest and the highest in brackets. Seeds: {'; '.join(ranges)}."
    )


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
        if not (seeds or recipes[name].published):  # a quick test
            continue
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
