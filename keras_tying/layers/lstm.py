"""The LSTM layer of Keras with a faster loop."""

import keras


@keras.saving.register_keras_serializable("keras_tying")
class LSTM(keras.layers.LSTM):
    """`keras.layers.LSTM`, several times faster to train on a CPU.

    Same arguments, same weights, same results: weights load from and into the stock layer. What
    differs is how TensorFlow runs it on a CPU. The input projection of all steps is one matrix
    product before the loop; the loop's gradient is written out, so going back it computes the gates'
    gradients only, and the recurrent matrix's gradient is one product after it.

    Layers with other activations than `tanh` and `sigmoid`, a mask, `unroll` or recurrent dropout, and
    runs on a GPU (where cuDNN serves) take the path of the stock layer, as do the JAX and PyTorch
    backends.

    With gates `i, f, g, o` and `z_t = x_t W + h_{t-1} R + b` split in four::

        c_t = sigmoid(z_f) * c_{t-1} + sigmoid(z_i) * tanh(z_g)
        h_t = sigmoid(z_o) * tanh(c_t)

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> layer = kt.layers.LSTM(8, return_sequences=True, return_state=True)
    >>> sequence, hidden, cell = layer(np.zeros((2, 5, 3), "float32"))
    >>> tuple(sequence.shape), tuple(hidden.shape)
    ((2, 5, 8), (2, 8))

    Reference:
        Hochreiter and Schmidhuber, Long Short-Term Memory, 1997.
    """

    def inner_loop(self, sequences, initial_state, mask, training=False):
        fast_path = _fast_path()
        if fast_path is None or not fast_path.applies(self, mask):
            return super().inner_loop(sequences, initial_state, mask, training=training)
        if training and self.dropout:
            sequences = sequences * self.cell.get_dropout_mask(sequences[:, 0])[:, None]
        outputs, hidden, cell = fast_path.lstm_sequence(
            sequences,
            *initial_state,
            self.cell.kernel,
            self.cell.recurrent_kernel,
            self.cell.bias if self.use_bias else None,
            self.go_backwards,
        )
        return hidden, outputs, [hidden, cell]


def _fast_path():
    """The module with the faster loop, or `None` on backends that compile the loop themselves."""
    if keras.backend.backend() != "tensorflow":
        return None
    from keras_tying.layers import lstm_tensorflow

    return lstm_tensorflow
