"""A model of the time per training step on many workers, and a plot of its predictions.

A step takes the time to compute, with the same number of rows on every worker, and the time to exchange gradients. With
`W` workers::

    seconds(W) = compute + transfers * latency + bytes(W) / bandwidth

Workers form a ring. To sum arrays of `S` bytes, each worker sends `2 (W - 1) / W * S` bytes, in `2 (W - 1)` transfers
per array. To gather rows of `R` bytes, it sends `(W - 1) * R` bytes in `W - 1` transfers per array. A tied model has
one embedding matrix to sum, an untied model has two. If the gradient of the lookup is sparse, its rows are gathered
instead of summing the second matrix, as long as the rows of all workers are fewer numbers than twice the matrix.
"""

import statistics
from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter
from scipy.optimize import nnls

from studies.plots import write_png

BYTES = 4
WORDS_PER_WORKER, WIDTH = 20 * 20, 200
"""Words of a batch that one worker has, and the width of their embedding."""
MANY = 2 ** np.arange(11)
"""Numbers of workers that are predicted."""
GIGABIT = 1e9 / 8
CLUSTER = {"latency": 50e-6, "bandwidth": 10 * GIGABIT}
"""An assumed network of machines: 10 Gbit/s, 50 microseconds. Nothing was measured on such a network."""
COLOURS = {"tied": "tab:blue", "untied": "tab:orange", "untied, rows": "tab:green"}


def fit_network(sums: list[dict]) -> dict[str, float]:
    """Latency in seconds and bandwidth in bytes per second, fitted to measured sums."""
    rows, seconds = [], []
    for each in sums:
        transfers, sent = sum_over(each["workers"], each["bytes"], each["arrays"])
        weight = 1 / each["seconds"]  # the fit minimises relative errors, so that long sums do not dominate
        rows.append([transfers * weight, sent * weight])
        seconds.append(1.0)
    (latency, inverse), _ = nnls(np.array(rows), np.array(seconds))
    return {"latency": float(latency), "bandwidth": float(1 / inverse)}


def sum_over(workers: int, size: float, arrays: int) -> tuple[float, float]:
    """Transfers and bytes that each worker sends, to sum arrays of `size` bytes in total."""
    return 2 * (workers - 1) * arrays, 2 * (workers - 1) / workers * size


def gather(workers: int, size: float, arrays: int) -> tuple[float, float]:
    """Transfers and bytes that each worker sends, to gather `size` bytes of each worker."""
    return (workers - 1) * arrays, (workers - 1) * size


def traffic(variant: str, workers: int, parameters: list[int]) -> tuple[float, float]:
    """Transfers and bytes that a worker sends per step. `parameters[0]` is the size of the input embedding."""
    words, width = WORDS_PER_WORKER, WIDTH
    if variant != "untied, rows" or workers * words >= 2 * parameters[0] / width:
        return sum_over(workers, BYTES * sum(parameters), len(parameters))
    parts = (
        sum_over(workers, BYTES * sum(parameters[1:]), len(parameters) - 1),
        gather(workers, BYTES * words * (width + 1), 2),
    )
    return sum(part[0] for part in parts), sum(part[1] for part in parts)


def predict(variant: str, workers: int, compute: float, network: dict[str, float], parameters: list[int]) -> dict:
    """Predicted bytes and seconds per step, from the seconds of a step without communication."""
    transfers, sent = traffic(variant, workers, parameters)
    communication = transfers * network["latency"] + sent / network["bandwidth"]
    return {
        "predicted_bytes_sent_a_step": round(sent),
        "predicted_seconds_a_step": round(compute + communication, 4),
        "parameters": parameters,
    }


def break_even(variant: str, compute: float, parameters: list[int]) -> list[float]:
    """Bandwidth in Gbit/s at which communication takes as long as computing, for 2, 4, ... 1,024 workers.

    It is infinite where latency alone takes longer.
    """
    bandwidths = []
    for workers in MANY[1:]:
        transfers, sent = traffic(variant, workers, parameters)
        left = compute - transfers * CLUSTER["latency"]
        bandwidths.append(sent / left / GIGABIT if left > 0 else np.inf)
    return bandwidths


def compute_seconds(steps: dict) -> float:
    """Seconds that one worker computes for a step: the mean of the variants, which all compute the same.

    Alone, an untied model sends nothing in either variant, and is measured once.
    """
    return statistics.fmean({rows["1"]["seconds_a_step"] for rows in steps.values()})


def draw(results: dict, path: Path) -> None:
    """Plots seconds per step, measured and predicted here and predicted on many machines, and break-even bandwidths."""
    figure = Figure(figsize=(12, 4), layout="constrained")
    here, there, needed = figure.subplots(1, 3)
    steps = results["steps_of"]
    compute = compute_seconds(steps)
    for variant, rows in steps.items():
        colour, workers = COLOURS[variant], [*map(int, rows)]
        here.plot(workers, [row["predicted_seconds_a_step"] for row in rows.values()], color=colour, label=variant)
        here.plot(workers, [row["seconds_a_step"] for row in rows.values()], "o", color=colour)
        parameters = rows["1"]["parameters"]
        predicted = [predict(variant, w, compute, CLUSTER, parameters)["predicted_seconds_a_step"] for w in MANY]
        there.plot(MANY, predicted, color=colour, label=variant)
        there.plot(*crossing(MANY, predicted, 2 * compute), "x", color=colour)
        needed.plot(MANY[1:], break_even(variant, compute, parameters), color=colour, label=variant)
    here.set(title="one machine: measured (dots), predicted", ylabel="seconds per step")
    here.set_ylim(bottom=0)
    there.set(title="10 Gbit/s, 50 µs; x: half is communication", ylabel="seconds per step")
    needed.set(title="break-even of communication and computing", ylabel="Gbit/s", yscale="log")
    for axes in (here, there, needed):
        axes.set_xlabel("workers")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FormatStrFormatter("%d"))
        axes.title.set_fontsize(10)
    needed.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    needed.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    needed.yaxis.set_minor_formatter(NullFormatter())
    here.legend(frameon=False)
    write_png(figure, path, dpi=90, data=steps)


def crossing(xs: np.ndarray, ys: list[float], level: float) -> tuple[list[float], list[float]]:
    """The point where a line through points first rises above a level; empty if it does not."""
    for (x, y), (next_x, next_y) in pairwise(zip(xs, ys, strict=True)):
        if y <= level < next_y:
            return [x * (next_x / x) ** ((level - y) / (next_y - y))], [level]
    return [], []
