"""A text on disk to the batches skip-gram is trained on.

The text is read in chunks; nothing but a chunk is in memory. Of each chunk, frequent words are thinned
out, what is left is cut into spans, and the spans, in random order, are put together to batches.
"""

import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain, count, islice

import numpy as np

from keras_tying.data.prepared.text import PreparedText
from keras_tying.data.vocabulary import Vocabulary

CHUNK = 2**18
"""Tokens of the text in memory at a time. No context reaches from one chunk into the next."""


def ids_on_disk(tokens: Iterable[str], vocabulary: Vocabulary) -> np.ndarray:
    """Ids `int32 [N]` of a text of any length, in a temporary file that is mapped into memory."""
    tokens = iter(tokens)
    with tempfile.TemporaryFile() as file:
        while piece := list(islice(tokens, CHUNK)):
            file.write(vocabulary.encode(piece).tobytes())
        return np.memmap(file, np.int32, "r") if file.tell() else np.zeros(0, np.int32)


def check_enough_words(number: int) -> None:
    """Raises ValueError unless there are two different words, of which one can be a context of the other."""
    if number < 2:
        raise ValueError(
            "Skip-gram learns from words beside other words: the text needs at least two different words. "
            f"Received: {number}. Use more text or a smaller minimum count."
        )


def word_counts(ids: np.ndarray | PreparedText, vocabulary: Vocabulary) -> np.ndarray:
    """How often each word occurs, `int64 [V]`; 0 for `<unk>` and `<eos>`, which are no words."""
    counts = np.zeros(len(vocabulary), np.int64)
    for start in range(0, len(ids), CHUNK):
        counts += np.bincount(ids[start : start + CHUNK], minlength=len(vocabulary))
    counts[[vocabulary.unknown_id, vocabulary.end_id]] = 0
    return counts


def keep_probabilities(counts: np.ndarray, subsample: float) -> np.ndarray:
    """The chance that an occurrence of a word is kept, `[V]`.

    With the word's share `f` of the text and the threshold `t`, it is `sqrt(t / f) + t / f`, at most 1,
    as in the program released with the paper; 0 for words that do not occur.

    Args:
        counts: Occurrences `[V]`.
        subsample: The threshold `t`; 0 keeps everything.

    Reference:
        Mikolov et al., Distributed Representations of Words and Phrases, section 2.3.
    """
    if subsample == 0:
        return (counts > 0).astype(float)
    ratio = subsample * counts.sum() / np.maximum(counts, 1)
    return np.where(counts > 0, np.minimum(np.sqrt(ratio) + ratio, 1), 0)


def noise_distribution(counts: np.ndarray, power: float = 0.75) -> np.ndarray:
    """The chance that a word is drawn as a negative, `[V]`: its count to the power of 3/4, normalised.

    Reference:
        Mikolov et al., Distributed Representations of Words and Phrases, section 2.2.
    """
    weights = counts.astype(float) ** power * (counts > 0)
    return weights / max(weights.sum(), 1)


