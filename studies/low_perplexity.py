"""The study of what a budget of core-hours buys: its page and its plot."""

import statistics
from itertools import accumulate
from pathlib import Path
from typing import Any

from pydantic import Field

from keras_tying.tables import load_table
from studies.cards import EVALUATIONS, measured_otherwise
from studies.pages import DASH, MISSING, NOT_MEASURED, Section, mean_and_range, page, plot, section, table
from studies.plots import COLOURS, data_of, fingerprint_of, panels, write_png
from studies.results import read_runs, read_seeds

SCREENING = "screening"
"""How the names of runs end that only choose settings."""
CLOCK = "†"
"""What follows hours on the clock, where CPU time was not recorded."""


class Size(Section):
    folder: str
    """Folder in the zoo's results whose files `NAME_sN.json` are rows of the table."""
    recipes: list[str] = Field(default_factory=list)
    """Recipes whose recorded results are rows too."""
    continued: dict[str, str | list[str]] = Field(default_factory=dict)
    """The run that each continued run starts from: that of the same seed, or with `NAME_sN` of the seed N. Several
    names for the mean of their weights. Epochs and time of all count. In this order, if one continues another."""


class Page(Section):
    """`studies/low_perplexity.toml` of the zoo."""

    picture: str
    """Name of the plot in the zoo's results."""
    caption: str
    sizes: list[Size]


def low_perplexity_page(folder: Path) -> str:
    """The page of the study, from the results of the zoo's folder."""
    content = load_table(Page, folder / "studies" / "low_perplexity.toml")
    parts = [plot(folder / "results" / f"{content.picture}.png", content.caption)]
    for size in content.sizes:
        parts += section(size, run_table(runs_of(size, folder / "results")))
    return page(content, parts)


def runs_of(size: Size, results: Path) -> dict[str, list[dict[str, Any]]]:
    """The results of each seed, by the name of the run."""
    runs = read_runs(results / size.folder)
    runs |= {name: seeds for name in size.recipes if (seeds := read_seeds(results, name))}
    for name, start in size.continued.items():
        if name not in runs:  # not measured
            continue
        starts = [start] if isinstance(start, str) else start
        runs[name] = [
            seed | {"starts": [_start_of(runs, name, start, seed["seed"]) for start in starts]} for seed in runs[name]
        ]
    return runs


def _start_of(runs: dict[str, list[dict[str, Any]]], name: str, start: str, seed: int) -> dict[str, Any]:
    """The results that a run continues, given as `NAME` or `NAME_sN`."""
    first, _, number = start.rpartition("_s")
    if number.isdigit():
        start, seed = first, int(number)
    for results in runs.get(start, []):
        if results["seed"] == seed:
            return results
    raise ValueError(f"{name} continues {start}, which has no results of seed {seed}")


def run_table(runs: dict[str, list[dict[str, Any]]]) -> str:
    """Budget and perplexities of runs, the best validation perplexity first."""
    if not runs:
        return MISSING

    def perplexities(name: str, split: str) -> list[float]:
        return [seed[f"{split}_perplexity"] for seed in runs[name]]

    def on_test_text(name: str) -> list[str]:
        if name.endswith(SCREENING):
            return [DASH] * (1 + len(EVALUATIONS))
        others = [measured_otherwise(runs[name], "test", way) for way in EVALUATIONS]
        return [mean_and_range(perplexities(name, "test")), *("" if each == NOT_MEASURED else each for each in others)]

    rows = [
        [
            name,
            f"{runs[name][0]['parameters']:,}",
            epochs(runs[name][0]),
            hours(runs[name]),
            mean_and_range(perplexities(name, "validation")),
            *on_test_text(name),
            str(len(runs[name])),
        ]
        for name in sorted(runs, key=lambda name: statistics.fmean(perplexities(name, "validation")))
    ]
    columns = ["run", "parameters", "epochs", "hours", "validation", "test"]
    columns += [f"test, {title}" for title in EVALUATIONS.values()] + ["seeds"]
    return table(columns, "|---|" + "--:|" * (len(columns) - 1), rows)


