"""Shards: files of numbered records with checksums."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import Field

from keras_tying.extras import require
from keras_tying.files import replacing, sha256_of
from keras_tying.tables import Table

OPEN_FILES = 64


class Shard(Table):
    """A file of records, as listed in an index."""

    file: str = Field(pattern=r"\A\d{5,}\.array_record\z")
    sha256: str
    records: int
    origin: str
    """SHA-256 of the text of the shard."""
    totals: dict[str, int]
    """Counts of the content, by name."""


def write_shard(path: Path, records: Iterable[bytes], origin: str, totals: dict[str, int], group: int = 1) -> Shard:
    """Writes a file of records atomically.

    Args:
        path: The file. Its folder must exist.
        records: The records.
        origin: SHA-256 of the text of the shard.
        totals: Counts of the content, by name.
        group: Number of records that are compressed, and read, together.

    Raises:
        OSError: If the file cannot be written, for example because the disk is full.
    """
    number = 0
    try:
        with replacing(path) as new:
            writer = array_record().ArrayRecordWriter(str(new), f"group_size:{group}")
            for record in records:
                writer.write(record)
                number += 1
            writer.close()
            sha256 = sha256_of(new)
    except RuntimeError as error:
        raise OSError(f"{path} cannot be written: {error}") from None
    return Shard(file=path.name, sha256=sha256, records=number, origin=origin, totals=totals)


def check_is_there(path: Path) -> None:
    """Raises FileNotFoundError if the file of a shard is missing."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing. Prepare the text again: other files are kept.")


def check_intact(folder: Path, shard: Shard) -> None:
    """Reads the file of a shard.

    Raises:
        FileNotFoundError: If it is missing.
        ValueError: If its SHA-256 differs from the index.
    """
    path = folder / shard.file
    check_is_there(path)
    if sha256_of(path) != shard.sha256:
        raise ValueError(f"{path} is damaged. Remove it and prepare the text again: only it is made again.")


class Shards:
    """Files of records. Only the requested records are read.

    Args:
        folder: Folder of the files.
        shards: Shards of the index, in order.

    Raises:
        FileNotFoundError: If a file is missing.
    """

    def __init__(self, folder: Path, shards: Sequence[Shard]):
        self.folder = folder
        self.shards = shards
        for shard in shards:
            check_is_there(folder / shard.file)
        self._opened = lru_cache(OPEN_FILES)(self._open)

    def __len__(self) -> int:
        return len(self.shards)

    def total(self, name: str) -> int:
        """Sum of a count over all shards."""
        return sum(shard.totals[name] for shard in self.shards)

    def read(self, shard: int, records: Sequence[int]) -> list[bytes]:
        """Reads records of a shard by number.

        Raises:
            ValueError: If the file is damaged.
        """
        reader = self._opened(shard)
        try:
            return reader.read(records)
        except (RuntimeError, IndexError) as error:
            raise self._damaged(shard, str(error)) from None

    def _open(self, shard: int) -> Any:
        entry = self.shards[shard]
        reader = array_record().ArrayRecordReader(str(self.folder / entry.file))
        if reader.num_records() != entry.records:
            raise self._damaged(shard, f"expected {entry.records:,} records, received {reader.num_records():,}")
        return reader

    def _damaged(self, shard: int, reason: str) -> ValueError:
        path = self.folder / self.shards[shard].file
        return ValueError(f"{path} is damaged ({reason}). Remove it and prepare the text again.")


def array_record() -> Any:
    """The module `array_record`."""
    return require("array_record.python.array_record_module", "translation")
