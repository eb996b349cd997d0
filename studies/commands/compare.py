"""`train/compare.py`: compares runs."""

import argparse
from collections.abc import Callable
from pathlib import Path

from keras_tying.commands.keras_setup import import_keras
from keras_tying.commands.options import Command, Commands, Option, file_option, model_name, path, real, whole

PHRASES = [
    "information international said it believes that the complaints filed in + federal",
    "information international said it believes that the complaints filed in federal + court",
    "oil company refineries ran flat out to prepare for a robust holiday driving season in july and + august",
    "southmark said it plans to <unk> its <unk> to provide financial results as soon as its audit is + completed",
    "merieux said the government 's minister of industry science and + technology",
]


def runs(help: str, kind: Callable = path) -> Option:
    return Option("runs", help, positional=True, settings={"nargs": "+", "type": kind, "metavar": "RUN"})


def curves(arguments: argparse.Namespace) -> int:
    from studies.compare import draw_curves

    return draw_curves(arguments.runs, arguments.output, arguments.top)


def next_words(arguments: argparse.Namespace) -> int:
    import_keras()
    from studies.compare import print_next_words

    return print_next_words(arguments.runs, arguments.phrase, arguments.words, arguments.output)


def weights(arguments: argparse.Namespace) -> int:
    import_keras()
    from studies.compare import draw_first_layers

    return draw_first_layers(arguments.runs)


COMMAND = Commands(
    "compare runs",
    {
        "curves": Command(
            "validation perplexity by epoch, as PNG",
            "Draws validation perplexity by epoch, one line per run.\n\n{command} runs/A runs/B --output plot.png",
            (
                runs("folder of a run, or its results (.json)"),
                file_option("output", "the plot", metavar="PNG", default=Path("runs/validation.png")),
                Option(
                    "top",
                    "upper end of the axis (default: 160, or more where a run stays above it)",
                    settings={"type": real(0)},
                ),
            ),
            curves,
        ),
        "next-words": Command(
            "likeliest words after phrases, as a Markdown table",
            "Prints the likeliest words after phrases as a Markdown table.\n\n{command} runs/A runs/B",
            (
                runs("trained model of the zoo, or folder of a finished run", model_name),
                Option(
                    "phrase",
                    "what models read + what followed (default: phrases of the Penn Treebank)",
                    settings={"nargs": "+"},
                ),
                Option("words", "words per cell", default=10, settings={"type": whole(1)}),
                file_option("output", "file for the table too, which is printed"),
            ),
            next_words,
        ),
        "weights": Command(
            "|W| of a joint model's first hidden layer, as PNG in its run",
            "Draws |W| of the first hidden layer of joint language models into their runs.\n\n{command} runs/nnjm",
            (runs("finished run, or a folder of runs"),),
            weights,
        ),
    },
)
