"""Tables and a plot of the measurements.

python -m benchmarks.report

Reads `results/*.json`. Writes `benchmarks/README.md` and `results/speed.png`, the part about speed in the README of the
repository, and the measurements in docs/distributed.md, docs/training.md and docs/serving.md.
"""

import json
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks import scale_report, serving_report
from benchmarks.run import RESULTS, STEPS_PER_TURN, STEPS_PER_TURN_ON_GPU
from keras_tying.files import write_atomically
from keras_tying.training.engine import STEPS_PER_EXECUTION
from studies.pages import MISSING, NOT_MEASURED, between_marks, code, origin, plot, table
from studies.plots import write_png

COMMAND = "python -m benchmarks.report"
OURS = "keras-tying"
COLOURS = {
    "stock Keras": "tab:orange",
    "PyTorch": "tab:blue",
    "PyTorch, dropping finished": "lightskyblue",
    "JoeyNMT": "tab:green",
    "gensim": "tab:purple",
    "automatic gradients": "tab:gray",
    "memory returned": "silver",
}
PANELS_PER_ROW = 3
TITLES = {
    "training": ("Training", "Words per second."),
    "training_in_bfloat16": (
        "Training in bfloat16",
        "Words per second; keras-tying with the policy `mixed_bfloat16`, PyTorch with autocast.",
    ),
    "training_on_jax": ("Training on JAX", "Words per second; keras-tying and stock Keras on the JAX backend."),
    "training_on_gpu": (
        "Training on a GPU",
        f"Words per second; keras-tying and stock Keras on the JAX backend. A turn has {STEPS_PER_TURN_ON_GPU} steps. "
        "Matrix products in float32 are in TF32, for PyTorch too. Memory of the GPU is not measured.",
    ),
    "matrix_products": (
        "Matrix products",
        "Words per second. The matrix products of a training step alone, one after another: those of TensorFlow, which "
        "keras-tying uses, beside PyTorch's.",
    ),
    "profile_on_jax": (
        "Parts of a step on JAX",
        "Words per second, forward and backward pass: a whole training step, and its layers alone. The rest of a step "
        "is lookup, update and reading. A layer alone can take longer than in a step, so shares can add up to more "
        "than 1.",
    ),
    "mogrifier": (
        "Mogrifier LSTM layer",
        "Words per second, forward and backward pass of one layer `MogrifierLSTM`: 650 units, 5 rounds of rank 48, 64 "
        "rows. With automatic gradients the layer is the same. PyTorch runs a loop over its own operations.",
    ),
    "output_layer": ("Output layer", "Tokens per second, forward and backward pass; hidden size 500."),
    "large_vocabularies": (
        "Large vocabularies",
        "Tokens per second. An output layer of 90,000 words, 500 wide, for 4,000 tokens, and a causal Transformer of "
        "50,000 words. Stock Keras does the same work with all logits, on the same backend.",
    ),
    "adaptive_softmax": (
        "Adaptive softmax",
        "Tokens per second, values and gradients. An output layer of 250,000 words, 512 wide, for 4,000 tokens whose "
        "targets are as frequent as words in a text: adaptive softmax with cutoffs 20,000 and 60,000, all words, 8,192 "
        "sampled words, and the adaptive softmax of PyTorch.",
    ),
    "evaluation": ("Evaluation", "Words per second: computing the perplexity of a text."),
    "operations": (
        "Operations of TensorFlow",
        "Milliseconds per step by kind of operation, with the number of operations, in training and in reading a text. "
        "Both cores work at once, so the kinds can add up to more than the step. Recorded when gradients of sigmoid "
        "and tanh and copies of scores were not counted.",
    ),
    "cores": ("Runs on several cores", "The large model: one run on all cores, or a run on each core."),
    "generation": ("Generation", "Words per second; 20 texts in parallel."),
    "waiting": (
        "Waiting for data",
        "Words per second: training with and without reading a text.",
    ),
    "growth": (
        "Growth with the size",
        "Milliseconds per training step. The step time grows with the power of the size in the last column. The 84 ms "
        "of PyTorch with 200 units are probably an outlier: in training, a step with 200 units takes 45% less time per "
        "word. So its power with the units is probably too low.",
    ),
    "translation": (
        "Translation",
        "Training: target words per second. Beam search: sentences per second. The model in PyTorch has the same "
        "architecture. That of JoeyNMT is the most similar one it has: one GRU in the decoder and no readout layer.",
    ),
    "translated_text": (
        "Translation of a text",
        "Sentences per second with a beam of 5: a trained model, and its copy in PyTorch.",
    ),
    "joint_language_model": (
        "Joint language models",
        "Samples per second in training an NNJM. Memory returned: TensorFlow gives freed memory back to the system, "
        "which is its default. The paper reports 1,500 on a GPU of 2014.",
    ),
    "word2vec": ("Skip-gram", "Words per second in training word vectors."),
}
"""The title of each part, and what its table shows."""
NOT_COMPARED = ("waiting", "growth", "matrix_products", "profile_on_jax", "operations", "cores")
"""Parts that measure this library alone, or parts of another part: without memory, and neither plotted nor named as
slower."""
BETTER = "Where others are better"
"""The title of the section on it."""
OWN = ("automatic gradients", "memory returned")
"""Contenders that are this library with other settings, besides those whose names begin with its own."""
EARLIER = "Measured with an earlier version."
"""Said below the table of a part whose results have no commit."""
OLD_MEMORY = (
    "Memory was measured when the peak of a process included the memory of the process that started it. So memory is "
    "counted too low, most for PyTorch, and these ratios are not reliable. They have not been measured again."
)
MEASURED_SO = ("translation", "translated_text")
"""Parts of which `OLD_MEMORY` is said."""
INTRODUCTION = """# Speed and memory

- **Turns.** Every contender runs in its own process, and the contenders take turns: A B C A B C. A turn of training has
  {turns} steps.
- **Ratios.** A ratio is the median of the ratios within a round, so a machine that slows down does not favour one of
  them. The ratios of speed are shown with the lowest and the highest of a round. Rounds are minutes apart: on another
  day ratios can differ by more. A speed ratio above 1 means that keras-tying is faster. A memory ratio below 1 means
  that it needs less memory.
- **Memory** is the peak above that of the imported libraries, inputs included.
- **Models** have two layers of 200 (small), 650 (medium) or 1,500 (large) units and 10,000 words. The batch size is 20
  and the text is random.
- **Contenders.** keras-tying and stock Keras do up to {steps} steps per call (`steps_per_execution`). PyTorch is not
  compiled. Except in the parts on JAX, it ran in processes that had imported TensorFlow. Without TensorFlow it trains
  the small and the medium model about as fast, and its adaptive softmax is more than twice as fast. For the other parts
  this was not measured. JoeyNMT takes part in translation if it is installed.
- **Matrix products** alone are slower with TensorFlow than with PyTorch in most sizes: see [matrix
  products](#matrix-products), and [how much of a step they take](#operations-of-tensorflow).
- **Parts of a step** and the growth with the size are not among the cases of [{better}](#{anchor}).

Made by `{command}`. The commands below need the contenders: `pip install ".[bench,jax]"` in a clone,
and `".[ray]"` for `benchmarks.serving_load`.
"""
WITH_TENSORFLOW = (
    "PyTorch beside TensorFlow was measured in a process that had imported TensorFlow. In processes without it, as in "
    "the rows of other backends in [adaptive softmax](#adaptive-softmax), its code took half the time. So its speed is "
    "probably counted too low. It has not been measured again."
)
MEASURED_WITH_TENSORFLOW = ("output_layer", "adaptive_softmax")
"""Parts of which `WITH_TENSORFLOW` is said, because their vocabularies are large."""

