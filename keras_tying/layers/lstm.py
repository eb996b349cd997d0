"""LSTM layer with a faster recurrence."""

import keras
from keras import ops

from keras_tying.backend import dispatch
from keras_tying.backend.keras_internals import LSTMLoop, replace_seed_generator
from keras_tying.backend.seeds import ReplicaSeedGenerator


@dispatch
def run_loop(layer, sequences, initial_state, mask, training, dropout):
    """Runs the recurrence of an LSTM layer: the loop of the stock layer.

    Args:
        layer: The `LSTM`.
        sequences: Inputs `[B, T, I]`.
        initial_state: Hidden and cell state `[B, H]`.
        mask: Optional booleans `[B, T]`.
        training: Boolean, whether dropout is active.
        dropout: Dropout masks of inputs and hidden states: a list of none, one or four each.

    Returns:
        The last output `[B, H]`, the outputs `[B, T, H]`, and the last hidden and cell state.
    """
    return LSTMLoop.run_loop(layer, sequences, initial_state, mask, training)


@keras.saving.register_keras_serializable("keras_tying")
class LSTM(LSTMLoop):
    """`keras.layers.LSTM`, faster to train on a CPU.

    Same arguments, same weights, same results: weights load from and into the stock layer. What
    differs is how TensorFlow runs it on a CPU. The input projection of all steps is one matrix
    product before the recurrence, whose gradient is written out: going back it computes the gates'
    gradients only, and the recurrent matrix's gradient is one product after it.

    Layers with other activations than `tanh` and `sigmoid` or with `unroll`, and runs on a GPU (where
    cuDNN serves unless there is recurrent dropout), take the path of the stock layer, as do the JAX
    and PyTorch backends.

    With gates `i, f, g, o` and `z_t = x_t W + h_{t-1} R + b` split in four::

        c_t = sigmoid(z_f) * c_{t-1} + sigmoid(z_i) * tanh(z_g)
        h_t = sigmoid(z_o) * tanh(c_t)

    With `dropout` and `recurrent_dropout`, a mask on `x_t` and one on `h_{t-1}` hold for all steps of
    a window. The stock layer draws one mask for each gate where there is recurrent dropout (Gal and
    Ghahramani); with `shared_dropout_masks` the gates share one, and with `drop_outputs` the output
    is `h_t` under that same mask, for the layer above (Inan et al.). The states returned are without it.

    Args:
        units: Integer `H`.
        shared_dropout_masks: Boolean, whether the four gates see the same masks. Defaults to `False`.
        drop_outputs: Boolean, whether outputs are dropped out as hidden states are in the recurrence;
            needs `shared_dropout_masks`. Defaults to `False`.
        **kwargs: The other arguments of `keras.layers.LSTM`.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> layer = kt.layers.LSTM(8, return_sequences=True, return_state=True)
    >>> sequence, hidden, cell = layer(np.zeros((2, 5, 3), "float32"))
    >>> tuple(sequence.shape), tuple(hidden.shape)
    ((2, 5, 8), (2, 8))

    References:
        Hochreiter and Schmidhuber, Long Short-Term Memory, 1997. Gal and Ghahramani, A Theoretically
        Grounded Application of Dropout in Recurrent Neural Networks, 2016. Inan, Khosravi and Socher,
        Tying Word Vectors and Word Classifiers, appendix A.
    """

    def __init__(self, units, *args, shared_dropout_masks=False, drop_outputs=False, **kwargs):
        super().__init__(units, *args, **kwargs)
        if drop_outputs and not shared_dropout_masks:
            raise ValueError(
                "`drop_outputs` needs the one mask of `shared_dropout_masks=True`. "
                f"Received: drop_outputs={drop_outputs}, shared_dropout_masks={shared_dropout_masks}"
            )
        self.shared_dropout_masks = shared_dropout_masks
        self.drop_outputs = drop_outputs
        replace_seed_generator(self.cell, ReplicaSeedGenerator)

    def run_loop(self, sequences, initial_state, mask, training):
        dropout = self._masks(sequences, initial_state[0]) if training else [[], []]
        last, outputs, states = run_loop(self, sequences, initial_state, mask, training, dropout)
        if self.drop_outputs and dropout[1]:
            kept = dropout[1][0]
            last, outputs = last * kept, outputs * ops.expand_dims(kept, 1)
        return last, outputs, states

    def _masks(self, sequences, hidden):
        """Dropout masks of this window, for inputs and hidden states: a list of none, one or four each."""
        drawn = self.cell.get_dropout_mask(sequences[:, 0]), self.cell.get_recurrent_dropout_mask(hidden)
        masks = [[] if mask is None else mask if isinstance(mask, list) else [mask] for mask in drawn]
        if self.shared_dropout_masks:
            for mask in masks:
                mask[:] = mask[:1] * len(mask)  # in the cell's own list: its path sees the same
            return [mask[:1] for mask in masks]
        return masks

    def get_config(self):
        return {
            **super().get_config(),
            "shared_dropout_masks": self.shared_dropout_masks,
            "drop_outputs": self.drop_outputs,
        }
