"""Neural cache: a language model that also predicts the words that followed similar hidden states."""

from collections.abc import Iterator, Sequence
from itertools import product

import keras
import numpy as np
from keras import ops

from keras_tying.backend.compilation import compile_function
from keras_tying.checks import check_integer
from keras_tying.data import PreparedText
from keras_tying.inference.language_model import read_windows
from keras_tying.metrics.perplexity import perplexity_of

FLATNESS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5)
WEIGHTS = (0.02, 0.05, 0.08, 0.12, 0.16, 0.2, 0.3, 0.4)
"""Values of `flatness` and `weight` that `fit` tries."""


class NeuralCache:
    """A language model with a cache of the last hidden states and the words that followed them.

    With hidden states `h` before the output embedding and the words `w_i` of the text, the probability of a word is::

        p(w) = (1 - weight) p_model(w) + weight p_cache(w)
        p_cache(w) = sum of exp(flatness * h_t . h_i) over the cached i with w_{i+1} = w, divided by the sum over all i

    Args:
        model: A `LanguageModel`.
        size: Integer, number of cached states. Defaults to 500.

    Attributes:
        flatness: The theta of the paper. `fit` chooses it.
        weight: The lambda of the paper. `fit` chooses it.
        fitted_perplexity: Perplexity of the text of `fit`, with the settings that it chose. `None` before.

    Raises:
        ValueError: If `size` is not positive.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> ids = np.tile([3, 7, 3, 5], 50)
    >>> cached = kt.inference.NeuralCache(kt.zoo.recurrent_language_model(20, 8)).fit(ids)
    >>> cached.perplexity(ids) < 20
    True

    Reference:
        Grave, Joulin and Usunier, Improving Neural Language Models with a Continuous Cache, 2017, section 3.
    """

    name = "cache"
    """How metrics measured so are called."""

    def __init__(self, model: keras.Model, size: int = 500):
        check_integer("size", size)
        self.model = model
        self.size = size
        self.flatness = 0.0
        self.weight = 0.0
        self.fitted_perplexity: float | None = None

    @property
    def settings(self) -> str:
        return f"a cache of {self.size} words (theta {self.flatness:g}, lambda {self.weight:g})"

    def fit(self, ids: np.ndarray | PreparedText) -> "NeuralCache":
        """Chooses `flatness` and `weight` with the lowest perplexity of a text. Returns itself."""
        perplexities = self._perplexities(ids, FLATNESS, WEIGHTS)
        best = int(np.argmin(perplexities))
        self.fitted_perplexity = perplexities[best]
        self.flatness, self.weight = list(product(FLATNESS, WEIGHTS))[best]
        return self

    def perplexity(self, ids: np.ndarray | PreparedText) -> float:
        """Exact perplexity of a text, read once from start to end, the cache empty at first."""
        return self._perplexities(ids, (self.flatness,), (self.weight,))[0]

    def _perplexities(self, ids, flatness: Sequence[float], weights: Sequence[float]) -> list[float]:
        """The perplexity for each flatness with each weight."""
        totals, count = np.zeros((len(flatness), len(weights))), 0
        shares = np.array(weights)[:, None]
        for of_model, of_cache in self._probabilities(ids, flatness):
            mixed = (1 - shares) * of_model + shares * of_cache[:, None]
            totals -= np.log(mixed).sum(axis=-1)
            count += len(of_model)
        return [perplexity_of(total / count) for total in totals.ravel()]

    def _probabilities(self, ids, flatness) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Probabilities of the next words by the model `[T]`, and by the cache for each flatness `[F, T]`.

        The first word has an empty cache, and the model's probability for both.
        """

        def score(inputs, targets, states):
            hidden, states = self.model.hidden_states(inputs, states, training=False)
            return self.model.token_losses(hidden, targets)[0], ops.cast(hidden[0], "float32"), states

        compiled, states = compile_function(self.model, score), self.model.zero_states(1)
        keys, words = np.zeros((0, self.model.hidden_size), "float32"), np.zeros(0, "int32")
        for inputs, targets in read_windows(self.model, ids):
            nll, hidden, states = compiled(ops.convert_to_tensor(inputs), ops.convert_to_tensor(targets), states)
            of_model = np.exp(-ops.convert_to_numpy(nll).astype(np.float64))
            before = len(words)
            keys, words = np.concatenate([keys, ops.convert_to_numpy(hidden)]), np.concatenate([words, targets[0]])
            of_cache = np.array([cache_probabilities(keys, words, before, self.size, theta) for theta in flatness])
            if not before:
                of_cache[:, 0] = of_model[0]
            yield of_model, of_cache
            keys, words = keys[-self.size :], words[-self.size :]


def cache_probabilities(keys: np.ndarray, words: np.ndarray, start: int, size: int, flatness: float) -> np.ndarray:
    """Probability by the cache of each word from position `start` on; 0 for a word with nothing before it.

    Args:
        keys: Hidden states `[T, H]` before each word.
        words: Word ids `[T]`.
        start: The first position.
        size: Number of words before a position that its cache has.
        flatness: Factor of the products of hidden states.

    Returns:
        Floats `[T - start]`.
    """
    places = np.arange(len(words))
    distance = places[start:, None] - places
    cached = (distance > 0) & (distance <= size)
    scores = np.where(cached, flatness * (keys[start:] @ keys.T).astype(np.float64), -np.inf)
    highest = np.max(scores, axis=1, keepdims=True)
    shares = np.exp(scores - np.where(np.isfinite(highest), highest, 0))
    same = words[start:, None] == words
    return np.sum(shares * same, axis=1) / np.maximum(np.sum(shares, axis=1), 1e-300)
