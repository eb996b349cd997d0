"""The list of a split's shards: a line of JSON each, and a last one that says that it is whole."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from keras_tying.data.prepared.shards import Shard, Shards
from keras_tying.files import write_atomically

INDEX = "index.jsonl"
WHOLE = '{"whole": true}'


def append(index: Path, shard: Shard) -> None:
    """Lists one more shard."""
    with index.open("a", encoding="utf-8") as file:
        file.write(shard.model_dump_json() + "\n")
        file.flush()
        os.fsync(file.fileno())


def write_whole(index: Path, shards: Iterable[Shard]) -> None:
    """Lists all shards and says that there are no more."""
    lines = [*(shard.model_dump_json() for shard in shards), WHOLE]
    write_atomically(index, "".join(f"{line}\n" for line in lines).encode())


def listed(index: Path) -> tuple[list[Shard], bool]:
    """Shards listed so far, and whether that is all of them; a last line that was cut short is removed.

    Raises:
        ValueError: If the file is no such list.
    """
    if not index.exists():
        return [], False
    text = index.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        os.truncate(index, len(text.encode()) - len(lines.pop().encode()))
    try:
        whole = bool(lines) and json.loads(lines[-1]) == json.loads(WHOLE)
        return [Shard.model_validate_json(line) for line in lines[: len(lines) - whole]], whole
    except ValueError as error:
        raise ValueError(f"{index} is not an index of shards: {error}") from None


def open_split(folder: Path) -> Shards:
    """The shards of a split.

    Raises:
        FileNotFoundError: If the text has no such split, or a shard is missing.
        ValueError: If its preparation has not come to its end.
    """
    index = folder / INDEX
    if not index.exists():
        raise FileNotFoundError(f"{folder.parent} has no prepared split {folder.name!r}: there is no {index}.")
    shards, whole = listed(index)
    if not whole:
        raise ValueError(f"{folder} is not whole: its preparation was stopped. The same command goes on with it.")
    return Shards(folder, shards)
