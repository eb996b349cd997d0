"""Training batches of skip-gram.

The text is read in chunks, one at a time. In each chunk, frequent words are subsampled, the remaining words are cut
into spans, and the spans are shuffled and grouped into batches.
"""

import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain, count, islice

import numpy as np

from keras_tying.checks import check_integer, check_number
from keras_tying.data.prepared.text import PreparedText
from keras_tying.data.vocabulary import Vocabulary
from keras_tying.files import FULL

CHUNK = 2**18
"""Number of tokens in memory at a time. Contexts do not cross the boundaries of chunks."""

LARGEST_WINDOW = np.iinfo(np.int8).max
"""Reaches are drawn as bytes."""


def ids_on_disk(tokens: Iterable[str], vocabulary: Vocabulary) -> np.ndarray:
    """Ids of a text, `int32 [N]`, in a memory-mapped temporary file.

    Raises:
        OSError: If the folder of temporary files has no space for them.

    Example:

    >>> import keras_tying as kt
    >>> tokens = "a rose is a rose <eos>".split()
    >>> ids = kt.data.ids_on_disk(tokens, kt.data.Vocabulary.from_tokens(tokens))
    >>> type(ids).__name__, ids.tolist()
    ('memmap', [0, 1, 3, 0, 1, 2])
    """
    tokens = iter(tokens)
    try:
        with tempfile.TemporaryFile() as file:
            while chunk := list(islice(tokens, CHUNK)):
                file.write(vocabulary.encode(chunk).tobytes())
            return np.memmap(file, np.int32, "r") if file.tell() else np.zeros(0, np.int32)
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise OSError(
            f"The ids of the text do not fit into {tempfile.gettempdir()} ({error}). Set TMPDIR to a folder with space."
        ) from None


def check_enough_words(count: int) -> None:
    """Raises ValueError if there are fewer than two different words."""
    if count < 2:
        raise ValueError(
            "Skip-gram needs a text with at least two different words. "
            f"Received: {count}. Use more text, a larger vocabulary or a smaller minimum count."
        )


def word_counts(ids: np.ndarray | PreparedText, vocabulary: Vocabulary) -> np.ndarray:
    """Number of occurrences of each word, `int64 [V]`. The counts of `<unk>` and `<eos>` are 0.

    Example:

    >>> import keras_tying as kt
    >>> tokens = "a rose is a rose <eos>".split()
    >>> vocabulary = kt.data.Vocabulary.from_tokens(tokens)
    >>> counts = kt.data.word_counts(vocabulary.encode(tokens), vocabulary)
    >>> dict(zip(vocabulary.words, counts.tolist()))
    {'a': 2, 'rose': 2, '<eos>': 0, 'is': 1, '<unk>': 0}
    """
    counts = vocabulary.counts(ids)
    counts[[vocabulary.unknown_id, vocabulary.end_id]] = 0
    return counts


def keep_probabilities(counts: np.ndarray, subsample: float) -> np.ndarray:
    """Probability that subsampling keeps an occurrence of a word, `[V]`.

    A word of relative frequency `f` is kept with probability `min(1, sqrt(t / f) + t / f)`, as in the program
    released with the paper. The probability of words that do not occur is 0.

    Args:
        counts: Number of occurrences of each word, `[V]`.
        subsample: Float, the threshold `t`; 0 disables subsampling.

    Reference:
        Mikolov et al., Distributed Representations of Words and Phrases, section 2.3.
    """
    check_number("subsample", subsample, least=0)
    if subsample == 0:
        return (counts > 0).astype(float)
    ratio = subsample * counts.sum() / np.maximum(counts, 1)
    return np.where(counts > 0, np.minimum(np.sqrt(ratio) + ratio, 1), 0)


def noise_distribution(counts: np.ndarray) -> np.ndarray:
    """Probability of each word as a negative, `[V]`: its count to the power of 3/4, normalised.

    Reference:
        Mikolov et al., Distributed Representations of Words and Phrases, section 2.2.
    """
    weights = counts.astype(float) ** 0.75 * (counts > 0)
    return weights / max(weights.sum(), 1)