def epochs(results: dict[str, Any]) -> str:
    """Number of epochs, after those of the runs that this one continues."""
    return " + ".join(str(training["epochs"]) for training in trainings(results))


def hours(seeds: list[dict[str, Any]]) -> str:
    """Mean core-hours of seeds; if a GPU was used, hours on the clock with the names of the devices."""
    of_all = [training for seed in seeds for training in trainings(seed)]
    if any(map(on_gpu, of_all)):
        devices = dict.fromkeys(training["device"] for training in of_all)
        mean = sum(training["wall_time_seconds"] for training in of_all) / len(seeds) / 3600
        return f"{mean:.1f} ({' and '.join(devices)})"
    timed = all("processor_seconds" in training for training in of_all)
    return f"{statistics.fmean(map(core_hours, seeds)):.1f}{'' if timed else CLOCK}"


def trainings(results: dict[str, Any]) -> list[dict[str, Any]]:
    """The trainings of a run: those that it continues, each once, and its own."""
    before: list[dict[str, Any]] = []
    for start in results.get("starts", []):
        before += [each for each in trainings(start) if not any(each is other for other in before)]
    return [*before, results]


def on_gpu(results: dict[str, Any]) -> bool:
    """Whether a training did not run on cores of a CPU."""
    return not results["device"].endswith(("core", "cores"))


def core_hours(results: dict[str, Any]) -> float:
    """CPU time of a run with that of those it continues."""
    return sum(map(own_core_hours, trainings(results)))


def own_core_hours(results: dict[str, Any]) -> float:
    """CPU time of a training; of older results, which do not note it, the time on one core."""
    return results.get("processor_seconds", results["wall_time_seconds"]) / 3600


def curves(folder: Path) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """The curve of each run's first seed, by the title of its size and its name.

    Runs on a GPU or of no epochs have none.
    """
    content = load_table(Page, folder / "studies" / "low_perplexity.toml")
    return {
        size.title: {
            name: curve(seeds[0])
            for name, seeds in runs_of(size, folder / "results").items()
            if seeds[0]["history"] and not any(map(on_gpu, trainings(seeds[0])))
        }
        for size in content.sizes
    }


def curve(results: dict[str, Any]) -> list[tuple[float, float]]:
    """Core-hours and validation perplexity of each epoch. An epoch takes its share of the time of the training."""
    history = results["history"]
    shares = list(accumulate(1 / epoch["words_per_second"] for epoch in history))
    own = own_core_hours(results)
    before = core_hours(results) - own
    hours = [before + share / shares[-1] * own for share in shares]
    return list(zip(hours, (epoch["val_perplexity"] for epoch in history), strict=True))


def draw_budget(found: dict[str, dict[str, list[tuple[float, float]]]], path: Path) -> Path:
    """Draws validation perplexity by core-hours, a panel for each size, unless the plot shows these curves already.

    Returns its path.
    """
    if path.exists() and data_of(path) == fingerprint_of(found):
        return path
    figure, panels_of_sizes = panels(len(found), 1, (10, 3.4))
    for axes, (title, runs) in zip(panels_of_sizes, found.items(), strict=True):
        for i, (name, points) in enumerate(runs.items()):
            style = ("-", "--", ":")[i // len(COLOURS) % 3]  # where all colours are used
            label = f"{name}: {min(perplexity for _, perplexity in points):.1f}"
            axes.plot(*zip(*points, strict=True), style, color=COLOURS[i % len(COLOURS)], label=label)
        lowest = min(perplexity for points in runs.values() for _, perplexity in points)
        axes.set_ylim(0.97 * lowest, 1.7 * lowest)  # not the first epochs, beside which all others look the same
        axes.set(ylabel="validation perplexity", title=title)
        axes.legend(fontsize=9, title="best epoch", title_fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.set_xlabel("core-hours")
    return write_png(figure, path, data=found)
