"""The study of the augmented loss: its page, and the work of `train/subspace.py`."""

import argparse
import statistics
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from keras_tying import data
from keras_tying.tables import load_table
from keras_tying.training import environment, trained_in
from keras_tying.zoo.recipes import load_recipe, recipe_folder
from studies.cards import values_of
from studies.pages import DASH, MISSING, Section, mean_and_range, number, page, plot, provenance, section, table
from studies.plots import COLOURS, panels, write_png
from studies.results import read_results, read_runs, write_results
from studies.subspace import SubspaceSettings, sweep


class Perplexities(Section):
    recipes: list[str]
    """Rows of the table."""
    picture: str
    """Name of a recorded plot of their validation perplexities."""
    caption: str


class Trials(Section):
    folder: str
    """Folder in the zoo's results whose files `NAME_TRAINING_sN.json` are the rows of the table."""
    without_test: str
    """The training whose test perplexities are not shown."""


class NextWords(Section):
    table: str
    """Name of a recorded table of `train/compare.py next-words`."""


class Page(Section):
    """`studies/augmentation.toml` of the zoo."""

    perplexities: Perplexities
    trials: Trials
    next_words: NextWords
    subspace: Section


def augmentation_page(folder: Path) -> str:
    """The page on the augmented loss, from the studies, recipes and results of the zoo's folder."""
    content, results = load_table(Page, folder / "studies" / "augmentation.toml"), folder / "results"
    measured, words = content.perplexities, results / f"{content.next_words.table}.md"
    curves = plot(results / f"{measured.picture}.png", measured.caption)
    parts = [
        *section(measured, perplexity_table(measured.recipes, folder), curves),
        *(section(content.trials, trials) if (trials := trial_table(content.trials, results)) else []),
        *section(content.next_words, words.read_text(encoding="utf-8") if words.exists() else MISSING),
        *section(content.subspace, *distances(results / "subspace.json")),
    ]
    return page(content, parts)


def perplexity_table(names: list[str], folder: Path) -> str:
    """Published and measured perplexities of recipes."""
    recipes = {name: load_recipe(folder / f"{name}.toml") for name in names}
    rows = [
        [
            f"[{recipe.title}]({name}.md)",
            number(getattr(recipe.published, "validation_perplexity", None)),
            mean_and_range(values_of(name, "validation_perplexity", folder)),
            number(getattr(recipe.published, "test_perplexity", None)),
            mean_and_range(values_of(name, "test_perplexity", folder)),
        ]
        for name, recipe in recipes.items()
    ]
    columns = ["", "validation: published", "measured", "test: published", "measured"]
    return table(columns, "|---|--:|--:|--:|--:|", rows)


def trial_table(content: Trials, results: Path) -> str:
    """Perplexities of the recorded trials, a row for each recipe and training; empty if there are none.

    Within each training the best validation perplexity comes first.
    """
    runs = read_runs(results / content.folder)
    if not runs:
        return ""
    rows = []
    for run, seeds in runs.items():
        name, training = run.rsplit("_", 1)
        epochs = f"{training}, {seeds[0]['epochs']} epochs"
        valid, test = ([seed[f"{split}_perplexity"] for seed in seeds] for split in ("validation", "test"))
        shown = DASH if training == content.without_test else mean_and_range(test)
        rows.append((training, statistics.fmean(valid), [name, epochs, mean_and_range(valid, count=True), shown]))
    ordered = [row for *_, row in sorted(rows, key=lambda row: row[:2])]
    return table(["trial", "training", "validation", "test"], "|---|---|--:|--:|", ordered)


def distances(path: Path) -> list[str]:
    """Tables, plot and provenance of recorded subspace distances."""
    results = read_results(path)
    if results is None or "by_beta" not in results:
        return [MISSING]
    tables = []
    for over, fixed in (("beta", "tau"), ("tau", "beta")):
        means = results[f"by_{over}"]
        seeds: dict[float, list[float]] = {value: [] for value in means[over]}
        for run in results["runs"]:
            if run[fixed] == means[fixed] and run[over] in seeds:
                seeds[run[over]].append(run["distance"])
        rows = [[f"{value:g}", mean_and_range(found, ".3f"), str(len(found))] for value, found in seeds.items()]
        tables.append(table([f"{over}, at {fixed} {means[fixed]:g}", "distance", "seeds"], "|--:|--:|--:|", rows))
    shown = plot(path.with_suffix(".png"), "Subspace distance over beta and tau")
    return [*tables, shown, *provenance(path, results)]


def draw_distances(results: Mapping[str, Any], path: Path) -> Path:
    """Draws subspace distances over beta and over tau, single runs as dots, as PNG; returns its path.

    Reference:
        Inan, Khosravi and Socher, Tying Word Vectors and Word Classifiers, figure 1.
    """
    figure, both = panels(1, 2, (4.5, 3.8), sharey=True)
    labels = "share of the augmented loss, beta", "temperature, tau"
    for axes, label, (over, fixed) in zip(both, labels, [("beta", "tau"), ("tau", "beta")], strict=True):
        means = results[f"by_{over}"]
        runs = [
            (run[over], run["distance"])
            for run in results["runs"]
            if run[fixed] == means[fixed] and run[over] in means[over]
        ]
        axes.plot(means[over], means["distance"], color=COLOURS[0])
        axes.plot(*zip(*runs, strict=True), "o", ms=4, alpha=0.5, color=COLOURS[1])
        axes.set(xlabel=label, ylim=(0, 1.03))
        axes.set_title(f"{fixed} = {means[fixed]:g}", fontsize=10)
    both[0].set_ylabel("subspace distance")
    shown = [[run[key] for key in ("beta", "tau", "seed", "distance")] for run in results["runs"]]
    return write_png(figure, path, data=[results["by_beta"], results["by_tau"], shown])


def measure(arguments: argparse.Namespace, command: str) -> int:
    corpus = data.load_corpus(arguments.corpus, arguments.data_dir)
    tokens = list(corpus.tokens("train"))
    ids = data.Vocabulary.from_tokens(tokens).encode(tokens)
    settings = SubspaceSettings(arguments.words, arguments.units, epochs=arguments.epochs)
    start = recipe_folder() / "results" / "subspace" if arguments.record else arguments.output
    path, picture = (start.with_name(f"{start.name}.{ending}") for ending in ("json", "png"))
    described = {"corpus": arguments.corpus, **asdict(settings)}
    earlier = earlier_results(path, described)
    results = {"runs": [], **(earlier or environment()), "settings": described}

    def keep(run: dict[str, Any]) -> None:
        results.update(trained_in([*([earlier] if earlier else []), environment()]))
        point = f"beta {run['beta']:4g}  tau {run['tau']:4g}  seed {run['seed']}"
        print(f"{point}  distance {run['distance']:.3f}  perplexity {run['perplexity']:.1f}", flush=True)
        write_results(path, results)

    results |= sweep(ids, arguments.betas, arguments.taus, arguments.seeds, settings, results["runs"], keep)
    write_results(path, {**results, "command": command})
    print(path, draw_distances(results, picture), sep="\n")
    return 0


def earlier_results(path: Path, settings: dict[str, Any]) -> dict[str, Any] | None:
    """The results of an earlier sweep, interrupted or with fewer points."""
    earlier = read_results(path)
    if earlier and earlier["settings"] != settings:
        problem = f"{path} has runs of other settings: {earlier['settings']}. Expected: {settings}."
        raise ValueError(f"{problem} Move it elsewhere or name another --output.")
    return earlier
