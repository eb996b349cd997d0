"""The study of joint language models: trains the cells without results, draws the plots, makes its page.

The study is zoo/studies/nnjm.toml, which names the files of its texts; its results are in zoo/results.
"""

import argparse
import statistics
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_tying.zoo.recipes import recipe_folder
from studies.joint_grid import train_grid, word_weights
from studies.joint_study import Grid, JointStudy, Ordering, PerplexityTable, load_study, model_file, results_file
from studies.pages import DASH, MISSING, NOT_MEASURED, mean_and_range, number, page, plot, provenance, section, table
from studies.plots import COLOURS, panel, panels, write_png
from studies.results import read_results

Results = dict[str, dict[str, Any] | None]
"""Recorded results of each grid."""

WITHOUT_VALUE = {DASH, NOT_MEASURED}
"""Cells of tables."""


def train_and_draw(arguments: argparse.Namespace) -> int:
    """The work of `train/nnjm_grid.py`."""
    study = load_study()
    for grid in arguments.grids:
        todo = study.todo(grid, arguments.seeds, arguments.main_only)
        train_grid(study, grid, todo, arguments.data_dir, arguments.runs)
    print(*draw_plots(arguments.runs), sep="\n")
    return 0


def joint_page(folder: Path) -> str:
    """The page on joint language models, from the study and results of the zoo's folder."""
    study = load_study(folder)
    results, parts = _results(study, folder), []
    for name, grid in study.grids.items():
        parts += _text_of(grid, results_file(folder, name), results[name])
    cells = {grid: {cell for cell, *_ in study.todo(grid)} for grid in study.grids}
    for each in study.tables:
        parts += section(each, perplexity_table(each, each.columns or study.columns, cells, results))
    for ordering in study.orderings:
        parts += section(ordering, ordering_table(ordering, ordering.columns or study.columns, cells, results))
    plots = {caption: plot(folder / "results" / f"{n}.png", caption) for n, caption in study.pictures.captions.items()}
    if any(plots.values()):
        parts.append("## Plots")
    for caption, shown in plots.items():
        parts += [f"{caption}:", shown] if shown else []
    return page(study, parts)


def _results(study: JointStudy, folder: Path) -> Results:
    return {grid: read_results(results_file(folder, grid)) for grid in study.grids}


def _text_of(grid: Grid, path: Path, results: dict[str, Any] | None) -> list[str]:
    """Text, schedule and provenance of a grid's results."""
    if results is None:
        return [f"**{grid.title}**: {NOT_MEASURED}."]
    data, samples = results["data"], results["samples"]
    pairs = f"the first {data['sentences']:,}" if data["sentences"] else "all"
    return [
        f"**{grid.title}**: {pairs} pairs of the training text, {samples['train']:,} target words with the "
        f"ends of sentences ({samples['valid']:,} to validate, {samples['test']:,} to test); "
        f'tokenization "{data["tokenization"]}", '
        f"{data['source_vocabulary_size']:,} source and {data['target_vocabulary_size']:,} target words at most; "
        f"{_schedule_of(grid, results)}.",
        *provenance(path, results),
    ]


def _schedule_of(grid: Grid, results: dict[str, Any]) -> str:
    """Epochs, batches and learning rate of a grid's results, and when its trainings stop."""
    schedule = results["optimisation"]
    text = f"{schedule['epochs']} epochs of SGD with batches of {schedule['batch_size']}{_rate_of(grid, results)}"
    patience = schedule.get("patience")
    if patience is None or patience >= schedule["epochs"]:
        return text
    return f"at most {text}, stopped after {patience} epochs without a better validation perplexity"


def _rate_of(grid: Grid, results: dict[str, Any]) -> str:
    """The learning rate of a grid's results, and how it was chosen; nothing if each cell has its own."""
    if all("learning_rate" in cell.get("arguments", {}) for cell in results["cells"].values()):
        return ""
    rate = f" and rate {results['optimisation']['learning_rate']}"
    return f"{rate}, the best of {grid.rates_of} on validation text" if grid.rates_of else rate


