"""Perplexity over a whole text, read once from start to end."""

from collections.abc import Iterator

import numpy as np
from keras import ops

from keras_tying.data import PreparedText
from keras_tying.data.batching import rows_of


def stream_perplexity(model, ids: np.ndarray | PreparedText, batch_size: int = 1, steps: int = 500) -> float:
    """Exact perplexity of a text under a language model, the recurrent state carried all the way.

    With one row every token but the first is predicted, once. With more rows the text is cut into that
    many contiguous pieces, which is faster and leaves out the first token of each and the few tokens
    that do not divide evenly.

    Args:
        model: A `LanguageModel`, or what has its `token_log_probabilities`.
        ids: Word ids `[N]`, in memory or on disk.
        batch_size: Rows.
        steps: Tokens a call; it bounds memory and does not change the result.

    Returns:
        `exp` of the mean negative log-likelihood.

    Raises:
        ValueError: If the text is too short to predict anything, or an id is outside the vocabulary.
    """
    total, count = 0.0, 0
    for log_probabilities in _stream(model, ids, batch_size, steps):
        total -= float(np.sum(log_probabilities, dtype=np.float64))
        count += log_probabilities.size
    return _perplexity(total / count)


def mc_perplexity(model, ids: np.ndarray | PreparedText, passes: int, batch_size: int = 1, steps: int = 35) -> float:
    """Perplexity under the mean of the probabilities of several passes with dropout (Monte Carlo dropout).

    Args:
        model: A `LanguageModel` with dropout.
        ids: Word ids `[N]`, in memory or on disk.
        passes: How often the text is read.
        batch_size: Rows, as of `stream_perplexity`.
        steps: Tokens a call, for each of which a `VariationalDropout` draws new masks: the window in training.

    Raises:
        ValueError: As `stream_perplexity`; or if `passes` is not positive.

    Reference:
        Gal and Ghahramani, A Theoretically Grounded Application of Dropout in Recurrent Neural Networks, section 5.1.
    """
    if passes < 1:
        raise ValueError(f"`passes` must be at least 1. Received: passes={passes}")
    summed = np.array(-np.inf)  # log of the sum of the probabilities of each token
    for _ in range(passes):
        parts = _stream(model, ids, batch_size, steps, stochastic=True)
        log_probabilities = np.concatenate([part.astype(np.float64) for part in parts], axis=1)
        summed = np.logaddexp(summed, log_probabilities)
    return _perplexity(np.log(passes) - float(np.mean(summed)))


def _stream(model, ids, batch_size, steps, **options) -> Iterator[np.ndarray]:
    """Log-probabilities `[batch_size, steps]` of a text read from start to end."""
    length = len(ids) // batch_size
    if length < 2:
        raise ValueError(
            f"A text needs at least {2 * batch_size} tokens for {batch_size} rows. Received: {len(ids)} tokens."
        )
    states = None
    for start in range(0, length - 1, steps):
        rows = rows_of(ids, batch_size, start, min(start + steps + 1, length))
        log_probabilities, states = model.token_log_probabilities(rows[:, :-1], rows[:, 1:], states, **options)
        yield ops.convert_to_numpy(log_probabilities)


def _perplexity(mean: float) -> float:
    with np.errstate(over="ignore"):  # a model that has diverged has infinite perplexity
        return float(np.exp(mean))
