"""LSTM layer with a faster recurrence."""

import keras
from keras import ops

from keras_tying.backend import dispatch
from keras_tying.backend.keras_internals import LSTMLoop, replace_seed_generator
from keras_tying.backend.replicas import ReplicaSeedGenerator
from keras_tying.checks import check_steps


@dispatch
def run_loop(layer, sequences, initial_state, mask, training, dropout):
    """Runs the recurrence of an LSTM layer with the loop of Keras.

    Args:
        layer: The `LSTM`.
        sequences: Inputs `[B, T, I]`.
        initial_state: Hidden and cell state `[B, H]`.
        mask: Optional booleans `[B, T]`.
        training: Boolean, whether dropout is active.
        dropout: Dropout masks: a list for inputs and a list for hidden states, of zero, one or four masks.

    Returns:
        The last output `[B, H]`, the outputs `[B, T, H]`, and the last hidden and cell state.
    """
    return LSTMLoop.run_loop(layer, sequences, initial_state, mask, training)


@keras.saving.register_keras_serializable("keras_tying")
class LSTM(LSTMLoop):
    """`keras.layers.LSTM`, faster to train on a CPU.

    The layer has the arguments, weights and results of the Keras layer, and weights can be copied between the
    two. On TensorFlow and a CPU the recurrence is faster. The input products of all steps are computed at once,
    before the recurrence. The gradient is written out: the backward loop computes the gradients of the gates,
    and the gradient of the recurrent matrix is one product after the loop.

    The loop of Keras runs on the JAX and PyTorch backends, on a GPU (cuDNN, unless there is recurrent dropout),
    with `unroll`, and with other activations than `tanh` and `sigmoid`.

    With gates `i, f, g, o` and `z_t = x_t W + h_{t-1} R + b` split in four::

        c_t = sigmoid(z_f) * c_{t-1} + sigmoid(z_i) * tanh(z_g)
        h_t = sigmoid(z_o) * tanh(c_t)

    The masks of `dropout` (on `x_t`) and `recurrent_dropout` (on `h_{t-1}`) are the same for all steps of a window.
    With recurrent dropout, Keras draws one mask per gate (Gal and Ghahramani). With `shared_dropout_masks` the
    gates share one mask, and with `drop_outputs` the output is `h_t` times that mask (Inan et al.). The returned
    states are not masked.

    Args:
        units: Integer `H`.
        shared_dropout_masks: Boolean, whether the four gates use the same masks. Defaults to `False`.
        drop_outputs: Boolean, whether the outputs are multiplied by the recurrent mask; needs
            `shared_dropout_masks`. Defaults to `False`.
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
                "`drop_outputs=True` needs `shared_dropout_masks=True`. "
                f"Received: drop_outputs={drop_outputs}, shared_dropout_masks={shared_dropout_masks}"
            )
        self.shared_dropout_masks = shared_dropout_masks
        self.drop_outputs = drop_outputs
        replace_seed_generator(self.cell, ReplicaSeedGenerator)

    def call(self, sequences, initial_state=None, mask=None, training=False):
        check_steps("sequences", sequences)
        return super().call(sequences, initial_state, mask, training)

    def run_loop(self, sequences, initial_state, mask, training):
        dropout = self._masks(sequences, initial_state[0]) if training else [[], []]
        last, outputs, states = run_loop(self, sequences, initial_state, mask, training, dropout)
        if self.drop_outputs and dropout[1]:
            kept = dropout[1][0]
            last, outputs = last * kept, outputs * ops.expand_dims(kept, 1)
        return last, outputs, states

    def _masks(self, sequences, hidden):
        """Dropout masks of a window: a list for inputs and a list for hidden states, of zero, one or four masks."""
        drawn = self.cell.get_dropout_mask(sequences[:, 0]), self.cell.get_recurrent_dropout_mask(hidden)
        masks = [[] if mask is None else mask if isinstance(mask, list) else [mask] for mask in drawn]
        if self.shared_dropout_masks:
            for mask in masks:
                mask[:] = mask[:1] * len(mask)  # in place: the loop of Keras reads the cell's own list
            return [mask[:1] for mask in masks]
        return masks

    def get_config(self):
        return {
            **super().get_config(),
            "shared_dropout_masks": self.shared_dropout_masks,
            "drop_outputs": self.drop_outputs,
        }
