"""The page and the pictures of the joint language models, from the results of train/nnjm_grid.py."""

import json
import statistics
from pathlib import Path
from typing import Any

import keras
from nnjm_grid import SWEEPS, result_file, slug

from keras_tying.files import write_atomically
from keras_tying.training.joint_pictures import draw_curves, draw_heat_map, draw_position_weights

NOT_MEASURED = "not measured"
TABLES: dict[str, tuple[str, dict[str, float | None]]] = {
    "Table 1: hidden layers": ("valid", {"NNJM, SrcWin 3": 8.05, "NNJM, 2 hidden layers": 6.98}),
    "Table 2: activation": (
        "valid",
        {"NNJM, SrcWin 3": 8.05, "NNJM, rectify": 7.35, "NNJM, leaky rectify": 7.35},
    ),
    "Table 3: the models": (
        "test",
        {
            "NNLM": 95.06,
            "NNLM-Global": 94.73,
            "NNJM, SrcWin 7": 10.09,
            "NNJM-Global, SrcWin 7": 10.05,
            "NNJM, SrcWin 5": 9.89,
            "NNJM-Global, SrcWin 5": 9.71,
            "NNJM, SrcWin 3": 9.51,
            "NNJM-Global, SrcWin 3": 9.45,
            "NNJM-Global + SW-10": 9.44,
            "NNJM-Global + SW-25": 9.44,
        },
    ),
    "Table 4: sections of the source sentence": (
        "test",
        {
            "NNJM-Global, SrcWin 3": 9.45,
            "NNJM-Global + FixSplit 4": 9.54,
            "NNJM-Global + FixSplit 2": 9.38,
            "NNJM-Global + AdaSplit 2": 9.46,
        },
    ),
    "Table 5: a layer of the global context's own": (
        "test",
        {
            "NNJM-Global + NL 96": 9.45,
            "NNJM-Global + NL 192": 9.45,
            "NNJM-Global + FixSplit 2 + NL 96": 9.61,
            "NNJM-Global + FixSplit 2 + NL 192": 9.33,
            "NNJM-Global + AdaSplit 2 + NL 96": 9.55,
            "NNJM-Global + AdaSplit 2 + NL 192": 9.47,
        },
    ),
    "Table 6: word vectors of the NNJM of the same seed, frozen": (
        "test",
        {"NNJM-Global, SrcWin 3": 9.45, "NNJM-Global + BS": 9.53, "NNJM-Global + FixSplit 2 + BS": 9.53},
    ),
    "Tied, which the paper did not try": (
        "test",
        {
            "NNLM": None,
            "NNLM, tied": None,
            "NNJM, SrcWin 3": None,
            "NNJM, tied": None,
            "NNJM-Global, SrcWin 3": None,
            "NNJM-Global, tied": None,
        },
    ),
}
CORPORA = {
    "zh-en": "Chinese-English, with the alignment that came with it",
    "multi30k": "Multi30k French-English, aligned by eflomal",
}
PAIRS = (
    ("NNJM, SrcWin 3", "NNLM"),
    ("NNJM, SrcWin 3", "NNJM, SrcWin 5"),
    ("NNJM, SrcWin 5", "NNJM, SrcWin 7"),
    ("NNJM-Global, SrcWin 3", "NNJM, SrcWin 3"),
    ("NNJM-Global, SrcWin 5", "NNJM, SrcWin 5"),
    ("NNJM-Global, SrcWin 7", "NNJM, SrcWin 7"),
    ("NNLM-Global", "NNLM"),
    ("NNJM-Global + FixSplit 2", "NNJM-Global, SrcWin 3"),
    ("NNJM-Global, SrcWin 3", "NNJM-Global + BS"),
)
"""Which of two models has the lower test perplexity in the paper."""
DRAWN, WINDOW = "NNJM, SrcWin 5", 11
"""The model of figures 11 and 12: the paper's has that window too."""
TIED_PAIRS = (("NNLM, tied", "NNLM"), ("NNJM, tied", "NNJM, SrcWin 3"), ("NNJM-Global, tied", "NNJM-Global, SrcWin 3"))


def show(folder: Path, runs: Path) -> None:
    """Writes the page into the folder's parent and the pictures into the folder.

    The heat map is drawn anew where the model it shows is still in the folder of the runs.
    """
    found = {grid: json.loads(result_file(grid).read_text()) for grid in CORPORA if result_file(grid).exists()}
    model = runs / "zh-en" / f"{slug(DRAWN)}-1.keras"
    if model.exists():
        draw_heat_map(keras.saving.load_model(model), folder / "nnjm_weights.png")
    pictures = [*_positions(found, folder), *_curves(found, folder)]
    write_atomically(folder.parent / "nnjm.md", page(found, pictures).encode())


