"""LSTM layer in which input and hidden state gate each other before each step."""

import keras
from keras import ops

from keras_tying.checks import check_integer
from keras_tying.layers.initial_weights import another
from keras_tying.layers.lstm import LSTM, product


@keras.saving.register_keras_serializable("keras_tying")
class MogrifierLSTM(LSTM):
    """`LSTM` in which input and hidden state gate each other before each step.

    Starting from `x_0 = x_t` and `h_0 = h_{t-1}`, odd rounds gate the input and even rounds the hidden state::

        x_r = 2 sigmoid(h Q_r + a_r) * x      for odd r
        h_r = 2 sigmoid(x Q_r + a_r) * h      for even r

    where `x` and `h` on the right are the newest ones. The last `x` and `h` are the inputs of the step of an LSTM. With
    `rank=k`, each `Q_r` is the product of two matrices `[., k]` and `[k, .]`. The biases `a_r` are in the authors' code
    and not in the paper.

    The dropout masks of inputs and hidden states are applied before the first round, one mask for all gates. The
    gradient of each matrix is one product after the loop on JAX, and on TensorFlow for windows of a known length up to
    64.

    Args:
        units: Integer `H`.
        rounds: Integer, rounds of gating. With 0 the layer is an `LSTM`. Defaults to 5.
        rank: Optional integer, the rank of the matrices `Q_r`. Default: full matrices.
        **kwargs: The other arguments of `LSTM`, except `shared_dropout_masks`. The matrices `Q_r` have the
            `kernel_initializer`.

    Call arguments and output shape are those of `LSTM`: from `[B, T, I]` to `[B, T, H]` with `return_sequences`.

    Raises:
        ValueError: If `rounds` is not an integer of at least 0, `rank` is not a positive integer, or
            `shared_dropout_masks` is given; else as for `LSTM`.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> layer = kt.layers.MogrifierLSTM(8, rounds=2, return_sequences=True)
    >>> tuple(layer(np.zeros((2, 5, 3), "float32")).shape)
    (2, 5, 8)

    Reference:
        Melis, Kocisky and Blunsom, Mogrifier LSTM, 2020, section 2.
    """

    def __init__(self, units, *args, rounds=5, rank=None, **kwargs):
        if "shared_dropout_masks" in kwargs:
            raise ValueError(
                "A MogrifierLSTM always shares its dropout masks, so `shared_dropout_masks` is not an argument. "
                f"Received: shared_dropout_masks={kwargs['shared_dropout_masks']}"
            )
        super().__init__(units, *args, shared_dropout_masks=True, **kwargs)
        check_integer("rounds", rounds, least=0)
        if rank is not None:
            check_integer("rank", rank)
        self.rounds = rounds
        self.rank = rank

    def build(self, sequences_shape, initial_state_shape=None):
        super().build(sequences_shape)
        features = sequences_shape[-1]
        self.round_weights = [
            self._round(r, *((self.units, features) if r % 2 == 0 else (features, self.units)))
            for r in range(self.rounds)
        ]

    def _round(self, number, inputs, outputs):
        """The matrix, or its two factors, and the bias of a round."""
        shapes = [(inputs, outputs)] if self.rank is None else [(inputs, self.rank), (self.rank, outputs)]
        matrices = [
            self.add_weight(
                shape=shape,
                initializer=another(self.kernel_initializer, len(self.weights)),
                name=f"round_{number}_matrix_{i}",
            )
            for i, shape in enumerate(shapes)
        ]
        return *matrices, self.add_weight(shape=(outputs,), initializer="zeros", name=f"round_{number}_bias")

    def recurrence_weights(self, masks):
        """Those of `LSTM`, and then the matrices and the bias of each round."""
        return *super().recurrence_weights(masks), *(weight for weights in self.round_weights for weight in weights)

    def prepare(self, sequences, weights, masks):
        """The dropped inputs `[T, B, I]`: their part of the gates depends on the hidden state."""
        return sequences * masks.inputs[0] if masks.inputs else sequences

    def gates(self, prepared, hidden, weights, masks, product=product):
        """As in `LSTM`, from a step of dropped inputs."""
        kernel, recurrent_kernel, bias, *round_weights = weights
        hidden = hidden * masks.hidden[0] if masks.hidden else hidden
        inputs, hidden = self._mogrify(prepared, hidden, round_weights, product)
        gates = product(inputs, kernel) + product(hidden, recurrent_kernel)
        return gates if bias is None else gates + bias

    def _mogrify(self, inputs, hidden, weights, product):
        """Inputs `[B, I]` and hidden states `[B, H]` after all rounds."""
        count = 2 if self.rank is None else 3
        for r in range(self.rounds):
            *matrices, bias = weights[r * count : (r + 1) * count]
            gate = hidden if r % 2 == 0 else inputs
            for matrix in matrices:
                gate = product(gate, matrix)
            gate = 2 * ops.sigmoid(gate + bias)
            if r % 2 == 0:
                inputs = gate * inputs
            else:
                hidden = gate * hidden
        return inputs, hidden

    def get_config(self):
        config = {**super().get_config(), "rounds": self.rounds, "rank": self.rank}
        del config["shared_dropout_masks"]
        return config
