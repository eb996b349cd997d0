"""`keras-tying nmt`: trains translators, and translates."""

import argparse
from pathlib import Path

from keras_tying.commands.options import DEFAULT_MODE, Option, file_option, whole
from keras_tying.commands.training_options import FLAG, check_not_set, data_dir_option, model_option, training_command
from keras_tying.extras import require

DESCRIPTION = """Trains a translator, resumes a run, evaluates one, or translates.

{command}                                                          phrases from CLDR, minutes
{command} --recipe multi30k_en_de_three_way --data-dir DIR         Multi30k
{command} --source A.en --target A.de --valid V.en V.de --test T.en T.de    your own UTF-8 text
{command} --prepared DIR --valid V.en V.de --test T.en T.de        text of any size, see keras-tying prepare
{command} --resume runs/NAME                                       after Ctrl-C
{command} --evaluate runs/NAME                                     BLEU and chrF by sacrebleu, perplexity
{command} --translate multi30k_en_fr_three_way < in > out          one sentence per line
{command} --translate runs/NAME --attention plot.png < in          a run; also plots the attention of the first sentence
{command} --overlap [--recipe NAME --data-dir DIR]                 subwords that the languages share

Text has one sentence per line and may be gzipped; --source and --target take several files.
"""

NEW = (DEFAULT_MODE, "overlap")
PAIR = ("SOURCE", "TARGET")


def check(arguments: argparse.Namespace) -> None:
    """Raises an error for a part of a text that is missing, changes of the recipe without effect, and a plot's path."""
    given = arguments.given
    if "valid" in given and not {"source", "prepared"} & set(given):
        raise ValueError(
            "--valid and --test measure a text of your own. Received: them without --source and --target, or --prepared"
        )
    check_not_set(arguments, "prepared", "data.vocabulary_size", "data.maximum_length")
    check_not_set(arguments, "subwords", "data.vocabulary_size")
    check_not_set(arguments, "valid", "data.source_language", "data.target_language")  # files have no languages
    if arguments.attention:
        check_plot(arguments.attention)
    if arguments.mode == "overlap" and len(arguments.recipe) > 1:
        raise ValueError(f"--overlap takes one recipe. Received: --recipe {' '.join(arguments.recipe)}")
    if arguments.mode == "overlap" and (others := [each for each in arguments.set if not each.startswith("data.")]):
        raise ValueError(f"--overlap takes only values of [data]. Received: --set {' '.join(others)}")


def check_plot(path: Path) -> None:
    """Raises an error for the path of a plot that could not be written."""
    figure = require("matplotlib.figure", "translation").Figure()
    endings = [each for each in figure.canvas.get_supported_filetypes() if each != "pgf"]  # which needs LaTeX
    if path.is_dir():
        raise ValueError(f"--attention takes the path of a file. Received: the folder {path}")
    if path.suffix and path.suffix[1:] not in endings:
        raise ValueError(f"--attention takes a file that ends in one of {', '.join(endings)}. Received: {path}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent} for the plot {path.name}. Create it.")


COMMAND = training_command(
    "TranslationTask",
    "train a translator, or translate",
    DESCRIPTION,
    ("embedded_en_de",),
    (
        Option("corpus", "name of a parallel corpus, instead of the recipe's", NEW, excludes=("source", "prepared")),
        file_option(
            "source",
            "training text to translate from",
            "+",
            modes=NEW,
            needs=("target", "valid", "test"),
            excludes=("prepared", "data-dir"),
        ),
        file_option("target", "translations of the training text", "+", modes=NEW, needs=("source",)),
        *(
            file_option(
                split,
                f"{what} text and its translations",
                2,
                PAIR,
                modes=NEW,
                needs=(other,),
                excludes=("corpus", "data-dir"),
            )
            for split, what, other in (("valid", "validation", "test"), ("test", "test", "valid"))
        ),
        file_option(
            "prepared", "training pairs, made by keras-tying prepare", metavar="DIR", modes=NEW, excludes=("subwords",)
        ),
        data_dir_option((*NEW, "evaluate")),
        file_option("subwords", "a sentencepiece model, instead of a new one", metavar="MODEL", modes=NEW),
        Option(
            "tying",
            "which embeddings share one matrix, instead of the recipe's",
            settings={"choices": ("none", "decoder", "three_way")},
        ),
        Option(
            "beam",
            "with --evaluate and --translate: beam size; 1 is greedy",
            ("evaluate", "translate"),
            5,
            settings={"type": whole(1)},
        ),
        file_option(
            "attention",
            "with --translate: plot the attention of the first sentence",
            metavar="PNG",
            modes=("translate",),
        ),
    ),
    (
        model_option("translate", "translate the lines of standard input, read 1,000 at a time"),
        Option("overlap", "print how many subwords the languages share", default=False, settings=FLAG),
    ),
    check,
)
