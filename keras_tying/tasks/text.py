"""Tasks that read one text: what their arguments mean, and the corpus."""

import dataclasses
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from keras_tying.data import Corpus, PreparedCorpus, Vocabulary, load_corpus
from keras_tying.data.corpora import TOKENIZATION
from keras_tying.data.text import warn_of_tokenization
from keras_tying.training.runs import RunSettings
from keras_tying.training.task import Task
from keras_tying.zoo.changed_recipes import assignments
from keras_tying.zoo.recipes import Recipe


class TextTask(Task):
    """A task that reads one text: a corpus, the user's files or a prepared text."""

    splits: ClassVar[Sequence[str]]
    """The splits that it reads."""
    vocabulary_kinds = MappingProxyType({"vocabulary.txt": Vocabulary})

    @classmethod
    def given_files(cls, arguments: Namespace) -> dict[str, list[list[Path]]] | None:
        files = {split: getattr(arguments, f"{split}_file") for split in cls.splits}
        given = {split: [[path] for path in paths] for split, paths in files.items() if paths}
        return given or None

    @classmethod
    def changes(cls, recipe: Recipe, arguments: Namespace) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        data: Any = recipe.data
        if arguments.corpus:
            changes["data.corpus"] = arguments.corpus
            sized = "data.vocabulary_size" in assignments(arguments.set)
            if not sized and data.corpus not in ("files", arguments.corpus):  # the size is that of the recipe's corpus
                changes["data.vocabulary_size"] = None
        elif arguments.prepared:
            prepared = PreparedCorpus(arguments.prepared)
            changes["data.corpus"] = prepared.name
            own_text, made = prepared.name == "files", prepared.preparation
            if own_text or (data.tokenization is None and prepared.tokenization != TOKENIZATION.get(prepared.name)):
                changes["data.tokenization"] = prepared.tokenization
            if own_text or data.vocabulary_size is None:  # a size in the recipe of a corpus is compared with the text's
                changes["data.vocabulary_size"] = made.size and len(prepared.vocabulary())
                changes["data.minimum_count"] = made.minimum_count or 1
        elif cls.given_files(arguments):
            if not data.tokenization:
                changes["data.tokenization"] = "words"
        elif data.corpus == "files":
            options = ", ".join(f"--{split}-file" for split in cls.splits)
            raise ValueError(f"The recipe is for your own text. Missing: {options}, or --prepared")
        if arguments.tokenization:
            changes["data.tokenization"] = arguments.tokenization
        if arguments.tied:
            changes["model.arguments.tied"] = True
        return changes

    @property
    def tokenization(self) -> str:
        """Name of the tokenization of the text."""
        data: Any = self.recipe.data
        return data.tokenization or TOKENIZATION[data.corpus]

    def text_parts(self) -> dict[str, Sequence[Any]]:
        corpus = open_corpus(self.settings)
        if isinstance(corpus, PreparedCorpus):
            return {split: [corpus.index(split)] for split in self.splits}
        splits = {split: corpus.splits[split] for split in self.splits if split in corpus.splits}
        return {
            split: [text] if isinstance(text, Path) or not isinstance(text[0], Path) else text
            for split, text in splits.items()
        }

    def warn_of_tokenization(self) -> None:
        """Warns if the user's own text does not look as its tokenization expects."""
        corpus = open_corpus(self.settings)
        if self.settings.files and isinstance(corpus, Corpus):
            warn_of_tokenization(corpus.lines("train"), corpus.tokenization)

    def vocabulary_of_corpus(self) -> Vocabulary:
        """The words of the training text. Warns if the user's own text does not look as its tokenization expects."""
        corpus, data = open_corpus(self.settings), self.recipe.data
        self.warn_of_tokenization()
        return corpus.vocabulary(data.vocabulary_size, data.minimum_count)


def open_corpus(settings: RunSettings) -> Corpus | PreparedCorpus:
    """The text of a run: prepared, in files, or a named corpus.

    Raises:
        ValueError: If there is no such corpus, a file is not the published one, or a text was prepared with another
            tokenization.
        FileNotFoundError: If a file or folder is missing.
    """
    data: Any = settings.recipe.data
    if settings.prepared:
        prepared = PreparedCorpus(settings.prepared)
        if data.tokenization not in (None, prepared.tokenization):
            raise ValueError(
                f"{settings.prepared} was prepared with tokenization {prepared.tokenization!r}. "
                f"Received: {data.tokenization!r}. Prepare the text with it in another folder."
            )
        return prepared
    if settings.files:
        splits = {split: [Path(path) for (path,) in groups] for split, groups in settings.files.items()}
        return Corpus("files", splits, data.tokenization or "words")
    corpus = load_corpus(data.corpus, settings.data_dir)
    return dataclasses.replace(corpus, tokenization=data.tokenization or corpus.tokenization)
