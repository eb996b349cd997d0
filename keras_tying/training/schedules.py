"""Learning rates by epoch."""


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
