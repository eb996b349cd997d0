"""Plots of one quantity over another."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from keras_tying.study.plots import COLOURS, write_png
from keras_tying.training import Run


def read_history(path: str | Path) -> list[dict[str, float]]:
    """Logs of each epoch of a run.

    Args:
        path: Folder of a run, finished or not, or the results of one (`.json`).

    Raises:
        ValueError: If nothing of that run is logged yet.
        FileNotFoundError: If there is no such run.
    """
    path = Path(path)
    if path.suffix == ".json":
        return json.loads(path.read_text(encoding="utf-8"))["history"]
    run = Run.open(path)
    index = run.checkpoints / "index.json"
    entries = json.loads(index.read_text(encoding="utf-8")) if index.is_file() else []
    history = entries[-1]["progress"]["history"] if entries else []
    if not history:
        raise ValueError(f"{path} has finished no epoch yet, so there is nothing to draw.")
    return history


def draw_validation(histories: Mapping[str, Sequence[Mapping[str, float]]], path: Path, top: float = 160.0) -> None:
    """Validation perplexity by epoch, a line a run, as PNG.

    Args:
        histories: Logs of each epoch, by the name of their run.
        path: The file.
        top: Upper end of the axis: what the first epochs are above it is not drawn.

    Reference:
        Inan, Khosravi and Socher, Tying Word Vectors and Word Classifiers, figure 2.
    """
    figure = Figure(figsize=(6, 4.4), layout="constrained")
    axes = figure.subplots()
    lowest = []
    for i, (name, history) in enumerate(histories.items()):
        perplexities = [logs["val_perplexity"] for logs in history]
        lowest.append(min(perplexities))
        epochs = range(1, len(perplexities) + 1)
        axes.plot(epochs, perplexities, color=COLOURS[i % len(COLOURS)], label=f"{name}: {lowest[-1]:.1f}")
    if min(lowest) < top:
        axes.set_ylim(0.97 * min(lowest), top)
    axes.set_xlabel("epoch")
    axes.set_ylabel("validation perplexity")
    axes.legend(fontsize=9, title="lowest", title_fontsize=9)
    write_png(figure, path)


def draw_subspace_distances(results: Mapping[str, Any], path: Path) -> None:
    """Subspace distances over beta and over tau, single runs as dots, as PNG.

    Reference:
        Inan, Khosravi and Socher, Tying Word Vectors and Word Classifiers, figure 1.
    """
    by_beta, by_tau = results["by_beta"], results["by_tau"]
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    panels = zip(
        figure.subplots(1, 2, sharey=True),
        [("beta", by_beta, "tau"), ("tau", by_tau, "beta")],
        ["share of the augmented loss, beta", "temperature, tau"],
        strict=True,
    )
    for axes, (over, sweep, fixed), label in panels:
        runs = [run for run in results["runs"] if run[fixed] == sweep[fixed]]
        axes.plot(sweep[over], sweep["distance"], color=COLOURS[0])
        axes.plot(
            [run[over] for run in runs], [run["distance"] for run in runs], "o", ms=4, alpha=0.5, color=COLOURS[1]
        )
        axes.set_xlabel(label)
        axes.set_title(f"{fixed} = {sweep[fixed]:g}", fontsize=10)
        axes.set_ylim(0, 1.03)
    figure.axes[0].set_ylabel("subspace distance")
    write_png(figure, path)
