"""Encoded sentence pairs on disk."""

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_tying.checks import check_integer
from keras_tying.data.prepared.shards import Shards
from keras_tying.data.prepared.writing import Encoded, pieces, write_piece
from keras_tying.data.subwords import Subwords
from keras_tying.ids import PAD_ID

PAIRS_AT_ONCE = 16
"""Number of pairs that are compressed, and read, together."""


@dataclass(frozen=True)
class PairEncoder:
    """Encodes sentence pairs as records of `int32`.

    The first record has the lengths of all pairs, `[N, 2]`. Each other record has the source and target ids of one
    pair, with the end id after each sentence.

    Attributes:
        source: Subwords of the source language.
        target: Subwords of the target language.
        maximum_length: Optional integer. Pairs with more subwords on either side are left out.
    """

    source: Subwords
    target: Subwords
    maximum_length: int | None = None

    def __call__(self, pairs: list[tuple[str, str]]) -> Encoded:
        sides = [(self.source.encode(source), self.target.encode(target)) for source, target in pairs]
        encoded = [pair for pair in sides if min(map(len, pair)) > 1]  # more than the end
        limit = np.inf if self.maximum_length is None else self.maximum_length + 1  # with the end
        kept = [pair for pair in encoded if max(map(len, pair)) <= limit]
        lengths = np.array([[len(source), len(target)] for source, target in kept], "<i4").reshape(-1, 2)
        totals = {
            "pairs": len(kept),
            "source_tokens": int(lengths[:, 0].sum()),
            "target_tokens": int(lengths[:, 1].sum()),
            "skipped": len(pairs) - len(encoded),
            "too_long": len(encoded) - len(kept),
        }
        records = [lengths, *(np.concatenate(pair).astype("<i4") for pair in kept)]
        return Encoded((record.tobytes() for record in records), totals, PAIRS_AT_ONCE)


