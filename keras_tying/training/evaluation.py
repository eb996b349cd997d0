"""Perplexity over a whole text, read once from start to end."""

import numpy as np
from keras import ops


def stream_perplexity(model, ids: np.ndarray, batch_size: int = 1, steps: int = 500) -> float:
    """Exact perplexity of a text under a language model, the recurrent state carried all the way.

    With one row every token but the first is predicted, once. With more rows the text is cut into that
    many contiguous pieces, which is faster and leaves out the first token of each and the few tokens
    that do not divide evenly.

    Args:
        model: A `LanguageModel`, or what has its `token_log_probabilities`.
        ids: Word ids `[N]`.
        batch_size: Rows.
        steps: Tokens a call; it bounds memory and does not change the result.

    Returns:
        `exp` of the mean negative log-likelihood.

    Raises:
        ValueError: If the text is too short to predict anything, or an id is outside the vocabulary.
    """
    ids = np.asarray(ids, np.int32)
    length = len(ids) // batch_size
    if length < 2:
        raise ValueError(
            f"A text needs at least {2 * batch_size} tokens for {batch_size} rows. Received: {len(ids)} tokens."
        )
    rows = ids[: length * batch_size].reshape(batch_size, length)
    total, states = 0.0, None
    for start in range(0, length - 1, steps):
        inputs = rows[:, start : min(start + steps, length - 1)]
        targets = rows[:, start + 1 : start + 1 + inputs.shape[1]]
        log_probabilities, states = model.token_log_probabilities(inputs, targets, states)
        total -= float(np.sum(ops.convert_to_numpy(log_probabilities), dtype=np.float64))
    with np.errstate(over="ignore"):  # a model that has diverged has infinite perplexity
        return float(np.exp(total / (batch_size * (length - 1))))
