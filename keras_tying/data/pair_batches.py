"""Batches of sentence pairs of similar length."""

from collections.abc import Sequence

import numpy as np

from keras_tying.checks import check_integer
from keras_tying.data.sentence_pairs import SentencePairs

SOURCE_BUCKET = 3
"""Number of source lengths that are sorted as equal. Less means less shuffling, more means more padding."""
SHARDS_AT_ONCE = 16
"""Number of shards whose batches are shuffled together."""


class PairBatches:
    """Batches of pairs of similar length, in a different order each epoch.

    The pairs of a shard are sorted by target length and then by source length, in buckets of `SOURCE_BUCKET` lengths.
    Pairs with equal lengths are shuffled. A batch ends where the next pair would make it larger than `tokens`. This
    depends on the lengths alone, so each epoch has the same number of batches, and each pair is in one of them. The
    shards are shuffled, and so are the batches of each `SHARDS_AT_ONCE` shards.

    Args:
        pairs: The sentence pairs.
        tokens: Maximum number of source positions, and of target positions, in a batch. Padding is counted.
        seed: Integer. The order depends on it and on the epoch.

    Raises:
        ValueError: If a sentence is longer than `tokens`.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> text = [("a rose", "eine Rose"), ("a rose is a rose", "eine Rose ist eine Rose")] * 50
    >>> subwords = kt.data.Subwords.learn(kt.data.sentences_of(text), size=30)
    >>> batches = kt.data.PairBatches(kt.data.SentencePairs.encode(text, subwords, subwords), tokens=100, seed=0)
    >>> pairs = np.concatenate(list(batches.order(epoch=0)))
    >>> np.array_equal(np.sort(pairs), np.arange(100))  # each pair is in one batch
    True
    """

    def __init__(self, pairs: SentencePairs, tokens: int, seed: int):
        check_integer("tokens", tokens)
        check_integer("seed", seed, least=0)
        self.pairs = pairs
        self.seed = seed
        longest = pairs.longest()
        if longest > tokens:
            raise ValueError(f"A batch of {tokens} tokens cannot hold a sentence of {longest}. Use larger batches.")
        self.cuts = [_cuts(np.sort(_keys(pairs, shard)), tokens) for shard in range(len(pairs.shards))]

    def __len__(self) -> int:
        return sum(len(cuts) - 1 for cuts in self.cuts)

    def order(self, epoch: int) -> "EpochOrder":
        """The pairs of each batch of an epoch, in order."""
        return EpochOrder(self, epoch)


class EpochOrder(Sequence[np.ndarray]):
    """The batches of an epoch. Each is an array of the indices of its pairs, `[B]`.

    The order of at most `SHARDS_AT_ONCE` shards is in memory.
    """

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
            self._group = group, self._shuffled(group)
        return self._group[1][index - int(self.starts[group])]

    def _shuffled(self, group: int) -> list[np.ndarray]:
        random = np.random.default_rng([*self.seed, group])
        batches: list[np.ndarray] = []
        for shard in self.groups[group]:
            keys, cuts = _keys(self.batches.pairs, shard), self.batches.cuts[shard]
            order = np.lexsort((random.random(len(keys)), keys)) + self.batches.pairs.starts[shard]
            batches += np.split(order, cuts[1:-1]) if len(keys) else []
        return [batches[i] for i in random.permutation(len(batches))]


def _keys(pairs: SentencePairs, shard: int) -> np.ndarray:
    """Sort keys of the pairs of a shard, `int64 [N]`: target length, then source length."""
    sources, targets = pairs.lengths(shard).astype(np.int64).T
    return targets << 32 | -(-sources // SOURCE_BUCKET) * SOURCE_BUCKET


def _cuts(keys: np.ndarray, tokens: int) -> np.ndarray:
    """Start of each batch among the sorted keys, and the end of the last batch."""
    if not len(keys):
        return np.zeros(1, int)
    cuts, first, longest = [0], 0, 0
    for i, key in enumerate(keys.tolist()):
        longest = max(longest, key >> 32, key & 0xFFFFFFFF)
        if (i + 1 - first) * longest > tokens and i > first:
            cuts.append(i)
            first, longest = i, max(key >> 32, key & 0xFFFFFFFF)
    return np.array([*cuts, len(keys)])