class SkipGramBatches:
    """Batches of spans of a text, with contexts and negatives.

    A batch is a dictionary of arrays. It has `R` spans of `S` consecutive words:

    - `centres` `int32 [R, S]`: the words of each span;
    - `contexts` `int32 [R, C]`: each span with `window` words on both sides, `C = S + 2 * window`;
    - `pairs` `bool [R, S, C]`: whether a centre and a context form a training pair. They do if they are in the same
      line and at a distance from 1 to the reach of the centre, which is drawn uniformly from 1 to `window`;
    - `negatives` `int32 [R, N]`: words drawn from the noise distribution. All centres of a span share them;
      `SkipGram` weights them as if each pair had its own.

    The spans of a batch come from random positions of a chunk.

    Args:
        ids: The text, `int32 [N]`, in memory or on disk.
        counts: Number of occurrences of each trained word, `[V]`. Words with a count of 0 are skipped.
        end_id: Integer, the id at the end of each line.
        window: Integer, the maximum reach, at most 127. Defaults to 5.
        subsample: Float, threshold of `keep_probabilities`. Defaults to 1e-3.
        span: Integer `S`. Defaults to 16.
        spans: Integer `R`. Defaults to 64.
        negatives: Integer `N`. Defaults to 64.
        seed: Integer. The batches depend only on the seed, the epoch and the text.

    Attributes:
        batches: Number of batches per epoch, computed from the expected number of words after subsampling. If an
            epoch has fewer words, the text is read again; if it has more, the rest is skipped.

    Raises:
        ValueError: If fewer than two different words occur, or an argument is outside its range.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> counts = np.array([3, 2, 1, 0])
    >>> sizes = {"span": 2, "spans": 2, "negatives": 4}
    >>> text = kt.data.SkipGramBatches(np.array([0, 1, 0, 2, 1, 0, 3]), counts, end_id=3, **sizes)
    >>> batch = next(text.epoch(0))
    >>> {name: array.shape for name, array in batch.items()}
    {'centres': (2, 2), 'contexts': (2, 12), 'pairs': (2, 2, 12), 'negatives': (2, 4)}
    """

    def __init__(self, ids, counts, end_id, window=5, subsample=1e-3, span=16, spans=64, negatives=64, seed=0):
        sizes = {"window": window, "span": span, "spans": spans, "negatives": negatives}
        for name, size in sizes.items():
            check_integer(name, size)
        if window > LARGEST_WINDOW:
            raise ValueError(f"`window` must be at most {LARGEST_WINDOW}. Received: window={window}")
        check_integer("seed", seed, least=0)
        check_integer("end_id", end_id, least=0)
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
        kept = float(self._keep.astype(float) @ counts)
        if kept < 1e-3:  # a word in a thousand epochs
            raise ValueError(f"`subsample` must leave words to train on. Received: subsample={subsample}")
        self.batches = max(1, round(kept / (span * spans)))

    def epoch(self, epoch: int, first: int = 0) -> Iterator[dict[str, np.ndarray]]:
        """The batches of an epoch, from index `first` to the end."""
        rng = np.random.default_rng([self.seed, epoch])
        return islice(self._endless(rng), first, self.batches)

    def _endless(self, rng: np.random.Generator) -> Iterator[dict[str, np.ndarray]]:
        remaining: list[np.ndarray] | None = None
        starts = chain.from_iterable(range(0, len(self.ids), CHUNK) for _ in count())
        for start in starts:
            spans = self._spans(np.asarray(self.ids[start : start + CHUNK]), rng)
            if remaining is not None:
                spans = [np.concatenate(both) for both in zip(remaining, spans, strict=True)]
            stop = len(spans[0]) // self.spans * self.spans
            for first in range(0, stop, self.spans):
                yield self._batch(rng, *(array[first : first + self.spans] for array in spans))
            remaining = [array[stop:] for array in spans]

    def _spans(self, ids: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
        """Shuffled spans of a chunk: their contexts, and the line number of each context, both `int32 [N, C]`."""
        kept = rng.random(len(ids), np.float32) < self._keep[ids]
        lines = np.cumsum(ids == self.end_id, dtype=np.int32)[kept]
        number = -(-len(lines) // self.span)
        padding = number * self.span - len(lines)
        around = (self.window, self.window + padding)
        words = np.pad(ids[kept], around, constant_values=self.end_id)
        positions = np.arange(number)[:, None] * self.span + np.arange(self.span + 2 * self.window)
        order = rng.permutation(number)
        contexts = words[positions][order]
        context_lines = np.pad(lines, around, constant_values=-1)[positions][order]
        return [contexts, context_lines]

    def _batch(self, rng: np.random.Generator, contexts: np.ndarray, lines: np.ndarray) -> dict[str, np.ndarray]:
        inner = slice(self.window, self.window + self.span)
        reach = rng.integers(1, self.window, (len(contexts), self.span, 1), np.int8, endpoint=True)
        near = (self._distance > 0) & (self._distance <= reach)
        centre_lines = lines[:, inner, None]
        pairs = near & (centre_lines == lines[:, None]) & (centre_lines >= 0)
        negatives = np.searchsorted(self._noise, rng.random((self.spans, self.negatives)), side="right")
        last = len(self._noise) - 1  # the sum of the probabilities may be below 1
        return {
            "centres": contexts[:, inner],
            "contexts": contexts,
            "pairs": pairs,
            "negatives": np.minimum(negatives, last).astype(np.int32),
        }
