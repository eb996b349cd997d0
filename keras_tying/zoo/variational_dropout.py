"""Dropout rates for masks that are the same for all steps of a window."""

from dataclasses import dataclass

from keras_tying.checks import check_rate

ONE_MASK_PER_WINDOW = (None, 1, None)
"""Shape of the noise of a `Dropout` layer `[B, T, H]` with the same mask at all steps."""


@dataclass(frozen=True)
class VariationalDropout:
    """Variational dropout of a recurrent language model: one mask per window and row, the same at every step.

    There are two published versions. By default (Gal and Ghahramani) inputs and hidden states have separate masks, one
    per gate of an LSTM. With `shared` (Inan et al.) the hidden state of a layer has one mask for the recurrence, the
    next layer and the output embedding; `outputs` must be 0.

    Args:
        words: Rate of embedded words: a word dropped in a row is dropped at all its positions in that row.
        inputs: Rate of the inputs of each recurrent layer; with `shared`, of the embedded words before the first one.
        hidden: Rate of hidden states in the recurrence.
        outputs: Rate of the outputs of the last layer.
        shared: Boolean, whether each layer has one mask for all uses of its hidden state.

    Raises:
        ValueError: If a rate is outside [0, 1), or `shared` is combined with `outputs`.

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
            check_rate(name, getattr(self, name))
        if self.shared and self.outputs:
            raise ValueError(
                "With `shared`, `outputs` must be 0: the mask of `hidden` is used for them. "
                f"Received: outputs={self.outputs}"
            )


def as_dropout(dropout):
    """`dropout` as a checked rate or a `VariationalDropout`. In a recipe the latter is a dictionary."""
    if isinstance(dropout, dict):
        return VariationalDropout(**dropout)
    if not isinstance(dropout, VariationalDropout):
        check_rate("dropout", dropout)
    return dropout
