"""The folder of a prepared text and its description."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from keras_tying.data.prepared.index import INDEX, read_index
from keras_tying.files import UNFINISHED, locked, remove_unfinished, write_atomically
from keras_tying.tables import Table, dump_table, load_table

DESCRIPTION = "prepared.toml"
LOCK = "prepare.lock"
"""Locked by the process that prepares the text. Unlike the other files, it is never replaced."""


HASHED_FILES = {"sha256": "a vocabulary or subwords", "source_sha256": "a source vocabulary"}
"""The file that a key of `Preparation` is the SHA-256 of."""


class Preparation(Table):
    """Options of a prepared text: the table in `prepared.toml`."""

    kind: Literal["text", "pairs", "aligned"]
    corpus: str
    """Name of the corpus in reported results."""
    sha256: str
    """SHA-256 of the vocabulary, of aligned text that of the target side, or of the subwords."""
    source_sha256: str | None = None
    """SHA-256 of the vocabulary of the source side of aligned text."""
    tokenization: str | None = None
    languages: list[str] | None = None
    """Source and target language of pairs; `None` if they are not known."""
    maximum_length: int | None = None
    """Pairs with more subwords on either side are left out."""
    size: int | None = None
    """Maximum number of words, of aligned text target words, or subwords; `None` if not given."""
    source_size: int | None = None
    """Maximum number of source words of aligned text; `None` if not given."""
    minimum_count: int | None = None
    """Words with fewer occurrences are left out; `None` if not given."""


class PreparedFolder:
    """A folder of prepared text.

    Args:
        folder: The folder.
        kind: The kind of text that it must hold.

    Attributes:
        folder: The folder.
        preparation: Its description.
    """

    def __init__(self, folder: str | Path, kind: str):
        self.folder = Path(folder)
        self.preparation = description_of(self.folder, kind)

    def index(self, split: str) -> Path:
        """The file that lists the shards of a split with their SHA-256."""
        return self.folder / split / INDEX


@contextmanager
def written_alone(folder: Path, preparation: Preparation) -> Iterator[None]:
    """Creates and describes the folder of a text, or checks that an existing one was prepared with the same options.

    Keeps other processes from writing to the folder, and removes what killed ones left unfinished in it. The
    description of an attempt that ended before its first shard is replaced.

    Raises:
        ValueError: If it was prepared with other options.
        FileExistsError: If the folder has other files.
        BlockingIOError: If another process writes there.
    """
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    refusal = f"{folder} is being prepared by another process. Wait until it ends, or stop it."
    with locked(folder / LOCK, refusal):
        for place in (folder, *folder.glob("*/")):
            remove_unfinished(place)
        if has_shards(folder):
            _check_same(folder, preparation)
        else:
            write_atomically(folder / DESCRIPTION, dump_table(preparation).encode())
        yield


def _check_same(folder: Path, preparation: Preparation) -> None:
    stored, requested = load_table(Preparation, folder / DESCRIPTION).model_dump(), preparation.model_dump()
    for name, value in requested.items():
        given = value is not None or name not in ("size", "source_size", "minimum_count")
        if given and stored[name] != value:
            difference = f"with {name} = {stored[name]!r}. Received: {value!r}"
            if name in HASHED_FILES:
                difference = f"with {HASHED_FILES[name]} of SHA-256 {stored[name]}. Received: {value}"
            raise ValueError(
                f"{folder} holds text prepared {difference}. A folder has one set of options: choose another folder."
            )


def has_shards(folder: Path) -> bool:
    """Whether a part of a text is prepared. If not, the vocabulary in the folder may be that of another text."""
    return any(read_index(index)[0] for index in sorted(folder.glob(f"*/{INDEX}")))


def check_folder(folder: Path) -> None:
    """Raises FileExistsError if the path exists and is not the folder of a prepared text, nor one that was begun."""
    if folder.exists() and (not folder.is_dir() or not (_is_begun(folder) or (folder / DESCRIPTION).exists())):
        raise FileExistsError(f"{folder} already holds other files. Choose another folder, or remove it.")


def _is_begun(folder: Path) -> bool:
    """Whether a folder has nothing but what a process leaves that is killed before it describes the text."""
    unfinished = f".{DESCRIPTION}.*{UNFINISHED}"
    return all(path.name == LOCK or path.match(unfinished) for path in folder.iterdir())


def description_of(folder: Path, kind: str) -> Preparation:
    """Reads the description of the text in a folder.

    Raises:
        FileNotFoundError: If the folder has no prepared text.
        ValueError: If the text is of another kind.
    """
    path = folder / DESCRIPTION
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder} holds no prepared text: there is no {DESCRIPTION}. Prepare a text with keras-tying prepare."
        )
    preparation = load_table(Preparation, path)
    if preparation.kind != kind:
        raise ValueError(f"Expected {folder} to hold prepared {kind}. Received: {preparation.kind}.")
    return preparation
