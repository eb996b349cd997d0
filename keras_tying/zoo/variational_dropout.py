"""Rates of dropout whose masks hold for a whole window."""

from dataclasses import dataclass


@dataclass(frozen=True)
class VariationalDropout:
    """Bayesian dropout of a recurrent language model: one mask per window and row, the same at every step.

    Two ways of sharing masks are published. By default (Gal and Ghahramani) inputs and hidden states
    have masks of their own, one per gate of an LSTM. With `shared` (Inan et al.) a layer's
    hidden state has one mask, under which it goes into the recurrence, into the layer above and into the
    output embedding; `inputs` and `outputs` then have no rates of their own.

    Args:
        words: Rate of embedded words: a word dropped in a row is dropped wherever the row has it.
        inputs: Rate of the inputs of each recurrent layer.
        hidden: Rate of hidden states in the recurrence.
        outputs: Rate of what the last layer hands on.
        shared: Boolean, whether each layer has one mask for its hidden state wherever it goes.

    Raises:
        ValueError: If a rate is outside [0, 1), or `shared` comes with rates it leaves no room for.

    Example:

    >>> import keras_tying as kt
    >>> dropout = kt.zoo.VariationalDropout(words=0.3, inputs=0.5, hidden=0.3, outputs=0.5)
    >>> model = kt.zoo.ptb_small(dropout=dropout)

    References:
        Gal and Ghahramani, A Theoretically Grounded Application of Dropout in Recurrent Neural Networks,
        2016. Inan, Khosravi and Socher, Tying Word Vectors and Word Classifiers, appendix A.
    """

    words: float = 0.0
    inputs: float = 0.0
    hidden: float = 0.0
    outputs: float = 0.0
    shared: bool = False

    def __post_init__(self):
        for name in ("words", "inputs", "hidden", "outputs"):
            rate = getattr(self, name)
            if not 0 <= rate < 1:
                raise ValueError(f"`{name}` must be in [0, 1). Received: {name}={rate}")
        if self.shared and (self.inputs or self.outputs):
            raise ValueError(
                "With `shared` the mask of `hidden` is that of inputs and outputs too. Leave those at 0. "
                f"Received: inputs={self.inputs}, outputs={self.outputs}"
            )


def as_dropout(dropout):
    """A rate, or variational dropout; recipes write the latter as a dictionary."""
    if isinstance(dropout, dict):
        return VariationalDropout(**dropout)
    if not isinstance(dropout, VariationalDropout) and not 0 <= dropout < 1:
        raise ValueError(f"`dropout` must be in [0, 1). Received: dropout={dropout}")
    return dropout
