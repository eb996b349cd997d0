"""Sentence pairs as ids on disk."""

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_tying.data.prepared.shards import Shards
from keras_tying.data.prepared.writing import Encoded, pieces, write_piece
from keras_tying.data.subwords import Subwords
from keras_tying.ids import PAD_ID

PAIRS_AT_ONCE = 16
"""Pairs that are compressed, and read, together."""


@dataclass(frozen=True)
class PairEncoder:
    """Sentence pairs to records of `int32`: first the lengths `[N, 2]` of all, then each pair's source and target ids.

    Each sentence is closed by its end.

    Attributes:
        source: Subwords of the source.
        target: Subwords of the target.
        longest: Pairs with more subwords than this on a side are left out. Default: none are.
    """

    source: Subwords
    target: Subwords
    longest: int | None = None

    def __call__(self, pairs: list[tuple[str, str]]) -> Encoded:
        filled = [pair for pair in pairs if all(side.strip() for side in pair)]
        encoded = [(self.source.encode(source), self.target.encode(target)) for source, target in filled]
        kept = [pair for pair in encoded if self.longest is None or max(map(len, pair)) <= self.longest + 1]
        lengths = np.array([[len(source), len(target)] for source, target in kept], "<i4").reshape(-1, 2)
        totals = {
            "pairs": len(kept),
            "source_tokens": int(lengths[:, 0].sum()),
            "target_tokens": int(lengths[:, 1].sum()),
            "skipped": len(pairs) - len(filled),
            "too_long": len(encoded) - len(kept),
        }
        records = [lengths, *(np.concatenate(pair).astype("<i4") for pair in kept)]
        return Encoded((record.tobytes() for record in records), totals, PAIRS_AT_ONCE)


class SentencePairs:
    """Ids of sentence pairs in shards; only those that are asked for are read.

    Args:
        shards: Of a `PairEncoder`.

    Attributes:
        skipped: Pairs left out because a side is empty.
        too_long: Pairs left out because a side is longer than was asked for.
        source_tokens: Subwords of all sources, ends included.
        target_tokens: The same of all targets.

    Raises:
        ValueError: If there is no pair.
    """

    def __init__(self, shards: Shards):
        self.shards = shards
        self._temporary: tempfile.TemporaryDirectory | None = None  # removed with this object
        self.skipped, self.too_long = shards.total("skipped"), shards.total("too_long")
        self.source_tokens, self.target_tokens = shards.total("source_tokens"), shards.total("target_tokens")
        self.starts = np.cumsum([0, *(shard.totals["pairs"] for shard in shards.shards)])
        if not len(self):
            raise ValueError(
                "There is no sentence pair to work with. "
                f"Received: {self.skipped} with an empty side, {self.too_long} with a side that is too long."
            )

    @classmethod
    def encode(
        cls, pairs: Iterable[tuple[str, str]], source: Subwords, target: Subwords, longest: int | None = None
    ) -> "SentencePairs":
        """Reads pairs once into temporary files, holding some of them at a time.

        Args:
            pairs: Source and target sentences.
            source: Subwords of the source.
            target: Subwords of the target.
            longest: Pairs with more subwords than this on a side are left out. Default: none are.

        Raises:
            ValueError: If no pair is left.
        """
        folder = tempfile.TemporaryDirectory()
        encode = PairEncoder(source, target, longest)
        shards = [write_piece(Path(folder.name), i, piece, encode) for i, piece in enumerate(pieces(pairs))]
        stored = cls(Shards(Path(folder.name), shards))
        stored._temporary = folder
        return stored

    def __len__(self) -> int:
        return int(self.starts[-1])

    def lengths(self, shard: int) -> np.ndarray:
        """Subwords of each source and target of a shard, ends included, `int32 [N, 2]`."""
        return np.frombuffer(self.shards.read(shard, [0])[0], "<i4").reshape(-1, 2)

    def longest(self) -> int:
        """Subwords of the longest sentence."""
        return max(int(self.lengths(shard).max(initial=0)) for shard in range(len(self.shards)))

    def overlap(self) -> dict[str, int]:
        """Subwords that occur in the source alone, in the target alone and in both.

        Reference:
            Press and Wolf, Using the Output Embedding to Improve Language Models, table 1.
        """
        source, target = set[int](), set[int]()
        for shard, (start, stop) in enumerate(zip(self.starts[:-1], self.starts[1:], strict=True)):
            sentences = self._sentences(shard, np.arange(stop - start))
            for seen, side in zip((source, target), zip(*sentences, strict=True), strict=False):
                seen.update(np.unique(np.concatenate(side)).tolist())
        both = len(source & target)
        return {"only_source": len(source) - both, "only_target": len(target) - both, "both": both}

    def sentences(self, chosen: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Ids of sources and targets of some pairs."""
        found: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        shards = np.searchsorted(self.starts, chosen, side="right") - 1
        for shard in np.unique(shards).tolist():
            pairs = chosen[shards == shard]
            found |= zip(pairs.tolist(), self._sentences(shard, pairs - self.starts[shard]), strict=True)
        return [found[pair] for pair in chosen.tolist()]

    def _sentences(self, shard: int, chosen: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        records = self.shards.read(shard, (chosen + 1).tolist())
        for record, (source, _) in zip(records, self.lengths(shard)[chosen].tolist(), strict=True):
            ids = np.frombuffer(record, "<i4")
            yield ids[:source], ids[source:]

    def batch(
        self, chosen: np.ndarray, multiple: int = 1, multiple_rows: int = 1, part: tuple[int, int] = (0, 1)
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        """Some pairs as a `Translator` is trained on them.

        Args:
            chosen: Which pairs, `[B]`.
            multiple: Lengths are filled up to multiples of this, so that there are few shapes.
            multiple_rows: Rows are filled up to a multiple of this.
            part: `(i, n)`: only the `i`-th of `n` equal parts of the rows, counted from 0.

        Returns:
            Inputs, `"source"` `int32 [B, S]` and `"target"` `int32 [B, T]`, the word before each; the
            words to predict `int32 [B, T]`, filled up with 0; and their weights `float32 [B, T]`,
            0 where filled up.
        """
        number, parts = part
        rows = np.pad(chosen, (0, -len(chosen) % multiple_rows), mode="edge")
        size = len(rows) // parts
        rows, real = rows[number * size : (number + 1) * size], max(len(chosen) - number * size, 0)
        source, target = (pad_sentences(side, multiple) for side in zip(*self.sentences(rows), strict=True))
        before = np.pad(target[:, :-1], ((0, 0), (1, 0)), constant_values=PAD_ID)
        weights = (target != PAD_ID).astype(np.float32)
        weights[real:] = 0
        return {"source": source, "target": before}, np.maximum(target, 0), weights


def pad_sentences(sentences: Iterable[np.ndarray], multiple: int = 1) -> np.ndarray:
    """Sentences' ids side by side, `int32 [B, S]`, filled up with -1.

    Args:
        sentences: Ids of each, `[T]`.
        multiple: `S` is the next multiple of this.
    """
    sentences = list(sentences)
    width = -(-max(map(len, sentences)) // multiple) * multiple
    ids = np.full((len(sentences), width), PAD_ID, np.int32)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = sentence
    return ids
