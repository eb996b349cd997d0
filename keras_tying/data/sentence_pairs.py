"""Sentence pairs as ids on disk, and the batches a translation model is trained on."""

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np

from keras_tying.data.subwords import Subwords

PAIRS_AT_ONCE = 10_000
"""Pairs encoded between writes."""
FILLED_UP = -1
"""The id that fills sentences up, and stands before the first word of a target."""


@dataclass(frozen=True)
class SentencePairs:
    """Ids of sentence pairs, each sentence closed by its end, in temporary files mapped into memory.

    Attributes:
        sources: Ids of all source sentences, `int32 [M]`.
        source_starts: Where each begins, `int64 [N + 1]`; the last entry is `M`.
        targets: Ids of all target sentences.
        target_starts: Where each begins.
        skipped: Pairs left out because a side is empty.
        too_long: Pairs left out because a side is longer than was asked for.
    """

    sources: np.ndarray
    source_starts: np.ndarray
    targets: np.ndarray
    target_starts: np.ndarray
    skipped: int = 0
    too_long: int = 0

    @classmethod
    def encode(
        cls, pairs: Iterable[tuple[str, str]], source: Subwords, target: Subwords, longest: int | None = None
    ) -> "SentencePairs":
        """Reads pairs once, holding a few of them at a time.

        Args:
            pairs: Source and target sentences.
            source: Subwords of the source.
            target: Subwords of the target.
            longest: Pairs with more subwords than this on a side are left out. Default: none are.

        Raises:
            ValueError: If no pair is left.
        """
        pairs = iter(pairs)
        skipped = too_long = 0
        lengths: list[np.ndarray] = []
        with tempfile.TemporaryFile() as source_file, tempfile.TemporaryFile() as target_file:
            while chunk := list(islice(pairs, PAIRS_AT_ONCE)):
                filled = [pair for pair in chunk if all(side.strip() for side in pair)]
                encoded = [(source.encode(s), target.encode(t)) for s, t in filled]
                kept = [pair for pair in encoded if longest is None or max(map(len, pair)) <= longest + 1]
                skipped += len(chunk) - len(filled)
                too_long += len(encoded) - len(kept)
                if kept:
                    for file, side in zip((source_file, target_file), zip(*kept, strict=True), strict=True):
                        file.write(np.concatenate(side).tobytes())
                    lengths.append(np.array([[len(s), len(t)] for s, t in kept]))
            if not lengths:
                raise ValueError(
                    "There is no sentence pair to work with. "
                    f"Received: {skipped} with an empty side, {too_long} longer than {longest} subwords."
                )
            starts = np.cumsum(np.concatenate([np.zeros((1, 2), np.int64), *lengths]), axis=0)
            sides = [np.memmap(file, np.int32, "r") for file in (source_file, target_file)]
        return cls(sides[0], starts[:, 0], sides[1], starts[:, 1], skipped, too_long)

    def __len__(self) -> int:
        return len(self.source_starts) - 1

    @property
    def source_lengths(self) -> np.ndarray:
        """Subwords of each source sentence with its end, `[N]`."""
        return np.diff(self.source_starts)

    @property
    def target_lengths(self) -> np.ndarray:
        return np.diff(self.target_starts)

    def overlap(self) -> dict[str, int]:
        """Subwords that occur in the source alone, in the target alone and in both.

        Reference:
            Press and Wolf, Using the Output Embedding to Improve Language Models, table 1.
        """
        source, target = np.unique(self.sources), np.unique(self.targets)
        both = len(np.intersect1d(source, target))
        return {"only_source": len(source) - both, "only_target": len(target) - both, "both": both}

    def batch(
        self, chosen: np.ndarray, multiple: int = 1, multiple_rows: int = 1
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        """Some pairs as a `Translator` is trained on them.

        Args:
            chosen: Which pairs, `[B]`.
            multiple: Lengths are filled up to multiples of this, so that there are few shapes.
            multiple_rows: Rows are filled up to a multiple of this.

        Returns:
            Inputs, `"source"` `int32 [B, S]` and `"target"` `int32 [B, T]`, the word before each; the
            words to predict `int32 [B, T]`, filled up with 0; and their weights `float32 [B, T]`,
            0 where filled up.
        """
        rows = np.pad(chosen, (0, -len(chosen) % multiple_rows), mode="edge")
        source = _rows(self.sources, self.source_starts, rows, multiple)
        target = _rows(self.targets, self.target_starts, rows, multiple)
        before = np.pad(target[:, :-1], ((0, 0), (1, 0)), constant_values=FILLED_UP)
        weights = (target != FILLED_UP).astype(np.float32)
        weights[len(chosen) :] = 0
        return {"source": source, "target": before}, np.maximum(target, 0), weights


class PairBatches:
    """Batches of pairs of like length, in another order each epoch.

    Pairs are sorted by the target's length and, roughly, the source's, those alike in random order, and
    cut where the next pair would make the batch larger than `tokens`. The lengths alone decide the cuts,
    so every epoch has as many batches, and every pair is in one of them.

    Args:
        pairs: The text.
        tokens: Target positions of a batch, and source positions, filled-up ones counted, at most.
        seed: Decides the order, together with the epoch.

    Attributes:
        words: Target subwords of an epoch, ends included.

    Raises:
        ValueError: If a sentence is longer than `tokens`.
    """

    def __init__(self, pairs: SentencePairs, tokens: int, seed: int):
        self.pairs = pairs
        self.seed = seed
        self.words = len(pairs.targets)
        sources, targets = pairs.source_lengths, pairs.target_lengths
        longest = int(max(sources.max(), targets.max()))
        if longest > tokens:
            raise ValueError(f"A batch of {tokens} tokens cannot hold a sentence of {longest}. Use larger batches.")
        self._keys = targets.astype(np.int64) << 32 | -(-sources // SOURCE_STEP) * SOURCE_STEP
        self._cuts = _cuts(np.sort(self._keys), tokens)

    def __len__(self) -> int:
        return len(self._cuts) - 1

    def order(self, epoch: int) -> list[np.ndarray]:
        """The pairs of each batch of an epoch, in the order they are trained on."""
        random = np.random.default_rng([self.seed, epoch])
        order = np.lexsort((random.random(len(self._keys)), self._keys))
        return [order[self._cuts[i] : self._cuts[i + 1]] for i in random.permutation(len(self))]


SOURCE_STEP = 3
"""Source lengths that are taken for alike: fewer would leave little to chance, more fill up more."""


def _cuts(keys: np.ndarray, tokens: int) -> np.ndarray:
    """Where batches begin among sorted keys, and the end of the last."""
    cuts, first, widest = [0], 0, 0
    for place, key in enumerate(keys.tolist()):
        widest = max(widest, key >> 32, key & 0xFFFFFFFF)
        if (place + 1 - first) * widest > tokens and place > first:
            cuts.append(place)
            first, widest = place, max(key >> 32, key & 0xFFFFFFFF)
    return np.array([*cuts, len(keys)])


def _rows(ids: np.ndarray, starts: np.ndarray, chosen: np.ndarray, multiple: int) -> np.ndarray:
    """Sentences side by side, filled up: `int32 [B, T]`."""
    lengths = starts[chosen + 1] - starts[chosen]
    steps = np.arange(-(-lengths.max() // multiple) * multiple)
    places = np.minimum(starts[chosen, None] + steps, len(ids) - 1)
    return np.where(steps < lengths[:, None], ids[places], np.int32(FILLED_UP))
