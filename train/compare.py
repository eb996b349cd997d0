"""Sets runs side by side, from what is in their folders.

python train/compare.py curves runs/A runs/B ... --output figure.png      validation perplexity by epoch
python train/compare.py next-words runs/A runs/B                          likeliest words after phrases
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's warnings, without its remarks

import keras

from keras_tying import data
from keras_tying.files import write_atomically
from keras_tying.study.curves import draw_validation, read_history
from keras_tying.study.next_words import next_words_table
from keras_tying.training import Run, run_command

PHRASES = [
    "information international said it believes that the complaints filed in + federal",
    "information international said it believes that the complaints filed in federal + court",
    "oil company refineries ran flat out to prepare for a robust holiday driving season in july and + august",
    "southmark said it plans to <unk> its <unk> to provide financial results as soon as its audit is + completed",
    "merieux said the government 's minister of industry science and + technology",
]


def main() -> int:
    arguments = parse_arguments()
    return run_command(lambda: arguments.command(arguments))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    lines = commands.add_parser("curves", help="validation perplexity by epoch, as PNG")
    lines.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a run, or the .json of its results")
    lines.add_argument("--output", type=Path, default=Path("runs/validation.png"))
    lines.add_argument("--top", type=float, default=160.0, help="upper end of the axis")
    lines.set_defaults(command=curves)
    words = commands.add_parser("next-words", help="likeliest words after phrases, as a Markdown table")
    words.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a finished run")
    words.add_argument("--phrase", nargs="+", default=PHRASES, help="what models read + what followed")
    words.add_argument("--words", type=int, default=10, help="words a cell")
    words.add_argument("--output", type=Path, help="file for the table; default: it is printed alone")
    words.set_defaults(command=next_words)
    return parser.parse_args()


def curves(arguments: argparse.Namespace) -> int:
    histories = {run.stem: read_history(run) for run in arguments.runs}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    draw_validation(histories, arguments.output, arguments.top)
    print(arguments.output)
    return 0


def next_words(arguments: argparse.Namespace) -> int:
    table = next_words_table(
        {folder.name: opened(folder) for folder in arguments.runs}, arguments.phrase, arguments.words
    )
    print(table)
    if arguments.output:
        write_atomically(arguments.output, (table + "\n").encode())
    return 0


def opened(folder: Path) -> tuple[keras.Model, data.Vocabulary]:
    run = Run.open(folder)
    if not run.model.exists():
        raise FileNotFoundError(f"{folder} has no trained model yet. Finish it with train/lm.py --resume {folder}")
    return keras.saving.load_model(run.model), data.Vocabulary.load(run.vocabulary)


if __name__ == "__main__":
    sys.exit(main())
