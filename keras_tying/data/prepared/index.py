"""Index of the shards of a split, in JSON lines. The last line marks the index as complete."""

import os
from collections.abc import Iterable
from pathlib import Path

from keras_tying.data.prepared.shards import Shard, Shards
from keras_tying.files import write_atomically
from keras_tying.tables import parse_json, validate_table

INDEX = "index.jsonl"
COMPLETE = '{"whole": true}'
"""Last line of a complete index."""


def write_incomplete(index: Path, shards: Iterable[Shard]) -> None:
    """Writes the index of the first shards of a split, to which others will be appended."""
    write_atomically(index, "".join(f"{shard.model_dump_json()}\n" for shard in shards).encode())


def append(index: Path, shard: Shard) -> None:
    """Adds a shard to the index."""
    with index.open("a", encoding="utf-8") as file:
        file.write(shard.model_dump_json() + "\n")
        file.flush()
        os.fsync(file.fileno())


def write_complete(index: Path, shards: Iterable[Shard]) -> None:
    """Writes the index of all shards and marks it as complete."""
    lines = [*(shard.model_dump_json() for shard in shards), COMPLETE]
    write_atomically(index, "".join(f"{line}\n" for line in lines).encode())


def read_index(index: Path) -> tuple[list[Shard], bool]:
    """The shards of an index, and whether it is complete. A truncated last line is left out.

    Raises:
        ValueError: If the file is not an index.
    """
    if not index.exists():
        return [], False
    try:
        lines = [line for line in index.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]
        complete = bool(lines) and parse_json(lines[-1]) == parse_json(COMPLETE)
        values = map(parse_json, lines[: len(lines) - complete])
        return [validate_table(Shard, each, f"line {number}") for number, each in enumerate(values, start=1)], complete
    except ValueError as error:
        raise ValueError(f"{index} is not an index of shards: {error}") from None


def open_split(folder: Path) -> Shards:
    """Opens the shards of a split.

    Raises:
        FileNotFoundError: If the split does not exist, or a shard is missing.
        ValueError: If the preparation of the split was interrupted.
    """
    return Shards(folder, listed_shards(folder))


def listed_shards(folder: Path) -> list[Shard]:
    """The shards in the index of a split.

    Raises:
        FileNotFoundError: If the split does not exist.
        ValueError: If the preparation of the split was interrupted.
    """
    index = folder / INDEX
    if not index.exists():
        raise FileNotFoundError(f"{folder.parent} has no prepared split {folder.name!r}: there is no {index}.")
    shards, complete = read_index(index)
    if not complete:
        raise ValueError(f"{folder} is not complete: its preparation was interrupted. Run the command again.")
    return shards
