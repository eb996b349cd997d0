"""Compares runs: validation perplexity by epoch, the likeliest next words, the weights of joint models.

python train/compare.py curves runs/A runs/B ... --output plot.png      validation perplexity by epoch
python train/compare.py next-words runs/A runs/B                        likeliest words after phrases
python train/compare.py weights runs/nnjm                               |W| of the first hidden layer
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import keras
import numpy as np

from keras_tying.commands.exit_codes import run_command
from keras_tying.data import Vocabulary
from keras_tying.files import write_atomically
from keras_tying.models import LanguageModel
from keras_tying.tasks import JointLanguageModelTask
from keras_tying.training import Run
from keras_tying.training.task import check_task
from studies.joint_grid import position_weights
from studies.joint_language_models import draw_position_weights, draw_weights
from studies.pages import table
from studies.plots import COLOURS, panel, write_png

PHRASES = [
    "information international said it believes that the complaints filed in + federal",
    "information international said it believes that the complaints filed in federal + court",
    "oil company refineries ran flat out to prepare for a robust holiday driving season in july and + august",
    "southmark said it plans to <unk> its <unk> to provide financial results as soon as its audit is + completed",
    "merieux said the government 's minister of industry science and + technology",
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    curves = commands.add_parser("curves", help="validation perplexity by epoch, as PNG")
    curves.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a run, or its results (.json)")
    curves.add_argument("--output", type=Path, default=Path("runs/validation.png"))
    curves.add_argument("--top", type=float, default=160.0, help="upper end of the axis")
    curves.set_defaults(command=draw_curves)
    words = commands.add_parser("next-words", help="likeliest words after phrases, as a Markdown table")
    words.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a finished run")
    words.add_argument("--phrase", nargs="+", default=PHRASES, help="what models read + what followed")
    words.add_argument("--words", type=int, default=10, help="words per cell")
    words.add_argument("--output", type=Path, help="file for the table; default: it is only printed")
    words.set_defaults(command=print_next_words)
    weights = commands.add_parser("weights", help="|W| of a joint model's first hidden layer, as PNG in its run")
    weights.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="finished run, or a folder of runs")
    weights.set_defaults(command=draw_first_layers)
    arguments = parser.parse_args()
    return run_command(lambda: arguments.command(arguments))


def draw_curves(arguments: argparse.Namespace) -> int:
    histories = {run.stem: read_history(run) for run in arguments.runs}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    print(draw_validation(histories, arguments.output, arguments.top))
    return 0


def print_next_words(arguments: argparse.Namespace) -> int:
    runs = {folder.name: Run.open(folder) for folder in arguments.runs}
    models = {name: (run.load_model(), Vocabulary.load(run.vocabulary)) for name, run in runs.items()}
    text = next_words_table(models, arguments.phrase, arguments.words)
    print(text)
    if arguments.output:
        write_atomically(arguments.output, (text + "\n").encode())
    return 0


def draw_first_layers(arguments: argparse.Namespace) -> int:
    for run in (run for folder in arguments.runs for run in Run.find(folder)):
        check_task(JointLanguageModelTask, run.settings().recipe, str(run.folder))
        model = run.load_model()
        print(draw_weights(model, run.folder / "weights.png"))
        print(draw_position_weights(position_weights(model), model.window, run.folder / "positions.png"))
    return 0


def read_history(path: Path) -> list[dict[str, float]]:
    """Reads the logs of each epoch of a run.

    Args:
        path: Folder of a run, finished or not, or the results of one (`.json`).

    Raises:
        ValueError: If the run has not finished an epoch.
        FileNotFoundError: If there is no such run.
    """
    if path.suffix == ".json":
        return json.loads(path.read_text(encoding="utf-8"))["history"]
    index = Run.open(path).checkpoints / "index.json"
    entries = json.loads(index.read_text(encoding="utf-8")) if index.is_file() else []
    history = entries[-1]["progress"]["history"] if entries else []
    if not history:
        raise ValueError(f"{path} has finished no epoch yet, so there is nothing to draw.")
    return history


def draw_validation(histories: Mapping[str, Sequence[Mapping[str, float]]], path: Path, top: float = 160.0) -> Path:
    """Draws validation perplexity by epoch, one line per run, as PNG; returns its path.

    Args:
        histories: Logs of each epoch, by the name of their run.
        path: The file.
        top: Upper end of the axis; higher perplexities, those of the first epochs, are not shown.

    Reference:
        Inan, Khosravi and Socher, Tying Word Vectors and Word Classifiers, figure 2.
    """
    figure, axes = panel("epoch", "validation perplexity")
    curves = {name: [logs["val_perplexity"] for logs in history] for name, history in histories.items()}
    for i, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[i % len(COLOURS)]
        axes.plot(range(1, len(curve) + 1), curve, color=colour, label=f"{name}: {min(curve):.1f}")
    lowest = min(map(min, curves.values()))
    if lowest < top:
        axes.set_ylim(0.97 * lowest, top)
    axes.legend(fontsize=9, title="lowest", title_fontsize=9)
    return write_png(figure, path)


def next_words(model: LanguageModel, vocabulary: Vocabulary, phrase: str, k: int = 10) -> list[tuple[str, float]]:
    """The likeliest words after a phrase that begins a sentence, and their probabilities.

    Args:
        model: A trained `LanguageModel`.
        vocabulary: Its words; unknown words of the phrase are read as `<unk>`.
        phrase: Words separated by spaces.
        k: Number of words.

    Raises:
        ValueError: If model and vocabulary differ in size.
    """
    if model.vocabulary_size != len(vocabulary):
        raise ValueError(f"The model has {model.vocabulary_size} words. Received: a vocabulary of {len(vocabulary)}.")
    ids = np.concatenate([[vocabulary.end_id], vocabulary.encode(phrase.split())])[None].astype(np.int32)
    hidden, _ = model.hidden_states(ids, training=False)
    probabilities = keras.ops.convert_to_numpy(keras.ops.softmax(model.scores(hidden[:, -1])))[0]
    best = np.argsort(-probabilities, kind="stable")[:k]
    return [(word, float(probabilities[i])) for word, i in zip(vocabulary.decode(best), best, strict=True)]


def next_words_table(
    models: Mapping[str, tuple[LanguageModel, Vocabulary]], phrases: Sequence[str], k: int = 10
) -> str:
    """A Markdown table of next words, one row per phrase and one column per model.

    Args:
        models: Models and their vocabularies by name.
        phrases: What the models read. The words after a `+` are what followed: they are not read.
        k: Number of words per cell.

    Reference:
        Inan, Khosravi and Socher, Tying Word Vectors and Word Classifiers, table 4.
    """
    rows = []
    for phrase in phrases:
        read, _, followed = (part.strip() for part in phrase.partition("+"))
        row = [f"{read} + {followed}" if followed else read]
        for model, vocabulary in models.values():
            found = next_words(model, vocabulary, read, k)
            row.append(", ".join(f"**{word}** {p:.2f}" if word == followed else f"{word} {p:.2f}" for word, p in found))
        rows.append(row)
    text = table(["phrase", *models], "|---|" + "---|" * len(models), rows)
    return text.replace("<unk>", "`<unk>`").replace("<eos>", "`<eos>`")
