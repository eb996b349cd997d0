"""Options of the commands that read one text."""

import argparse
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from keras_tying.commands.options import Option, file_option
from keras_tying.commands.training_options import FLAG, check_not_set, data_dir_option
from keras_tying.data.text import TOKENIZATIONS, check_is_file

SPLIT_NAMES = {"train": "training", "valid": "validation", "test": "test"}


def text_options(splits: Sequence[str]) -> tuple[Option, ...]:
    """Where the text of some splits comes from, and how it is read."""
    files = [f"{split}-file" for split in splits]
    return (
        Option("corpus", "name of a corpus, instead of the recipe's", excludes=(*files, "prepared")),
        *(
            file_option(
                name,
                f"UTF-8 {SPLIT_NAMES[split]} text, one sentence per line",
                "+",
                needs=tuple(other for other in files if other != name),
                excludes=("prepared", "data-dir"),
            )
            for split, name in zip(splits, files, strict=True)
        ),
        file_option("prepared", "prepared text, made by keras-tying prepare", metavar="DIR", excludes=("data-dir",)),
        data_dir_option(),
        Option(
            "tokenization",
            "how text is split: raw text into words, tokenized text at spaces, plain and letters in lower case "
            "(default: that of the recipe or corpus; of files: words)",
            excludes=("prepared",),
            settings={"choices": TOKENIZATIONS},
        ),
        Option("tied", "use one matrix for input and output embeddings", default=False, settings=FLAG),
    )


def check_text(arguments: argparse.Namespace) -> None:
    """Raises ValueError for changes of the recipe that a prepared text leaves without effect."""
    check_not_set(arguments, "prepared", "data.tokenization", "data.vocabulary_size", "data.minimum_count")


def check_data_dir(corpus: str, data_dir: Path | None) -> None:
    """Raises ValueError for a folder of a corpus that has no files."""
    if data_dir and corpus == "embedded":
        raise ValueError(
            f"The corpus 'embedded' has no files of its own. Received: --data-dir {data_dir}. Name a corpus "
            "or a recipe that has."
        )


def check_are_files(groups: Iterable[Iterable[Path]]) -> None:
    """Raises an error for a file that is missing, before the files that come first are read."""
    for file in chain.from_iterable(groups):
        check_is_file(file.absolute())
