"""Writing shards of a text with several processes, and resuming."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from keras_tying.data.prepared.index import INDEX, append, read_index, write_complete, write_incomplete
from keras_tying.data.prepared.shards import Shard, write_shard
from keras_tying.files import sha256_of_lines

T = TypeVar("T")
R = TypeVar("R")
Item = TypeVar("Item", bound=str | tuple[str, ...])
"""A line, or a tuple of parallel lines."""

CHARACTERS_OF_A_SHARD = 2**24
"""Number of characters of text per shard. Each process has one shard in memory."""


class Encoded(NamedTuple):
    """An encoded piece of text: its records, counts of its content, and the number of records read together."""

    records: Iterable[bytes]
    totals: dict[str, int]
    group: int = 1


Encoder = Callable[[list], Encoded]


def pieces(items: Iterable[Item], characters: int = CHARACTERS_OF_A_SHARD) -> Iterator[list[Item]]:
    """Splits lines, or tuples of lines, into lists of about `characters` characters."""
    piece: list[Item] = []
    size = 0
    for item in items:
        piece.append(item)
        size += len(item) if isinstance(item, str) else sum(map(len, item))
        if size >= characters:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def write_split(
    folder: Path,
    items: Iterable[Any],
    encode: Encoder,
    processes: int,
    report: Callable[[dict[str, int]], None] = lambda totals: None,
    characters: int = CHARACTERS_OF_A_SHARD,
) -> None:
    """Writes a split of a text into shards. Existing shards of the same text are kept.

    Args:
        folder: Folder of the split.
        items: Lines, or tuples of lines, of the split.
        encode: Function from a list of items to records. It is sent to other processes.
        processes: Number of processes.
        report: Called with the totals of each shard, in order.
        characters: Number of characters of text per shard.

    Raises:
        ValueError: If existing shards were made from another text.
        OSError: If a shard cannot be written, or a process was killed. The shards before it are kept.
    """
    folder.mkdir(exist_ok=True)
    index = folder / INDEX
    existing, complete = read_index(index)
    if os.path.lexists(index) and not complete:
        write_incomplete(index, existing)  # without a truncated line, and no link to another file

    def submit(pool: Executor, number: int, piece: list) -> Future[Shard]:
        if number < len(existing):
            shard = existing[number]
            if shard.origin != sha256_of_lines(piece):
                raise ValueError(
                    f"{folder / shard.file} was made from another text. "
                    "Prepare the given text in another folder, or remove this folder."
                )
            if (folder / shard.file).is_file():
                return completed(shard)
        return pool.submit(_write, folder, number, piece)

    shards: list[Shard] = []
    marked = complete
    with open_pool(processes, _set_encoder, encode) as pool:
        tasks = enumerate(pieces(items, characters))
        for shard in in_order(lambda task: submit(pool, *task), tasks, ahead=processes + 1):
            if len(shards) >= len(existing):
                if marked:  # a complete text goes on
                    write_incomplete(index, existing)
                    marked = False
                append(index, shard)
            shards.append(shard)
            report(shard.totals)
    if len(shards) < len(existing):
        raise ValueError(f"{folder} was made from more text than was given. Prepare the given text in another folder.")
    if not complete or shards != existing:
        write_complete(index, shards)


def open_pool(processes: int, initializer: Callable | None = None, *arguments: Any) -> Executor:
    """A pool of processes, or one thread of this process if `processes` is 1.

    Args:
        processes: Number of processes.
        initializer: Optional function that each process calls first.
        arguments: Arguments of the initializer.

    Raises:
        ValueError: If `processes` is less than 1.
    """
    if processes < 1:
        raise ValueError(f"`processes` must be at least 1. Received: {processes}")
    if processes == 1:
        return ThreadPoolExecutor(1, initializer=initializer, initargs=arguments)
    from keras_tying_cli import start_worker  # which a new process imports first, so it does not import Keras

    return ProcessPoolExecutor(processes, get_context("spawn"), start_worker, (initializer, arguments))


def in_order(submit: Callable[[T], Future[R]], tasks: Iterable[T], ahead: int) -> Iterator[R]:
    """Results of tasks, in order. At most `ahead` tasks are submitted before their results are needed.

    Raises:
        OSError: If a process of the pool was killed.
    """
    pending: deque[Future[R]] = deque()
    try:
        for task in tasks:
            pending.append(submit(task))
            if len(pending) > ahead:
                yield pending.popleft().result()
        yield from (task.result() for task in pending)
    except BrokenProcessPool:
        raise OSError("A process was killed. Run the command again; it keeps the files that are complete.") from None


def completed(result: R) -> Future[R]:
    """A completed task."""
    task: Future[R] = Future()
    task.set_result(result)
    return task


_encoder: Encoder


def _set_encoder(encode: Encoder) -> None:
    """Sets the encoder of a process once, so that it is not sent with each piece of text."""
    global _encoder
    _encoder = encode


def _write(folder: Path, number: int, piece: list) -> Shard:
    return write_piece(folder, number, piece, _encoder)


def write_piece(folder: Path, number: int, piece: list, encode: Encoder) -> Shard:
    """Encodes a piece of text and writes it as a shard."""
    encoded = encode(piece)
    path = folder / f"{number:05d}.array_record"
    return write_shard(path, encoded.records, sha256_of_lines(piece), encoded.totals, encoded.group)