class SentencePairs:
    """Ids of sentence pairs in shards. Only the requested pairs are read.

    Args:
        shards: Shards written by a `PairEncoder`.

    Attributes:
        skipped: Number of pairs left out because a side is empty.
        too_long: Number of pairs left out because a side is longer than the maximum length.
        source_tokens: Number of source subwords, including ends.
        target_tokens: Number of target subwords, including ends.

    Raises:
        ValueError: If there are no pairs.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> text = [("a rose", "eine Rose"), ("a rose is a rose", "eine Rose ist eine Rose")] * 50
    >>> subwords = kt.data.Subwords.learn(kt.data.sentences_of(text), size=30)
    >>> pairs = kt.data.SentencePairs.encode(text, subwords, subwords)
    >>> len(pairs), [subwords.decode(ids) for ids in pairs.sentences(np.array([1]))[0]]
    (100, ['a rose is a rose', 'eine Rose ist eine Rose'])
    """

    def __init__(self, shards: Shards):
        self.shards = shards
        self._temporary: tempfile.TemporaryDirectory | None = None  # deleted with this object
        self.skipped, self.too_long = shards.total("skipped"), shards.total("too_long")
        self.source_tokens, self.target_tokens = shards.total("source_tokens"), shards.total("target_tokens")
        self.starts = np.cumsum([0, *(shard.totals["pairs"] for shard in shards.shards)])
        if not len(self):
            raise ValueError(
                "Expected at least one sentence pair with two sides of allowed length. "
                f"Received: {self.skipped} with an empty side, {self.too_long} with a side that is too long."
            )

    @classmethod
    def encode(
        cls, pairs: Iterable[tuple[str, str]], source: Subwords, target: Subwords, maximum_length: int | None = None
    ) -> "SentencePairs":
        """Encodes pairs into temporary files. The pairs are read once and need not fit into memory.

        Args:
            pairs: Source and target sentences.
            source: Subwords of the source language.
            target: Subwords of the target language.
            maximum_length: Optional integer. Pairs with more subwords on either side are left out.

        Raises:
            ValueError: If all pairs are left out.
        """
        folder = tempfile.TemporaryDirectory()
        encode = PairEncoder(source, target, maximum_length)
        shards = [write_piece(Path(folder.name), i, piece, encode) for i, piece in enumerate(pieces(pairs))]
        stored = cls(Shards(Path(folder.name), shards))
        stored._temporary = folder
        return stored

    def __len__(self) -> int:
        return int(self.starts[-1])

    def lengths(self, shard: int) -> np.ndarray:
        """Lengths of the sources and targets of a shard, including ends, `int32 [N, 2]`."""
        return np.frombuffer(self.shards.read(shard, [0])[0], "<i4").reshape(-1, 2)

    def longest(self) -> int:
        """Length of the longest sentence, including its end."""
        return max(int(self.lengths(shard).max(initial=0)) for shard in range(len(self.shards)))

    def overlap(self) -> dict[str, int]:
        """Numbers of distinct subwords in the source only, in the target only and in both.

        Reference:
            Press and Wolf, Using the Output Embedding to Improve Language Models, table 1.
        """
        source, target = set[int](), set[int]()
        for source_ids, target_ids in self._sides():
            source.update(np.unique(source_ids).tolist())
            target.update(np.unique(target_ids).tolist())
        both = len(source & target)
        return {"only_source": len(source) - both, "only_target": len(target) - both, "both": both}

    def counts(self, size: int) -> np.ndarray:
        """Occurrences of each of `size` subwords in the sources and in the targets, `int64 [2, V]`."""
        counts = np.zeros((2, size), np.int64)
        for sides in self._sides():
            counts += [np.bincount(ids, minlength=size) for ids in sides]
        return counts

    def _sides(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """All source ids and all target ids of each shard that has pairs."""
        for shard, number in enumerate(np.diff(self.starts).tolist()):
            if number:
                source, target = zip(*self._sentences(shard, np.arange(number)), strict=True)
                yield np.concatenate(source), np.concatenate(target)

    def sentences(self, chosen: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Source and target ids of the given pairs."""
        by_pair: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        shards = np.searchsorted(self.starts, chosen, side="right") - 1
        for shard in np.unique(shards).tolist():
            pairs = chosen[shards == shard]
            by_pair |= zip(pairs.tolist(), self._sentences(shard, pairs - self.starts[shard]), strict=True)
        return [by_pair[pair] for pair in chosen.tolist()]

    def _sentences(self, shard: int, chosen: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        records = self.shards.read(shard, (chosen + 1).tolist())
        for record, (source, _) in zip(records, self.lengths(shard)[chosen].tolist(), strict=True):
            ids = np.frombuffer(record, "<i4")
            yield ids[:source], ids[source:]

    def batch(
        self, chosen: np.ndarray, length_multiple: int = 1, row_multiple: int = 1, part: tuple[int, int] = (0, 1)
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        """A training batch of a `Translator`.

        Args:
            chosen: Indices of the pairs, `[B]`.
            length_multiple: Lengths are padded to a multiple of this, so that there are few shapes.
            row_multiple: The number of rows is padded to a multiple of this.
            part: `(i, n)` returns only part `i`, counted from 0, of `n` equal parts of the rows.

        Returns:
            Inputs, targets and weights. The inputs are `"source"` `int32 [B, S]` and `"target"` `int32 [B, T]`, the
            word before each target. The targets are `int32 [B, T]`, padded with 0. The weights are `float32 [B, T]`,
            0 for padding.
        """
        index, parts = part
        rows = np.pad(chosen, (0, -len(chosen) % row_multiple), mode="edge")
        size = len(rows) // parts
        rows, real = rows[index * size : (index + 1) * size], max(len(chosen) - index * size, 0)
        source, target = (pad_sentences(side, length_multiple) for side in zip(*self.sentences(rows), strict=True))
        before = np.pad(target[:, :-1], ((0, 0), (1, 0)), constant_values=PAD_ID)
        weights = (target != PAD_ID).astype(np.float32)
        weights[real:] = 0
        return {"source": source, "target": before}, np.maximum(target, 0), weights


def pad_sentences(sentences: Iterable[np.ndarray], multiple: int = 1) -> np.ndarray:
    """Ids of sentences, padded with -1, `int32 [B, S]`.

    Args:
        sentences: Ids of each sentence, `[T]`.
        multiple: `S` is the maximum length, rounded up to a multiple of this.

    Raises:
        ValueError: If `multiple` is below 1.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> kt.data.pad_sentences([np.array([3, 1, 4]), np.array([1])]).tolist()
    [[3, 1, 4], [1, -1, -1]]
    """
    check_integer("multiple", multiple)
    sentences = list(sentences)
    length = -(-max(map(len, sentences), default=0) // multiple) * multiple
    ids = np.full((len(sentences), length), PAD_ID, np.int32)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = sentence
    return ids
