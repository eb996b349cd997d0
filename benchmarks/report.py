"""Tables and a plot of the measurements: python -m benchmarks.report

Reads `results/*.json`, writes `README.md` and `results/speed.png` beside it, and the table in the
repository's README, and those of docs/distributed.md.
"""

import json
from itertools import zip_longest
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks import scale_report
from benchmarks.run import RESULTS
from keras_tying.files import write_atomically
from studies.pages import NOT_MEASURED, between_marks
from studies.plots import write_png

COMMAND = "python -m benchmarks.report"
OURS = "keras-tying"
COLOURS = {
    "stock Keras": "tab:orange",
    "PyTorch": "tab:blue",
    "PyTorch, dropping finished": "lightskyblue",
    "JoeyNMT": "tab:green",
}
PANELS_A_ROW = 3
TITLES = {
    "training": "Training, words a second",
    "output_layer": "The output layer alone, forward and backward, tokens a second; 500 wide",
    "evaluation": "Reading a text for its perplexity, words a second",
    "generation": "Drawing 20 texts side by side, words a second",
    "waiting": "Training with and without reading a text, words a second",
    "growth": "How the time of a training step grows",
    "translation": "Translation: training, target words a second, and translating, sentences a second",
    "translated_text": "Translating a text with a beam of 5, sentences a second; one model, here and copied to PyTorch",
    "joint_language_model": "Training NNJM, samples a second; its paper reports 1,500 on a GPU of 2014",
}

SHARES = {
    "share_of_matrix_product_rate": "share of the rate of matrix products",
    "share_of_time_waiting": "share of time waiting for data",
    "alike": "share of translations alike",
}


def main() -> None:
    found = {name: json.loads(path.read_text()) for name in TITLES if (path := RESULTS / f"{name}.json").exists()}
    write_atomically(RESULTS.parent / "README.md", ("\n".join(page(found)) + "\n").encode())
    readme = RESULTS.parents[1] / "README.md"
    summary = speed_table(found["training"]["results"]) if "training" in found else [NOT_MEASURED]
    write_atomically(
        readme, between_marks(readme.read_text(encoding="utf-8"), "speed", "\n".join(summary), COMMAND).encode()
    )
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
        "Every contender runs in a process of its own and they take turns, A B C A B C; a ratio is the median of the",
        "ratios within a round, so a machine that slows down does not favour one of them. Memory is the peak above",
        "what the imported libraries take. Two layers of 200 (small), 650 (medium) and 1,500 (large) units, batch 20,",
        "10,000 words, random text. GPU: not measured. Made by `python -m benchmarks.report`.",
        "",
        "![Speed beside PyTorch and stock Keras](results/speed.png)",
    ]
    for name, title in TITLES.items():
        lines += ["", f"## {title}", ""]
        if name not in found:
            lines.append("Not measured.")
            continue
        measured = found[name]
        table = growth_table if name == "growth" else speed_table
        versions = ", ".join(f"{package} {version}" for package, version in measured["versions"].items())
        lines += [*table(measured["results"]), "", f"{measured['device']}; {versions}.", ""]
        lines += ["```", measured["command"], "```"]
    return lines


def speed_table(results: dict[str, dict]) -> list[str]:
    """Words a second of every contender, and what it is beside them in speed and memory."""
    names = list(rates(next(iter(results.values()))))
    others = [name for name in names if not name.startswith(OURS)]
    columns = [*names, *(f"speed beside {name}" for name in others), *(f"memory beside {name}" for name in others)]
    shares = {key: title for key, title in SHARES.items() if any(key in each for each in results.values())}
    columns += shares.values()
    lines = [_row("", *columns), _row("---", *["--:"] * len(columns))]
    for size, each in results.items():
        cells = [f"{rates(each)[name]:,.0f}" for name in names]
        cells += [f"{each['speed_ratio'][name]:.2f}" for name in others]
        cells += [f"{each['memory_ratio'][name]:.2f}" for name in others]
        cells += [f"{each[key]:.2f}" for key in shares]
        lines.append(_row(size, *cells))
    return lines


def rates(measured: dict) -> dict[str, float]:
    """Words, sentences or samples a second, whatever was counted, of every contender."""
    return next(value for key, value in measured.items() if key.endswith("_per_second"))


def growth_table(results: dict[str, dict]) -> list[str]:
    """Milliseconds a step by size, and fitted exponents."""
    lines = [_row("", "", "milliseconds a step", "exponent"), _row("---", "---", "---", "--:")]
    for dimension, each in results.items():
        for name, seconds in each["seconds_a_step"].items():
            times = ", ".join(f"{int(value):,}: {1000 * second:.0f}" for value, second in seconds.items())
            lines.append(_row(dimension, name, times, each["exponent"][name]))
    return lines


def _row(*cells: str) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def draw(found: dict[str, dict], path: Path) -> None:
    """Bars: how many times as fast as each other contender, a panel a part."""
    parts = [name for name in TITLES if name in found and name not in ("waiting", "growth")]
    rows = -(-len(parts) // PANELS_A_ROW)
    figure = Figure(figsize=(4 * PANELS_A_ROW, 3.2 * rows), layout="constrained")
    panels = figure.subplots(rows, PANELS_A_ROW, squeeze=False).flat
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
