"""The folder of a prepared text: what it was made with, and its splits."""

from pathlib import Path
from typing import Literal

from keras_tying.files import write_atomically
from keras_tying.tables import Table, dump_table, load_table

DESCRIPTION = "prepared.toml"


class Preparation(Table):
    """How a text was prepared: `prepared.toml` of its folder."""

    kind: Literal["text", "pairs"]
    corpus: str
    """What results are reported under."""
    sha256: str
    """Of the vocabulary, or of the subwords."""
    tokenization: str | None = None
    longest: int | None = None
    """Pairs with more subwords on a side are left out."""
    size: int | None = None
    """Words, or subwords, there were to be at most; `None` if that was not said."""
    minimum_count: int | None = None
    """Words seen less often were left out; `None` if that was not said."""


def describe(folder: Path, preparation: Preparation) -> None:
    """Makes the folder of a text, or checks that what it holds was prepared the same way.

    Raises:
        ValueError: If it was prepared another way.
        FileExistsError: If it holds something else.
    """
    path = folder / DESCRIPTION
    if path.exists():
        known, asked = load_table(Preparation, path).model_dump(), preparation.model_dump()
        for name, value in asked.items():
            said = value is not None or name not in ("size", "minimum_count")
            if said and known[name] != value:
                raise ValueError(
                    f"{folder} holds text prepared with {name} = {known[name]!r}. Received: {value!r}. "
                    "Texts prepared differently do not mix: choose another folder."
                )
        return
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, dump_table(preparation).encode())


def check_folder(folder: Path) -> None:
    """Raises FileExistsError if something else than a prepared text is in the way."""
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / DESCRIPTION).exists())):
        raise FileExistsError(f"{folder} already holds other files. Choose another folder, or remove it.")


def description_of(folder: Path, kind: str) -> Preparation:
    """How the text in a folder was prepared.

    Raises:
        FileNotFoundError: If there is none in it.
        ValueError: If it is of another kind.
    """
    path = folder / DESCRIPTION
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder} holds no prepared text: there is no {DESCRIPTION}. train/prepare.py makes one."
        )
    preparation = load_table(Preparation, path)
    if preparation.kind != kind:
        raise ValueError(f"Expected {folder} to hold prepared {kind}. Received: {preparation.kind}.")
    return preparation