def page(found: dict[str, Any], pictures: list[str]) -> str:
    lines = [
        "# Joint language models",
        "",
        "NNLM, NNJM and NNJM-Global of Zhang and Qi, Neural Network Joint Language Model: An Investigation and an",
        "Extension with Global Source Context. Their figures are of 25,000 pairs of Europarl French-English (tables 1",
        "and 2: 100,000) with vocabularies of 10,000 (20,000) words; the ones measured here are of small corpora with",
        "small vocabularies, so rows compare within a column, not across. Word vectors have 96 numbers, hidden layers",
        "128 units, the history 3 words; SrcWin m is a window of 2 m + 1 source words, 3 where none is named. Tables 1",
        "and 2 give validation perplexities, the others test. A range is the spread of the seeds around their mean.",
        "",
    ]
    for grid, results in found.items():
        data, samples = results["data"], results["samples"]
        versions = ", ".join(f"{package} {version}" for package, version in results["versions"].items())
        pairs = f"first {data['sentences']:,} pairs" if data["sentences"] else "all pairs"
        lines += [
            f"**{CORPORA[grid]}**: {pairs} of the training text, {samples['train']:,} target words "
            f"({samples['valid']:,} to validate, {samples['test']:,} to test), tokenization "
            f'"{data["tokenization"]}", {data["source_vocabulary_size"]:,} words a side, at most '
            f"{results['schedule']['epochs']} epochs of SGD with batch {results['schedule']['batch_size']} and rate "
            f"{results['schedule']['learning_rate']}; {results['device']}; {versions}. Every run: "
            f"[results/{result_file(grid).name}](results/{result_file(grid).name}).",
            "",
            "```",
            results["command"],
            "```",
            "",
        ]
    for title, (split, rows) in TABLES.items():
        lines += [f"## {title}", "", _row("model", "published", *found), _row("---", *["--:"] * (1 + len(found)))]
        lines += [
            _row(cell, published or "—", *(_figure(results, cell, split) for results in found.values()))
            for cell, published in rows.items()
        ]
        lines.append("")
    lines += [
        "Bootstrapping from Google's word2vec vectors (table 6, published 9.45): not measured; the vectors are not",
        "at hand.",
        "",
    ]
    lines += ["## Does the paper's ordering hold?", ""]
    lines += [_row("lower in the paper", "than", *found), _row("---", "---", *["---"] * len(found))]
    lines += [_row(*pair, *(_ordering(results, *pair) for results in found.values())) for pair in PAIRS]
    lines += ["", "Tied against untied:", ""]
    lines += [_row("tied", "untied", *found), _row("---", "---", *["---"] * len(found))]
    lines += [_row(*pair, *(_ordering(results, *pair) for results in found.values())) for pair in TIED_PAIRS]
    lines += ["", '"yes" and "no" where the seeds of the two do not overlap, "within the seeds" where they do.', ""]
    lines += pictures
    lines += ["This page and its pictures are made by `python train/nnjm_grid.py --show`."]
    return "\n".join(lines) + "\n"


def _perplexities(results: dict, cell: str, split: str) -> list[float]:
    return [run[split] for run in results["cells"].get(cell, {}).get("runs", {}).values()]


def _figure(results: dict, cell: str, split: str) -> str:
    values = _perplexities(results, cell, split)
    if not values:
        return NOT_MEASURED
    if len(values) == 1:
        return f"{values[0]:.2f} (1 seed)"
    return f"{statistics.mean(values):.2f} ({min(values):.2f} to {max(values):.2f}, {len(values)} seeds)"


def _ordering(results: dict, lower: str, higher: str) -> str:
    low, high = _perplexities(results, lower, "test"), _perplexities(results, higher, "test")
    if not low or not high:
        return NOT_MEASURED
    change = f"{100 * (statistics.mean(low) / statistics.mean(high) - 1):+.1f}%"
    if len(low) < 2 or len(high) < 2:
        return f"{'yes' if low < high else 'no'}, one seed, {change}"
    if max(low) < min(high):
        return f"yes, {change}"
    return f"no, {change}" if min(low) > max(high) else f"within the seeds, {change}"


def _row(*columns) -> str:
    return "| " + " | ".join(str(column) for column in columns) + " |"


def _positions(found: dict, folder: Path) -> list[str]:
    """Figures 11 and 12."""
    runs = found.get("zh-en", {"cells": {}})["cells"].get(DRAWN, {}).get("runs", {})
    if not runs:
        return []
    draw_position_weights(next(iter(runs.values()))["position_weights"], WINDOW, folder / "nnjm_positions.png")
    lines = [f"|W| of the first layer by input word, {DRAWN}, zh-en, seed 1: means (figure 12)", ""]
    lines += ["![mean |W| by input word](results/nnjm_positions.png)", ""]
    if (folder / "nnjm_weights.png").exists():
        lines += ["and all of them (figure 11).", "", "![|W|](results/nnjm_weights.png)", ""]
    return ["## Pictures", "", *lines]


def _curves(found: dict, folder: Path) -> list[str]:
    """Figures 5 to 10, as far as they are measured."""
    curves = {}
    if result_file("sweeps").exists():
        cells = json.loads(result_file("sweeps").read_text())["cells"]
        for quantity, points in SWEEPS.items():
            measured = [
                (value, cells[name]["runs"]["1"]["valid"])
                for place, value in enumerate(points)
                if (name := f"{quantity}, {place}") in cells and cells[name]["runs"]
            ]
            if measured:
                curves[quantity] = tuple(zip(*measured, strict=True))
    runs = found.get("zh-en", {"cells": {}})["cells"].get("NNJM, SrcWin 3", {}).get("runs", {})
    if runs:
        history = next(iter(runs.values()))["valid_by_epoch"]
        curves["epochs"] = (list(range(1, len(history) + 1)), history)
    if not curves:
        return []
    draw_curves(curves, folder / "nnjm_sweeps.png")
    return [
        "Validation perplexity as one quantity changes (figures 5 to 10), zh-en, one seed; each grid's settings are in",
        "[results/nnjm_sweeps.json](results/nnjm_sweeps.json).",
        "",
        "![sweeps](results/nnjm_sweeps.png)",
        "",
    ]
