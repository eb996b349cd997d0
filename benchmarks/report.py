"""Tables and a plot of the measurements.

python -m benchmarks.report

Reads `results/*.json`. Writes `benchmarks/README.md` and `results/speed.png`, the table in the README of the repository
and the tables in docs/distributed.md.
"""

import json
from itertools import zip_longest
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks import scale_report
from benchmarks.run import RESULTS
from keras_tying.files import write_atomically
from studies.pages import MISSING, NOT_MEASURED, between_marks, code, plot, table, versions_line
from studies.plots import write_png

COMMAND = "python -m benchmarks.report"
OURS = "keras-tying"
COLOURS = {
    "stock Keras": "tab:orange",
    "PyTorch": "tab:blue",
    "PyTorch, dropping finished": "lightskyblue",
    "JoeyNMT": "tab:green",
}
PANELS_PER_ROW = 3
TITLES = {
    "training": "Training, words per second",
    "output_layer": "The output layer alone, forward and backward pass, tokens per second; hidden size 500",
    "evaluation": "Computing the perplexity of a text, words per second",
    "generation": "Generating 20 texts in parallel, words per second",
    "waiting": "Training with and without reading a text, words per second",
    "growth": "How the time of a training step grows",
    "translation": "Translation: training, target words per second, and translating, sentences per second",
    "translated_text": "Translating a text with a beam of 5, sentences per second; a model and its copy in PyTorch",
    "joint_language_model": "Training NNJM, samples per second; its paper reports 1,500 on a GPU of 2014",
}

SHARES = {
    "share_of_matrix_product_rate": "share of the rate of matrix products",
    "share_of_time_waiting": "share of time waiting for data",
    "alike": "share of equal translations",
}
"""Columns of tables for further measurements of a part, by their key."""
DIMENSIONS = {"steps": "sequence length", "sequence_length": "sequence length"}
"""Names of what grows in the part `growth` where its key is not the name. Older results have the key `steps`."""


def main() -> None:
    found = {name: json.loads(path.read_text()) for name in TITLES if (path := RESULTS / f"{name}.json").exists()}
    write_atomically(RESULTS.parent / "README.md", ("\n".join(page(found)) + "\n").encode())
    readme = RESULTS.parents[1] / "README.md"
    summary = speed_table(found["training"]["results"]) if "training" in found else NOT_MEASURED
    write_atomically(readme, between_marks(readme.read_text(encoding="utf-8"), "speed", summary, COMMAND).encode())
    draw(found, RESULTS / "speed.png")
    distributed = RESULTS.parents[1] / "docs" / "distributed.md"
    text = distributed.read_text(encoding="utf-8")
    for name, lines in scale_report.sections(RESULTS).items():
        text = between_marks(text, name, "\n".join(lines), COMMAND)
    write_atomically(distributed, text.encode())


def page(found: dict[str, dict]) -> list[str]:
    lines = [
        "# Speed and memory",
        "",
        "Every contender runs in its own process, and the contenders take turns: A B C A B C. A ratio is the median of",
        "the ratios within a round, so a machine that slows down does not favour one of them. Memory is the peak above",
        "that of the imported libraries. A speed ratio above 1 means that keras-tying is faster; a memory ratio below",
        "1 means that it needs less memory. Models have two layers of 200 (small), 650 (medium) or 1,500 (large)",
        f"units and 10,000 words; the batch size is 20 and the text is random. GPU: not measured. Made by `{COMMAND}`.",
        "",
        plot(RESULTS / "speed.png", "Speed compared with PyTorch and stock Keras"),
    ]
    for name, title in TITLES.items():
        lines += ["", f"## {title}", ""]
        if name not in found:
            lines.append(MISSING)
            continue
        measured = found[name]
        make_table = growth_table if name == "growth" else speed_table
        lines += [make_table(measured["results"]), ""]
        lines += [f"{measured['device']}; {versions_line(measured['versions'])}.", "", code(measured["command"])]
    return lines


def speed_table(results: dict[str, dict]) -> str:
    """Words per second of every contender, and the ratios of speed and memory of keras-tying to each other one."""
    names = list(rates(next(iter(results.values()))))
    others = [name for name in names if not name.startswith(OURS)]
    columns = ["", *names, *(f"speed vs {name}" for name in others), *(f"memory vs {name}" for name in others)]
    shares = {key: title for key, title in SHARES.items() if any(key in each for each in results.values())}
    columns += shares.values()
    rows = []
    for size, each in results.items():
        cells = [f"{rates(each)[name]:,.0f}" for name in names]
        cells += [f"{each['speed_ratio'][name]:.2f}" for name in others]
        cells += [f"{each['memory_ratio'][name]:.2f}" for name in others]
        cells += [f"{each[key]:.2f}" for key in shares]
        rows.append([size, *cells])
    return table(columns, "|---|" + "--:|" * (len(columns) - 1), rows)


def rates(measured: dict) -> dict[str, float]:
    """Words, sentences or samples per second of every contender."""
    return next(value for key, value in measured.items() if key.endswith("_per_second"))


def growth_table(results: dict[str, dict]) -> str:
    """Milliseconds per step by size, and the fitted exponents."""
    rows = []
    for dimension, each in results.items():
        for name, seconds in each["seconds_a_step"].items():
            times = ", ".join(f"{int(value):,}: {1000 * second:.0f}" for value, second in seconds.items())
            rows.append([DIMENSIONS.get(dimension, dimension), name, times, str(each["exponent"][name])])
    return table(["", "", "milliseconds per step", "exponent"], "|---|---|---|--:|", rows)


def draw(found: dict[str, dict], path: Path) -> None:
    """Plots how many times as fast as each other contender keras-tying is; one panel per part."""
    parts = [name for name in TITLES if name in found and name not in ("waiting", "growth")]
    rows = -(-len(parts) // PANELS_PER_ROW)
    figure = Figure(figsize=(4 * PANELS_PER_ROW, 3.2 * rows), layout="constrained")
    panels = figure.subplots(rows, PANELS_PER_ROW, squeeze=False).flat
    legend = {}
    for axes, part in zip_longest(panels, parts):
        if part is None:
            axes.set_axis_off()
            continue
        results = found[part]["results"]
        others = [n for n in next(iter(results.values()))["speed_ratio"] if not n.startswith(OURS)]
        width = 0.8 / len(others)
        for place, other in enumerate(others):
            ratios = [each["speed_ratio"][other] for each in results.values()]
            bars = axes.bar(np.arange(len(results)) + place * width, ratios, width * 0.95, color=COLOURS[other])
            axes.bar_label(bars, fmt="%.2f", fontsize=8)
            legend.setdefault(f"than {other}", bars)
        axes.axhline(1, color="black", linewidth=0.8)
        axes.margins(y=0.12)
        axes.set_xticks(np.arange(len(results)) + width * (len(others) - 1) / 2, list(results))
        axes.set_title(part.replace("_", " "), fontsize=10)
    figure.legend(legend.values(), legend.keys(), loc="outside lower center", ncols=len(legend), frameon=False)
    figure.supylabel("times as fast")
    write_png(figure, path, dpi=90)


if __name__ == "__main__":
    main()
