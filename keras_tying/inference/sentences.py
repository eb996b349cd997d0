"""Sentences as a user gives them, checked and padded into batches of similar length, and the words that may follow."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_tying.backend import SHAPE_MULTIPLE
from keras_tying.data import Vocabulary


def check_sentences(sentences: Any, name: str = "sentences") -> None:
    """Raises ValueError unless `sentences` is a list, or another sequence, of strings."""
    if isinstance(sentences, str | bytes) or not isinstance(sentences, Sequence):
        raise ValueError(f"`{name}` must be a list of strings. Received: {name}={sentences!r}")
    for sentence in sentences:
        if not isinstance(sentence, str):
            raise ValueError(f"`{name}` must be a list of strings. Received: {sentence!r} in it")


def checked_lines(lines: Any, name: str = "lines") -> Iterator[str]:
    """The lines of a text, one after another. Raises ValueError if they are not strings."""
    if isinstance(lines, str | bytes) or not isinstance(lines, Iterable):
        raise ValueError(f"`{name}` must be a list, or another iterable, of strings. Received: {name}={lines!r:.80}")
    for line in lines:
        if not isinstance(line, str):
            raise ValueError(f"`{name}` must be strings. Received: {line!r} in them")
        yield line


def similar_lengths(lengths: Sequence[int], positions: int) -> Iterator[list[int]]:
    """Places of sentences of similar length, longest first.

    Args:
        lengths: Length of each sentence.
        positions: Maximum size of a batch, padding included, if it has several sentences.
    """
    waiting = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    while waiting:
        size = max(1, positions // max(1, lengths[waiting[0]]))
        yield waiting[:size]
        waiting = waiting[size:]


def by_length(encoded: Sequence[np.ndarray], positions: int, padding: int) -> Iterator[tuple[list[int], np.ndarray]]:
    """Batches of sentences of similar length, longest first.

    Args:
        encoded: Ids of each sentence.
        positions: Maximum size of a batch, padding included, if it has several sentences.
        padding: Id that fills the rows.

    Yields:
        The places of the sentences in `encoded`, `B` of them, and their ids `int32 [B', L]`. On a backend that compiles
        a function for each shape, rows and lengths are padded to multiples, so that `B'` can be more than `B`.
    """
    for batch in similar_lengths([*map(len, encoded)], positions):
        longest = len(encoded[batch[0]])
        rows, length = (-(-n // SHAPE_MULTIPLE) * SHAPE_MULTIPLE for n in (len(batch), longest - 1))
        ids = np.full((rows, length + 1), padding, np.int32)
        for row, i in enumerate(batch):
            ids[row, : len(encoded[i])] = encoded[i]
        yield batch, ids


def most_probable(scores: Any, vocabulary: Vocabulary, k: int) -> list[tuple[str, float]]:
    """The `k` words with the largest scores `[1, V]` and their probabilities, most probable first."""
    probabilities = ops.convert_to_numpy(ops.softmax(ops.cast(scores, "float32")))[0]
    best = np.argsort(-probabilities, kind="stable")[:k]
    return list(zip(vocabulary.decode(best), probabilities[best].tolist(), strict=True))
