"""`keras-tying nnjm`: trains joint language models."""

import argparse
from pathlib import Path

from keras_tying.commands.options import DEFAULT_MODE, Option, file_option
from keras_tying.commands.text import SPLIT_NAMES
from keras_tying.commands.training_options import FLAG, check_not_set, training_command
from keras_tying.data.text import TOKENIZATIONS

DESCRIPTION = """Trains NNLM, NNJM and NNJM-Global on aligned text, resumes runs, or evaluates them.

{command} --train F E [LINKS] --valid F E [LINKS] --test F E [LINKS]     all three
{command} --prepared DIR                                                 text of any size, see keras-tying prepare
{command} --recipe nnjm --tied --set model.window=11 ...                 one of them, tied
{command} --resume runs
{command} --evaluate runs/nnjm

F and E are source and target text, one sentence per line, gzipped or not. LINKS holds `i-j` pairs of tokens, one line
per sentence; such text is tokenized already, with spaces between the tokens. Text without LINKS is split into words
and aligned by eflomal (in a clone: pip install ".[align]").
"""


def check(arguments: argparse.Namespace) -> None:
    """Raises ValueError if a new run lacks a text, and for changes that a prepared text leaves without effect."""
    check_not_set(
        arguments,
        "prepared",
        *(f"data.{name}" for name in ("tokenization", "source_vocabulary_size", "target_vocabulary_size", "sentences")),
    )
    if arguments.mode != DEFAULT_MODE or arguments.prepared:
        return
    check_aligned_files({split: getattr(arguments, split) or [] for split in SPLIT_NAMES})


def check_aligned_files(files: dict[str, list[Path]]) -> None:
    """Raises ValueError unless each split has two files, or each has three."""
    for split, paths in files.items():
        if len(paths) not in (2, 3):
            raise ValueError(
                f"--{split} needs two or three files: source text, target text and, if there are any, the links "
                f"between them. Received: {len(paths)}. See --help."
            )
    if len(set(map(len, files.values()))) > 1:
        raise ValueError("Either all of --train, --valid and --test name links, or none: then the text is aligned.")


COMMAND = training_command(
    "JointLanguageModelTask",
    "train joint language models",
    DESCRIPTION,
    ("nnlm", "nnjm", "nnjm_global"),
    (
        *(
            file_option(split, f"{what} text: source, target and links", "+", excludes=("prepared",))
            for split, what in SPLIT_NAMES.items()
        ),
        file_option("prepared", "aligned text, made by keras-tying prepare", metavar="DIR"),
        Option(
            "tokenization",
            "how lines are split into tokens (default: at spaces with links, else into words)",
            excludes=("prepared",),
            settings={"choices": TOKENIZATIONS},
        ),
        Option("tied", "tie the output to the target input embedding", default=False, settings=FLAG),
        file_option(
            "bootstrap",
            "start from the word vectors of a trained run",
            metavar="RUN",
            excludes=("source-vectors", "target-vectors"),
        ),
        *(
            file_option(f"{side}-vectors", f"start from the vectors of {side} words in a word2vec file")
            for side in ("source", "target")
        ),
    ),
    check=check,
)