def perplexity_table(content: PerplexityTable, columns: list[str], cells: dict[str, set[str]], results: Results) -> str:
    """Published and measured perplexities of cells, one column per grid; a dash where the grid has no such cell.

    A table without published perplexities has only the rows and columns that have a value.
    """
    rows = []
    for cell in content.rows or content.published:
        shown = []
        for grid in columns:
            measured = [run[content.split] for run in _runs(results[grid], cell)]
            exists = measured or cell in cells[grid]
            shown.append(mean_and_range(measured, ".2f", count=True) if exists else DASH)
        rows.append([cell, *shown])
    if not content.published:
        columns, rows = _with_values(columns, rows, 1)
        return table(["model", *columns], "| --- |" + " --: |" * len(columns), rows) if rows else MISSING
    rows = [[cell, number(content.published.get(cell), ".2f"), *shown] for cell, *shown in rows]
    return table(["model", "published", *columns], "| --- | --: |" + " --: |" * len(columns), rows)


def ordering_table(ordering: Ordering, columns: list[str], cells: dict[str, set[str]], results: Results) -> str:
    """Whether the first cell of each pair has the lower test perplexity, one column per grid.

    A dash stands where the grid lacks one of them. Rows and columns without a value are left out.
    """
    rows = []
    for pair in ordering.pairs:
        shown = []
        for grid in columns:
            low, high = ([run["test"] for run in _runs(results[grid], cell)] for cell in (pair.lower, pair.higher))
            exists = (low and high) or {pair.lower, pair.higher} <= cells[grid]
            shown.append(is_lower(low, high) if exists else DASH)
        rows.append([pair.lower, pair.higher, *shown])
    columns, rows = _with_values(columns, rows, 2)
    titles = [ordering.lower, ordering.higher, *columns]
    return table(titles, "| --- | --- |" + " --- |" * len(columns), rows) if rows else MISSING


def _with_values(columns: list[str], rows: list[list[str]], heads: int) -> tuple[list[str], list[list[str]]]:
    """The columns and rows that have a value; the first `heads` cells of a row are its names."""
    kept = [i for i in range(len(columns)) if any(row[heads + i] not in WITHOUT_VALUE for row in rows)]
    rows = [row[:heads] + [row[heads + i] for i in kept] for row in rows]
    return [columns[i] for i in kept], [row for row in rows if set(row[heads:]) - WITHOUT_VALUE]


def _runs(results: dict[str, Any] | None, cell: str) -> list[dict[str, Any]]:
    """Results of each seed of a cell."""
    return list(results["cells"].get(cell, {"runs": {}})["runs"].values()) if results else []


def is_lower(low: list[float], high: list[float]) -> str:
    """Whether the perplexities of one model are lower than those of another, in words.

    Args:
        low: Perplexities of the model that is expected to have the lower ones, one per seed.
        high: Perplexities of the other model.

    Example:

    >>> is_lower([9.0, 9.2], [9.9, 10.1]), is_lower([9.0, 9.4], [9.3, 9.5]), is_lower([9.9, 9.8], [9.1, 9.3])
    ('yes, -9.0%', 'within the seeds, -2.1%', 'no, +7.1%')
    """
    if not low or not high:
        return NOT_MEASURED
    answer = "yes" if max(low) < min(high) else "no" if min(low) > max(high) else "within the seeds"
    single = ", one seed" if min(len(low), len(high)) == 1 else ""
    return f"{answer}{single}, {statistics.mean(low) / statistics.mean(high) - 1:+.1%}"


