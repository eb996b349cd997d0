"""Compares runs: validation perplexity by epoch, the likeliest next words, the weights of joint models.

Curves are drawn without Keras, which is imported where a model is loaded.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_tying.files import write_atomically
from keras_tying.tables import read_json
from studies.commands.compare import PHRASES
from studies.pages import table
from studies.plots import COLOURS, panel, write_png
from studies.results import labels

if TYPE_CHECKING:
    from keras_tying.inference import TrainedLanguageModel

TOP = 160.0
"""Upper end of the axis of perplexities where every run comes below it."""


def draw_curves(paths: Sequence[Path], output: Path, top: float | None = None) -> int:
    histories = {label: read_history(path) for label, path in zip(labels(paths), paths, strict=True)}
    output.parent.mkdir(parents=True, exist_ok=True)
    print(draw_validation(histories, output, top))
    return 0


def print_next_words(
    runs: Sequence[str | Path], phrases: Sequence[str] | None = None, words: int = 10, output: Path | None = None
) -> int:
    from keras_tying.pretrained.loading import load_for

    models = {label: load_for("language_model", run) for label, run in zip(labels(runs), runs, strict=True)}
    text = next_words_table(models, phrases or PHRASES, words)
    print(text)
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(output, (text + "\n").encode())
    return 0


def draw_first_layers(paths: Sequence[Path]) -> int:
    from keras_tying.tasks import JointLanguageModelTask
    from keras_tying.training import Run
    from keras_tying.training.task import check_run
    from studies.joint_grid import position_weights
    from studies.joint_language_models import draw_position_weights, draw_weights

    runs = [run for path in paths for run in Run.find(path)]
    for run in runs:
        check_run(JointLanguageModelTask, run)
    for run in runs:
        model = run.load_model()
        print(draw_weights(model, run.folder / "weights.png"))
        print(draw_position_weights(position_weights(model), model.window, run.folder / "positions.png"))
    return 0


def read_history(path: Path) -> list[dict[str, float]]:
    """Reads the logs of each epoch of a run.

    Args:
        path: Folder of a run, finished or not, or the results of one (`.json`).

    Raises:
        ValueError: If the run has not finished an epoch, or a file has another shape.
        FileNotFoundError: If there is no such run.
    """
    if path.suffix == ".json" and not path.is_dir():
        file, results = path, read_json(path)
        history = results.get("history") if isinstance(results, dict) else None
    else:
        file = path / "checkpoints" / "index.json"
        if not (path / "config.toml").is_file():
            raise FileNotFoundError(f"{path} is not a run: there is no config.toml in it.")
        history = _newest_history(read_json(file)) if file.is_file() else []
    if history == []:
        raise ValueError(f"{path} has finished no epoch yet, so there is nothing to draw.")
    if not isinstance(history, list) or not all(isinstance(logs, dict) for logs in history):
        raise ValueError(f"{file} has no history of epochs: it is no file of a run.")
    perplexities = [logs.get("val_perplexity") for logs in history]
    if not all(isinstance(each, int | float) and math.isfinite(each) for each in perplexities):
        raise ValueError(
            f"{file} has no finite validation perplexity (val_perplexity) of each epoch, so it has no curve. "
            "Compare other runs."
        )
    return history


def _newest_history(entries: Any) -> Any:
    """The history in the list of a run's checkpoints; `None` if it has another shape."""
    try:
        return entries[-1]["progress"]["history"] if entries != [] else []
    except (LookupError, TypeError):
        return None


def draw_validation(
    histories: Mapping[str, Sequence[Mapping[str, float]]], path: Path, top: float | None = None
) -> Path:
    """Draws validation perplexity by epoch, one line per run, as PNG; returns its path.

    Args:
        histories: Logs of each epoch, by the name of their run.
        path: The file.
        top: Upper end of the axis; higher perplexities, those of the first epochs, are not shown. Runs that stay above
            it are named on stderr. Default: 160, or more where a run stays above that.

    Reference:
        Inan, Khosravi and Socher, Tying Word Vectors and Word Classifiers, figure 2.
    """
    figure, axes = panel("epoch", "validation perplexity")
    curves = {name: [logs["val_perplexity"] for logs in history] for name, history in histories.items()}
    for i, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[i % len(COLOURS)]
        axes.plot(range(1, len(curve) + 1), curve, color=colour, label=f"{name}: {min(curve):.1f}")
    lowest = min(map(min, curves.values()))
    top = max(TOP, 1.1 * max(map(min, curves.values()))) if top is None else top
    if above := [f"{name} ({min(curve):.1f})" for name, curve in curves.items() if min(curve) > top]:
        print(f"not in the plot, because they stay above {top:g}: {', '.join(above)}", file=sys.stderr)
    if lowest < top:
        axes.set_ylim(0.97 * lowest, top)
    axes.legend(fontsize=9, title="lowest", title_fontsize=9)
    return write_png(figure, path, data=[curves, top])


def next_words_table(models: Mapping[str, "TrainedLanguageModel"], phrases: Sequence[str], k: int = 10) -> str:
    """A Markdown table of next words, one row per phrase and one column per model.

    Args:
        models: Trained models by name.
        phrases: What the models read. The words after a `+` are what followed: they are not read.
        k: Number of words per cell.

    Reference:
        Inan, Khosravi and Socher, Tying Word Vectors and Word Classifiers, table 4.
    """

    def cell(text: str) -> str:
        return text.replace("|", r"\|")  # which would end it

    rows = []
    for phrase in phrases:
        read, _, followed = (part.strip() for part in phrase.partition("+"))
        row = [f"{read} + {followed}" if followed else read]
        for model in models.values():
            found = model.next_words(read, k)
            row.append(", ".join(f"**{word}** {p:.2f}" if word == followed else f"{word} {p:.2f}" for word, p in found))
        rows.append(list(map(cell, row)))
    text = table(["phrase", *map(cell, models)], "|---|" + "---|" * len(models), rows)
    return text.replace("<unk>", "`<unk>`").replace("<eos>", "`<eos>`")