MATRIX_PRODUCT_RATE = "share_of_matrix_product_rate"
LAST_COLUMN = (
    "Last column: floating-point operations per second of the training, counting matrix products only, divided by "
    "those of TensorFlow's matrix product alone, in the shape of the output layer."
)
SHARES = {
    MATRIX_PRODUCT_RATE: "share of the rate of matrix products",
    "share_of_time_waiting": "share of time waiting for data",
    "share_of_step": "share of the time of a step",
    "alike": "share of equal translations",
}
"""Columns of tables for further measurements of a part, by their key."""
DIMENSIONS = {"steps": "sequence length", "sequence_length": "sequence length"}
"""Names of what grows in the part `growth` where its key is not the name. Older results have the key `steps`."""


def main() -> None:
    for path, text in all_pages().items():
        write_atomically(path, text.encode())
    draw(read_measurements(), RESULTS / "speed.png")
    serving_report.draw(serving_report.read(RESULTS), RESULTS / "serving.png")


def all_pages() -> dict[Path, str]:
    """Text of every page and table that is made from the measurements, by its path."""
    found, repository = read_measurements(), RESULTS.parents[1]
    readme, docs = repository / "README.md", repository / "docs"
    serving, training, distributed = (docs / f"{name}.md" for name in ("serving", "training", "distributed"))
    texts = {path: path.read_text(encoding="utf-8") for path in (training, distributed)}
    for name, text in scale_report.sections(RESULTS).items():
        path = training if name == "corpora" else distributed
        texts[path] = between_marks(texts[path], name, text, COMMAND)
    return {
        **texts,
        RESULTS.parent / "README.md": "\n".join(page(found)) + "\n",
        readme: between_marks(readme.read_text(encoding="utf-8"), "speed", summary(found), COMMAND),
        serving: between_marks(serving.read_text(encoding="utf-8"), "load", serving_report.section(RESULTS), COMMAND),
    }