def draw_plots(runs: Path, folder: Path | None = None) -> list[Path]:
    """Draws the recorded results, and the weights of one trained model if it is still among the runs.

    Args:
        runs: Folder of the study's runs.
        folder: The zoo's folder. Default: where the recipes are.

    Returns:
        The paths of the plots.
    """
    folder = folder or recipe_folder()
    study, plots = load_study(folder), folder / "results"
    results, shown = _results(study, folder), study.pictures
    paths = []
    if curves := measured_curves(study, results):
        paths.append(draw_curves(curves, plots / "nnjm_sweeps.png"))
    for run in _runs(results[shown.grid], shown.weights)[:1]:
        paths.append(draw_position_weights(run["position_weights"], shown.window, plots / "nnjm_positions.png"))
    model = model_file(runs / shown.grid, shown.weights, seed=1)
    if model.exists():
        paths.append(draw_weights(keras.saving.load_model(model), plots / "nnjm_weights.png"))
    return paths


def measured_curves(study: JointStudy, results: Results) -> dict[str, list[tuple[float, float]]]:
    """Values of each quantity with the validation perplexities measured there."""
    curves = {
        quantity: [
            (point.at, run["valid"])
            for i, point in enumerate(points)
            for run in _runs(results.get("sweeps"), f"{quantity}, {i}")
        ]
        for quantity, points in study.sweeps.items()
    }
    for run in _runs(results[study.pictures.grid], study.pictures.history)[:1]:
        curves["epochs"] = list(enumerate(run["valid_by_epoch"], start=1))
    return {quantity: curve for quantity, curve in curves.items() if curve}


def draw_curves(curves: dict[str, list[tuple[float, float]]], path: Path) -> Path:
    """Draws validation perplexity over the values of each quantity, one panel each, as PNG; returns its path.

    Reference:
        Zhang and Qi, figures 5 to 10.
    """
    figure, all_axes = panels(-(-len(curves) // 3), 3, (3, 2.6))
    for axes, (name, curve) in zip(all_axes, curves.items(), strict=False):
        axes.plot(*zip(*curve, strict=True), "o-", ms=3, color=COLOURS[0])
        if name == "learning rate":
            axes.set_xscale("log")
        axes.set_xlabel(name)
        axes.grid(alpha=0.3)
    for axes in all_axes[len(curves) :]:
        axes.remove()
    figure.supylabel("validation perplexity")
    return write_png(figure, path, data=curves)


def draw_weights(model, path: Path) -> Path:
    """Draws |W| of the first hidden layer by input and hidden unit, as PNG; returns its path.

    Reference:
        Zhang and Qi, figure 11.
    """
    figure, axes = panel("", "hidden unit", (9, 3))
    words = word_weights(model)
    image = axes.imshow(words.reshape(-1, words.shape[-1]).T, aspect="auto", cmap="viridis", interpolation="nearest")
    middles = [model.embedding_size * (i + 0.5) for i in range(len(words))]
    axes.set_xticks(middles, position_names(len(words), model.window), fontsize=7)
    figure.colorbar(image, label="|W|")
    return write_png(figure, path)


def draw_position_weights(means: list[float], window: int, path: Path) -> Path:
    """Draws mean |W| by input word, as PNG; returns its path.

    Args:
        means: Means of the words of window and history, as `position_weights` gives them.
        window: Number of words of the window.
        path: The file to write.

    Reference:
        Zhang and Qi, figure 12.
    """
    figure, axes = panel("", "mean |W|", (7, 3))
    positions = np.arange(len(means))
    axes.bar(positions[:window], means[:window], color=COLOURS[0], label="source window")
    axes.bar(positions[window:], means[window:], color=COLOURS[1], label="target history")
    axes.set_xticks(positions, position_names(len(means), window), fontsize=8)
    axes.legend()
    return write_png(figure, path, data=[means, window])


def position_names(words: int, window: int) -> list[str]:
    """Names of input words: `s` is the affiliated source word, `s+1` the next one, `t-1` the previous target word."""
    source = [f"s{i:+d}" if i else "s" for i in range(-(window // 2), window - window // 2)]
    return source + [f"t-{i}" for i in range(words - window, 0, -1)]
