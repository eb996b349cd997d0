"""The batches a translation model is trained on."""

from collections.abc import Sequence

import numpy as np

from keras_tying.data.sentence_pairs import SentencePairs

SOURCE_STEP = 3
"""Source lengths that are taken for alike: fewer would leave little to chance, more fill up more."""
SHARDS_AT_ONCE = 16
"""Shards that batches are drawn from at a time."""


class PairBatches:
    """Batches of pairs of like length, in another order each epoch.

    The pairs of a shard are sorted by the target's length and, roughly, the source's, those alike in random order, and
    cut where the next pair would make the batch larger than `tokens`. The lengths alone decide the cuts,
    so every epoch has as many batches, and every pair is in one of them. Shards come in random order, and the
    batches of `SHARDS_AT_ONCE` of them are mixed.

    Args:
        pairs: The text.
        tokens: Target positions of a batch, and source positions, filled-up ones counted, at most.
        seed: Decides the order, together with the epoch.

    Raises:
        ValueError: If a sentence is longer than `tokens`.
    """

    def __init__(self, pairs: SentencePairs, tokens: int, seed: int):
        self.pairs = pairs
        self.seed = seed
        longest = pairs.longest()
        if longest > tokens:
            raise ValueError(f"A batch of {tokens} tokens cannot hold a sentence of {longest}. Use larger batches.")
        self.cuts = [_cuts(np.sort(_keys(pairs, shard)), tokens) for shard in range(len(pairs.shards))]

    def __len__(self) -> int:
        return sum(len(cuts) - 1 for cuts in self.cuts)

    def order(self, epoch: int) -> "EpochOrder":
        """The pairs of each batch of an epoch, in the order they are trained on."""
        return EpochOrder(self, epoch)


class EpochOrder(Sequence[np.ndarray]):
    """A sequence of batches, each the numbers of its pairs `[B]`; that of a few shards is in memory."""

    def __init__(self, batches: PairBatches, epoch: int):
        self.batches = batches
        self.seed = [batches.seed, epoch]
        shards = np.arange(len(batches.cuts))
        if len(shards) > 1:
            shards = np.random.default_rng([*self.seed, len(shards)]).permutation(shards)
        self.groups = [shards[i : i + SHARDS_AT_ONCE] for i in range(0, len(shards), SHARDS_AT_ONCE)]
        sizes = [sum(len(batches.cuts[shard]) - 1 for shard in group) for group in self.groups]
        self.starts = np.cumsum([0, *sizes])
        self._group: tuple[int, list[np.ndarray]] = (-1, [])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(index)
        group = int(np.searchsorted(self.starts, index, side="right")) - 1
        if group != self._group[0]:
            self._group = group, self._mixed(group)
        return self._group[1][index - int(self.starts[group])]

    def _mixed(self, group: int) -> list[np.ndarray]:
        random = np.random.default_rng([*self.seed, group])
        batches: list[np.ndarray] = []
        for shard in self.groups[group]:
            keys, cuts = _keys(self.batches.pairs, shard), self.batches.cuts[shard]
            order = np.lexsort((random.random(len(keys)), keys)) + self.batches.pairs.starts[shard]
            batches += np.split(order, cuts[1:-1])
        return [batches[i] for i in random.permutation(len(batches))]


def _keys(pairs: SentencePairs, shard: int) -> np.ndarray:
    """What the pairs of a shard are sorted by."""
    sources, targets = pairs.lengths(shard).astype(np.int64).T
    return targets << 32 | -(-sources // SOURCE_STEP) * SOURCE_STEP


def _cuts(keys: np.ndarray, tokens: int) -> np.ndarray:
    """Where batches begin among sorted keys, and the end of the last."""
    if not len(keys):
        return np.zeros(1, int)
    cuts, first, widest = [0], 0, 0
    for place, key in enumerate(keys.tolist()):
        widest = max(widest, key >> 32, key & 0xFFFFFFFF)
        if (place + 1 - first) * widest > tokens and place > first:
            cuts.append(place)
            first, widest = place, max(key >> 32, key & 0xFFFFFFFF)
    return np.array([*cuts, len(keys)])