def read_measurements() -> dict[str, dict]:
    """The recorded measurements by part; `results` of each by the row of its table."""
    found = {name: json.loads(path.read_text()) for name in TITLES if (path := RESULTS / f"{name}.json").exists()}
    if "word2vec" in found:
        whole = found["word2vec"]
        row = {"speed_ratio": {"gensim": whole["results"]["speed_ratio"]}}
        row["words_per_second"] = whole["results"]["words_per_second"]
        versions = whole["versions"] | {"gensim": whole["gensim"]}
        found["word2vec"] = {**whole, "versions": versions, "results": {f"{whole['results']['words']:,} words": row}}
    return found


def summary(found: dict[str, dict]) -> str:
    """The table of training, and the parts in which another library is better, for the README."""
    if "training" not in found:
        return NOT_MEASURED
    trained = found["training"]["results"]
    speeds = {size: {key: each[key] for key in each.keys() - SHARES.keys()} for size, each in trained.items()}
    better = where_others_are_better(found)
    sentences = [f"{others} in some cases of: {', '.join(cases)}." for others, cases in better.items() if cases]
    more = [f"[All these cases](benchmarks/README.md#{anchor(BETTER)})."] if sentences else []
    return "\n\n".join(filter(None, [speed_table(speeds), " ".join(sentences + more)]))


def where_others_are_better(found: dict[str, dict]) -> dict[str, dict[str, list[str]]]:
    """The measurements in which another library is faster or takes less memory, by the title of the part."""
    reliable = {part: measured for part, measured in found.items() if part not in MEASURED_SO}
    return {
        "Others are faster": _compared(found, "speed_ratio", lambda ratio: ratio < 1),
        "Others take less memory": _compared(reliable, "memory_ratio", lambda ratio: ratio > 1),
    }


def better_section(found: dict[str, dict]) -> list[str]:
    """The lines of the section on `where_others_are_better`; none if there is nothing to say."""
    lines = []
    for others, cases in where_others_are_better(found).items():
        named = "; ".join(f"{title} ({', '.join(ratios)})" for title, ratios in cases.items())
        lines += [f"{others}: {named}.", ""] if named else []
    if unknown := [TITLES[part][0] for part in found if part in MEASURED_SO]:
        lines += [f"Memory was not measured reliably: {', '.join(unknown)}.", ""]
    if unknown := [TITLES[part][0] for part in found if part in MEASURED_WITH_TENSORFLOW]:
        lines += [f"The speed of PyTorch was not measured reliably: {', '.join(unknown)}.", ""]
    return ["", f"## {BETTER}", "", *lines[:-1]] if lines else []


def anchor(title: str) -> str:
    """What a link to a section with this title ends with."""
    return title.lower().replace(" ", "-")


def _compared(found: dict[str, dict], key: str, named: Callable[[float], bool]) -> dict[str, list[str]]:
    """The ratios to other libraries that are to be named, by the title of the part; only parts that have some."""
    cases = {
        part: [
            f"{size} {ratio:.2f} of {other}"
            for size, each in measured["results"].items()
            for other, ratio in each.get(key, {}).items()
            if named(round(ratio, 2)) and not other.startswith((OURS, *OWN))
        ]
        for part, measured in found.items()
        if part not in NOT_COMPARED
    }
    return {TITLES[part][0]: ratios for part, ratios in cases.items() if ratios}