class SkipGramBatches:
    """Spans of a text with their contexts and negatives.

    A batch is a dictionary of arrays. It has `R` spans of `S` successive words:

    - `centres` `int32 [R, S]`;
    - `contexts` `int32 [R, C]`: the span and the `window` words on both sides of it, `C = S + 2 * window`;
    - `pairs` `bool [R, S, C]`: whether a context is a context of a centre. It is one in the same line
      and no further away than the centre's reach, which is drawn from 1 to `window`;
    - `negatives` `int32 [R, N]`: drawn from the noise distribution and shared by all
      centres of the span; `SkipGram` weighs them as if each pair had its own.

    The spans of a batch come from places far apart in the chunk.

    Args:
        ids: The text `int32 [N]`, in memory or on disk.
        counts: Occurrences of the words that are trained, `[V]`; others are passed over.
        end_id: The id that ends a line.
        window: Integer, the largest reach. Defaults to 5.
        subsample: Float, threshold of `keep_probabilities`. Defaults to 1e-3.
        span: Integer `S`. Defaults to 16.
        spans: Integer `R`. Defaults to 64.
        negatives: Integer `N`. Defaults to 64.
        seed: Integer. The batches depend on it, the epoch and the text alone.

    Attributes:
        batches: Batches of an epoch. They hold as many words as one reading of the text is expected to
            leave; what a reading leaves more is passed over, what it leaves less is read again.

    Raises:
        ValueError: If fewer than two different words occur.

    Example:

    >>> counts = np.array([3, 2, 1, 0])
    >>> sizes = {"span": 2, "spans": 2, "negatives": 4}
    >>> text = SkipGramBatches(np.array([0, 1, 0, 2, 1, 0, 3]), counts, end_id=3, **sizes)
    >>> batch = next(text.epoch(0))
    >>> {name: array.shape for name, array in batch.items()}
    {'centres': (2, 2), 'contexts': (2, 12), 'pairs': (2, 2, 12), 'negatives': (2, 4)}
    """

    def __init__(self, ids, counts, end_id, window=5, subsample=1e-3, span=16, spans=64, negatives=64, seed=0):
        check_enough_words(int(np.count_nonzero(counts)))
        self.ids = ids
        self.end_id = end_id
        self.window = window
        self.span = span
        self.spans = spans
        self.negatives = negatives
        self.seed = seed
        self._keep = keep_probabilities(counts, subsample).astype(np.float32)
        self._noise = np.cumsum(noise_distribution(counts))
        self._distance = np.abs(np.arange(span + 2 * window) - window - np.arange(span)[:, None])  # [S, C]
        self.batches = max(1, round(float(self._keep.astype(float) @ counts) / (span * spans)))

    def epoch(self, epoch: int, first: int = 0) -> Iterator[dict[str, np.ndarray]]:
        """The batches of an epoch from the given one on."""
        rng = np.random.default_rng([self.seed, epoch])
        return islice(self._endless(rng), first, self.batches)

    def _endless(self, rng: np.random.Generator) -> Iterator[dict[str, np.ndarray]]:
        waiting: list[np.ndarray] | None = None
        starts = chain.from_iterable(range(0, len(self.ids), CHUNK) for _ in count())
        for start in starts:
            spans = self._spans(np.asarray(self.ids[start : start + CHUNK]), rng)
            if waiting is not None:
                spans = [np.concatenate(both) for both in zip(waiting, spans, strict=True)]
            whole = len(spans[0]) // self.spans * self.spans
            for place in range(0, whole, self.spans):
                yield self._batch(rng, *(array[place : place + self.spans] for array in spans))
            waiting = [array[whole:] for array in spans]

    def _spans(self, ids: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
        """Spans of a chunk in random order: words with their contexts, and the lines both are in."""
        kept = rng.random(len(ids), np.float32) < self._keep[ids]
        lines = np.cumsum(ids == self.end_id, dtype=np.int32)[kept]
        number = -(-len(lines) // self.span)
        filling = number * self.span - len(lines)
        around = (self.window, self.window + filling)
        words = np.pad(ids[kept], around, constant_values=self.end_id)
        places = np.arange(number)[:, None] * self.span + np.arange(self.span + 2 * self.window)
        order = rng.permutation(number)
        contexts = words[places][order]
        context_lines = np.pad(lines, around, constant_values=-1)[places][order]
        return [contexts, context_lines]

    def _batch(self, rng: np.random.Generator, contexts: np.ndarray, lines: np.ndarray) -> dict[str, np.ndarray]:
        inner = slice(self.window, self.window + self.span)
        reach = rng.integers(1, self.window, (len(contexts), self.span, 1), np.int8, endpoint=True)
        near = (self._distance > 0) & (self._distance <= reach)
        centre_lines = lines[:, inner, None]
        pairs = near & (centre_lines == lines[:, None]) & (centre_lines >= 0)
        negatives = np.searchsorted(self._noise, rng.random((self.spans, self.negatives)), side="right")
        last = len(self._noise) - 1  # a sum of floats may end a little below 1
        return {
            "centres": contexts[:, inner],
            "contexts": contexts,
            "pairs": pairs,
            "negatives": np.minimum(negatives, last).astype(np.int32),
        }
