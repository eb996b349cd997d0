"""Tasks that read one text: command-line arguments and the corpus."""

import dataclasses
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from keras_tying.data import TOKENIZATIONS, Corpus, PreparedCorpus, Vocabulary, load_corpus
from keras_tying.training.runs import RunSettings
from keras_tying.training.task import Task
from keras_tying.zoo.recipes import Recipe


class TextTask(Task):
    """A task that reads one text: a corpus, the user's files or a prepared text."""

    splits: ClassVar[Sequence[str]]
    """The splits that it reads."""
    vocabulary_kinds = MappingProxyType({"vocabulary.txt": Vocabulary})

    @classmethod
    def add_arguments(cls, parser: ArgumentParser) -> None:
        parser.add_argument("--corpus", help="name of a corpus, instead of the recipe's")
        for split in cls.splits:
            parser.add_argument(
                f"--{split}-file",
                nargs="+",
                type=Path,
                metavar="FILE",
                help=f"UTF-8 {split} text, one sentence per line",
            )
        parser.add_argument("--prepared", type=Path, metavar="DIR", help="prepared text, made by train/prepare.py")
        parser.add_argument("--tokenization", choices=TOKENIZATIONS, help="default: as the corpus needs it")
        parser.add_argument("--tied", action="store_true", help="use one matrix for input and output embeddings")

    @classmethod
    def given_files(cls, arguments: Namespace) -> dict[str, list[list[Path]]] | None:
        files = {split: getattr(arguments, f"{split}_file") for split in cls.splits}
        given = {split: [[path] for path in paths] for split, paths in files.items() if paths}
        others = [f"--{name}" for name in ("corpus", "prepared") if getattr(arguments, name)]
        if len(others) + bool(given) > 1:
            received = " and ".join([*others, *(f"--{split}-file" for split in given)])
            raise ValueError(f"A text is a corpus, prepared or in files: name one of them. Received: {received}")
        if given and len(given) < len(files):
            missing = ", ".join(f"--{split}-file" for split in files if split not in given)
            raise ValueError(f"A text of your own needs all of its splits. Missing: {missing}")
        return given or None

    @classmethod
    def changes(cls, recipe: Recipe, arguments: Namespace) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        if arguments.corpus:
            changes["data.corpus"] = arguments.corpus
        elif arguments.prepared:
            changes["data.corpus"] = PreparedCorpus(arguments.prepared).name
        if arguments.tokenization:
            changes["data.tokenization"] = arguments.tokenization
        if arguments.tied:
            changes["model.arguments.tied"] = True
        return changes


def open_corpus(settings: RunSettings) -> Corpus | PreparedCorpus:
    """The text of a run: prepared, in files, or a named corpus.

    Raises:
        ValueError: If there is no such corpus, or a file is not the published one.
        FileNotFoundError: If a file or folder is missing.
    """
    if settings.prepared:
        return PreparedCorpus(settings.prepared)
    data: Any = settings.recipe.data
    if settings.files:
        splits = {split: [Path(path) for (path,) in groups] for split, groups in settings.files.items()}
        corpus = Corpus("files", splits)
    else:
        corpus = load_corpus(data.corpus, settings.data_dir)
    return dataclasses.replace(corpus, tokenization=data.tokenization or corpus.tokenization)