def page(found: dict[str, dict]) -> list[str]:
    introduction = INTRODUCTION.format(
        turns=", ".join(f"{steps} ({size})" for size, steps in STEPS_PER_TURN.items()),
        steps=STEPS_PER_EXECUTION,
        better=BETTER.lower(),
        anchor=anchor(BETTER),
        command=COMMAND,
    )
    lines = [
        introduction,
        plot(RESULTS / "speed.png", "Speed compared with PyTorch and stock Keras"),
        *better_section(found),
    ]
    for name, (title, shown) in TITLES.items():
        lines += ["", f"## {title}", "", shown, ""]
        if name not in found:
            lines.append(MISSING)
            continue
        measured = found[name]
        make_table = {"growth": growth_table, "operations": operations_table, "cores": cores_table}.get(
            name, speed_table
        )
        results = measured["results"]
        if name in NOT_COMPARED:
            results = {case: without_memory(each) for case, each in results.items()}
        lines += [make_table(results), ""]
        explained = [LAST_COLUMN] if any(MATRIX_PRODUCT_RATE in each for each in results.values()) else []
        explained += [OLD_MEMORY] if name in MEASURED_SO else []
        explained += [WITH_TENSORFLOW] if name in MEASURED_WITH_TENSORFLOW else []
        explained += [] if measured.get("commit") else [EARLIER]
        lines += [line for text in explained for line in (text, "")]
        lines += [f"{origin(measured)}.", "", code(measured["command"])]
    return lines


def without_memory(measured: dict) -> dict:
    """Measurements without the ratios of memory, for which the table then has no column."""
    return {key: value for key, value in measured.items() if key != "memory_ratio"}


def speed_table(results: dict[str, dict]) -> str:
    """Words per second of every contender, and the ratios of speed and memory of keras-tying to each other one."""
    names = list(rates(next(iter(results.values()))))
    others = [name for name in names if name != OURS]
    columns = ["", *names, *(f"speed vs {name}" for name in others)]
    columns += [f"memory vs {name}" for name in others if any("memory_ratio" in each for each in results.values())]
    shares = {key: title for key, title in SHARES.items() if any(key in each for each in results.values())}
    columns += shares.values()
    rows = []
    for size, each in results.items():
        cells = [f"{rates(each)[name]:,.0f}" for name in names]
        cells += [speed_ratio(each, name) for name in others]
        cells += [f"{each['memory_ratio'][name]:.2f}" for name in others if "memory_ratio" in each]
        cells += [f"{each[key]:.2f}" for key in shares]
        rows.append([size, *cells])
    return table(columns, "|---|" + "--:|" * (len(columns) - 1), rows)


def speed_ratio(measured: dict, name: str) -> str:
    """The ratio of speed to another contender, with the range of the rounds if their times are recorded."""
    ratio = f"{measured['speed_ratio'][name]:.2f}"
    if "seconds" not in measured:
        return ratio
    rounds = zip(measured["seconds"][OURS], measured["seconds"][name], strict=True)
    ratios = [theirs / ours for ours, theirs in rounds]
    return f"{ratio} ({min(ratios):.2f} to {max(ratios):.2f})"


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
    return table(["", "", "milliseconds per step", "power"], "|---|---|---|--:|", rows)


def operations_table(results: dict[str, dict]) -> str:
    """Milliseconds per step by kind of operation, and how many operations of the kind a step has."""
    kinds = list(next(iter(results.values()))["milliseconds"])
    rows = [
        [
            case,
            f"{each['milliseconds_per_step']:.0f}",
            *(f"{each['milliseconds'][kind]:.1f} ({each['operations'][kind]:,})" for kind in kinds),
        ]
        for case, each in results.items()
    ]
    return table(["", "step", *kinds], "|---|" + "--:|" * (len(kinds) + 1), rows)


def cores_table(results: dict[str, dict]) -> str:
    """Words per second of a run, and million words per core and hour."""
    rows = [
        [case, f"{each['words_per_second']:,.0f}", f"{each['million_words_per_core_hour']:.2f}"]
        for case, each in results.items()
    ]
    return table(["", "words per second of a run", "million words per core-hour"], "|---|--:|--:|", rows)


def draw(found: dict[str, dict], path: Path) -> None:
    """Plots how many times as fast as each other contender keras-tying is; one panel per part."""
    parts = [name for name in TITLES if name in found and name not in NOT_COMPARED]
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
        crowded = len(results) > 4
        names = [name.replace(" ", "\n") if crowded else name for name in results]
        places = np.arange(len(results)) + width * (len(others) - 1) / 2
        axes.set_xticks(places, names, fontsize=6 if crowded else 10)
        axes.set_title(part.replace("_", " "), fontsize=10)
    figure.legend(legend.values(), legend.keys(), loc="outside lower center", ncols=4, frameon=False)
    figure.supylabel("times as fast")
    shown = {part: [each["speed_ratio"] for each in found[part]["results"].values()] for part in parts}
    write_png(figure, path, dpi=90, data=shown)


if __name__ == "__main__":
    main()
