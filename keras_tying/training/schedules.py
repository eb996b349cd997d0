"""Learning rates by epoch."""

from itertools import pairwise


def decayed_rate(epoch: int, learning_rate: float, full_rate_epochs: int, decay: float) -> float:
    """Full rate for the first epochs, then a factor more for each further one.

    Args:
        epoch: Counted from 0.
        learning_rate: The full rate.
        full_rate_epochs: Epochs that have it.
        decay: The factor.

    Example:

    >>> [decayed_rate(epoch, 1.0, 4, 0.5) for epoch in (0, 3, 4, 5)]
    [1.0, 1.0, 0.5, 0.25]

    Reference:
        Zaremba, Sutskever and Vinyals, Recurrent Neural Network Regularization, section 4.1.
    """
    return learning_rate * decay ** max(epoch + 1 - full_rate_epochs, 0)


def halved_rate(perplexities: list[float], learning_rate: float) -> float:
    """Half the rate for each epoch that made the validation perplexity worse.

    Args:
        perplexities: Validation perplexities of the epochs so far.
        learning_rate: The full rate.

    Example:

    >>> halved_rate([90.0, 80.0, 81.0, 79.0], 0.3)
    0.15

    Reference:
        Zhang and Qi, Neural Network Joint Language Model, section 4.
    """
    return learning_rate * 0.5 ** sum(later > earlier for earlier, later in pairwise(perplexities))
