"""Text to shards, by several processes, from where an earlier attempt stood."""

import hashlib
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from keras_tying.data.prepared.index import INDEX, append, listed, write_whole
from keras_tying.data.prepared.shards import Shard, write_shard

T = TypeVar("T")
R = TypeVar("R")
Item = TypeVar("Item", bound=str | tuple[str, ...])
"""A line, or lines that belong together."""

CHARACTERS_OF_A_SHARD = 2**24
"""Text of a shard; a process holds one at a time."""


class Encoded(NamedTuple):
    """A piece of text as records."""

    records: Iterable[bytes]
    totals: dict[str, int]
    group: int = 1


Encoder = Callable[[list], Encoded]


def pieces(items: Iterable[Item], characters: int = CHARACTERS_OF_A_SHARD) -> Iterator[list[Item]]:
    """Lines, or tuples of lines, in lists of about so many characters."""
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
    """Writes a split of a text into shards; what an earlier call has written is kept.

    Args:
        folder: Of the split.
        items: Its lines, or tuples of lines.
        encode: Makes records of some of them; goes to other processes.
        processes: How many encode at a time.
        report: Told the totals of each shard, in order.
        characters: Text of a shard.

    Raises:
        ValueError: If the text is not the one that earlier shards were made of.
        OSError: If a shard cannot be written; those before it are kept.
    """
    folder.mkdir(exist_ok=True)
    index = folder / INDEX
    known, complete = listed(index)

    def start(pool: Executor, number: int, piece: list) -> Future[Shard]:
        if number < len(known):
            shard = known[number]
            if shard.origin != fingerprint(piece):
                raise ValueError(
                    f"{folder / shard.file} was made of another text than its part of what is given now. "
                    "Prepare it in another folder, or remove this one."
                )
            if (folder / shard.file).is_file():
                return done(shard)
        return pool.submit(_write, folder, number, piece)

    shards: list[Shard] = []
    with open_pool(processes, _set_encoder, encode) as pool:
        try:
            for shard in in_order(lambda task: start(pool, *task), enumerate(pieces(items, characters)), processes + 1):
                if len(shards) >= len(known):
                    append(index, shard)
                shards.append(shard)
                report(shard.totals)
        except BrokenProcessPool:
            raise OSError("A process was killed. The same command goes on after the last whole shard.") from None
    if len(shards) < len(known):
        raise ValueError(f"{folder} was made of more text than is given now. Prepare it in another folder.")
    if not complete or shards != known:
        write_whole(index, shards)


def open_pool(processes: int, begin: Callable | None = None, *arguments: Any) -> Executor:
    """Processes that work; if it is but one, this process.

    Args:
        processes: How many.
        begin: What each does first.
        arguments: Of that.

    Raises:
        ValueError: If there is none.
    """
    if processes < 1:
        raise ValueError(f"`processes` must be at least 1. Received: {processes}")
    if processes == 1:
        return ThreadPoolExecutor(1, initializer=begin, initargs=arguments)
    return ProcessPoolExecutor(processes, get_context("spawn"), _begin, (begin, arguments))


def _begin(begin: Callable | None, arguments: tuple) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that gives out work
    if begin is not None:
        begin(*arguments)


def in_order(start: Callable[[T], Future[R]], tasks: Iterable[T], ahead: int) -> Iterator[R]:
    """Results of tasks, of which only so many are begun before they are asked for."""
    waiting: deque[Future[R]] = deque()
    for task in tasks:
        waiting.append(start(task))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    yield from (task.result() for task in waiting)


def done(result: R) -> Future[R]:
    """A task that nothing is left to do of."""
    task: Future[R] = Future()
    task.set_result(result)
    return task


def fingerprint(piece: Sequence) -> str:
    """SHA-256 of lines, or of tuples of lines."""
    digest = hashlib.sha256()
    for item in piece:
        digest.update(f"{item if isinstance(item, str) else chr(9).join(item)}\n".encode())
    return digest.hexdigest()


_encoder: Encoder


def _set_encoder(encode: Encoder) -> None:
    """Gives a process its encoder once, not with every piece of text."""
    global _encoder
    _encoder = encode


def _write(folder: Path, number: int, piece: list) -> Shard:
    return write_piece(folder, number, piece, _encoder)


def write_piece(folder: Path, number: int, piece: list, encode: Encoder) -> Shard:
    """Writes a piece of text as the shard of that number."""
    encoded = encode(piece)
    path = folder / f"{number:05d}.array_record"
    return write_shard(path, encoded.records, fingerprint(piece), encoded.totals, encoded.group)
