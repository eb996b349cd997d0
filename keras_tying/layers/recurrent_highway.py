"""Recurrent highway layer."""

import keras
from keras import initializers, ops

from keras_tying.backend import dispatch
from keras_tying.backend.replicas import ReplicaSeedGenerator
from keras_tying.checks import check_integer, check_number, check_rate, check_steps
from keras_tying.layers.dropout import dropout
from keras_tying.layers.initial_weights import another


@keras.saving.register_keras_serializable("keras_tying")
class RecurrentHighway(keras.layers.Layer):
    """Recurrent highway layer: within each time step the state passes through `depth` highway layers.

    With input `x_t`, the last state `s_0` of the previous time step, micro-steps `l = 1 ... depth` and the
    carry gate coupled to the transform gate (`1 - t_l`)::

        h_l = tanh(x_t W_H [l = 1] + s_{l-1} R_H^l + b_H^l)
        t_l = sigmoid(x_t W_T [l = 1] + s_{l-1} R_T^l + b_T^l)
        s_l = s_{l-1} + t_l * (h_l - s_{l-1})

    The last `s_l` is the output of the time step. The input products of all time steps are computed at once,
    before the recurrence. On TensorFlow the gradient of the recurrence is written out.

    Args:
        units: Integer `H`.
        depth: Integer, highway layers within a time step. Defaults to 10.
        dropout: Float in [0, 1), for the inputs, with one mask per row for all steps. Defaults to 0.
        recurrent_dropout: Float in [0, 1), for the states that are multiplied with `R`, with one mask per row for
            all steps and micro-steps. Defaults to 0.
        transform_bias: Float, initial value of `b_T`. With a negative value, states are mostly carried at first.
            Defaults to -2.
        kernel_initializer: Initializer of `W` `[I, 2H]`. Defaults to `"glorot_uniform"`.
        recurrent_initializer: Initializer of each `R^l` `[H, 2H]`. Defaults to `"glorot_uniform"`.
        bias_initializer: Initializer of the biases `b_H`. Defaults to `"zeros"`.
        return_sequences: Boolean, whether to return the state after every step. Defaults to `False`.
        return_state: Boolean, whether to return the last state as well. Defaults to `False`.
        seed: Optional integer for the dropout masks.
        **kwargs: Base layer arguments, such as `name`.

    Call arguments:
        sequences: Floats `[B, T, I]`.
        initial_state: Optional state `[B, H]`, or a list of it. Default: zeros.
        training: Boolean, whether dropout is active.

    Output shape:
        `[B, T, H]` with `return_sequences`, else `[B, H]`; with `return_state` also `[B, H]`.

    Raises:
        ValueError: If an argument is outside its range.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> layer = kt.layers.RecurrentHighway(8, depth=3, return_sequences=True, return_state=True)
    >>> sequence, state = layer(np.ones((2, 5, 4), "float32"))
    >>> tuple(sequence.shape), tuple(state.shape)
    ((2, 5, 8), (2, 8))

    Reference:
        Zilly, Srivastava, Koutnik and Schmidhuber, Recurrent Highway Networks, equations 6 to 9.
    """

    def __init__(
        self,
        units,
        *,
        depth=10,
        dropout=0.0,
        recurrent_dropout=0.0,
        transform_bias=-2.0,
        kernel_initializer="glorot_uniform",
        recurrent_initializer="glorot_uniform",
        bias_initializer="zeros",
        return_sequences=False,
        return_state=False,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_integer("units", units)
        check_integer("depth", depth)
        check_rate("dropout", dropout)
        check_rate("recurrent_dropout", recurrent_dropout)
        check_number("transform_bias", transform_bias)
        self.units = units
        self.depth = depth
        self.dropout = dropout
        self.recurrent_dropout = recurrent_dropout
        self.transform_bias = transform_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.recurrent_initializer = initializers.get(recurrent_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.return_sequences = return_sequences
        self.return_state = return_state
        self.seed = seed
        self.state_size = [units]
        self.seed_generator = ReplicaSeedGenerator(seed) if dropout or recurrent_dropout else None

    def build(self, sequences_shape, initial_state_shape=None):
        gates = 2 * self.units
        self.kernel = self.add_weight(
            shape=(sequences_shape[-1], gates), initializer=self.kernel_initializer, name="kernel"
        )
        self.recurrent_kernel = self.add_weight(
            shape=(self.depth, self.units, gates), initializer=self._initial_recurrent_kernel, name="recurrent_kernel"
        )
        self.bias = self.add_weight(shape=(self.depth, gates), initializer=self._initial_bias, name="bias")
        self.built = True

    def _initial_recurrent_kernel(self, shape, dtype=None):
        """One matrix per micro-step, each initialized for its own shape `[H, 2H]`."""
        return ops.stack(
            [another(self.recurrent_initializer, step)(shape[1:], dtype=dtype) for step in range(shape[0])]
        )

    def _initial_bias(self, shape, dtype=None):
        plain = self.bias_initializer((self.depth, self.units), dtype=dtype)
        return ops.concatenate([plain, ops.full_like(plain, self.transform_bias)], axis=1)

    def call(self, sequences, initial_state=None, training=None):
        check_steps("sequences", sequences)
        state = initial_state[0] if isinstance(initial_state, (list, tuple)) else initial_state
        if state is None:
            state = ops.zeros((ops.shape(sequences)[0], self.units), self.compute_dtype)
        kept = None
        if training and self.dropout:
            sequences = sequences * ops.expand_dims(self._mask(sequences[:, 0], self.dropout), 1)
        if training and self.recurrent_dropout:
            kept = self._mask(state, self.recurrent_dropout)
        kernel, kernels, biases = (
            ops.cast(w, self.compute_dtype) for w in (self.kernel, self.recurrent_kernel, self.bias)
        )
        states = highway_sequence(ops.matmul(sequences, kernel), state, kernels, biases, kept)
        outputs = states if self.return_sequences else states[:, -1]
        return (outputs, states[:, -1]) if self.return_state else outputs

    def _mask(self, like, rate):
        return dropout(ops.ones_like(like), rate, seed=self.seed_generator)

    def compute_output_shape(self, sequences_shape, initial_state_shape=None):
        batch, steps, _ = sequences_shape
        outputs = (batch, steps, self.units) if self.return_sequences else (batch, self.units)
        return (outputs, (batch, self.units)) if self.return_state else outputs

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "depth": self.depth,
            "dropout": self.dropout,
            "recurrent_dropout": self.recurrent_dropout,
            "transform_bias": self.transform_bias,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": initializers.serialize(self.recurrent_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
            "return_sequences": self.return_sequences,
            "return_state": self.return_state,
            "seed": self.seed,
        }


@dispatch
def highway_sequence(projected, state, kernels, biases, kept=None):
    """States after each step, by a scan over time.

    Args:
        projected: The input's part of the gates of the first micro-step `[B, T, 2H]`.
        state: State before the first step `[B, H]`.
        kernels: Recurrent kernels `[depth, H, 2H]`.
        biases: Biases `[depth, 2H]`.
        kept: Optional dropout mask `[B, H]` of the states that are multiplied with the recurrent kernels.

    Returns:
        Tensor `[B, T, H]`.
    """

    def step(state, projected):
        for layer in range(kernels.shape[0]):
            seen = state if kept is None else state * kept
            gates = ops.matmul(seen, kernels[layer]) + biases[layer]
            if layer == 0:
                gates = gates + projected
            proposal, transform = ops.split(gates, 2, axis=-1)
            state = state + ops.sigmoid(transform) * (ops.tanh(proposal) - state)
        return state, state

    _, states = ops.scan(step, state, ops.swapaxes(projected, 0, 1))
    return ops.swapaxes(states, 0, 1)
