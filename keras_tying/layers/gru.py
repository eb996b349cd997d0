"""Gated recurrent units with one bias."""

import keras
from keras import initializers, ops

from keras_tying.backend import dispatch
from keras_tying.checks import check_integer, check_steps


@keras.saving.register_keras_serializable("keras_tying")
class OneBiasGRU(keras.layers.Layer):
    """Gated recurrent units with one bias, the reset gate applied after the recurrent product.

    With `x_t` the input and `h` the state::

        u_t = sigmoid(x_t W_u + h_{t-1} U_u + b_u)
        r_t = sigmoid(x_t W_r + h_{t-1} U_r + b_r)
        n_t = tanh(x_t W_n + b_n + r_t * (h_{t-1} U_n))
        h_t = u_t * h_{t-1} + (1 - u_t) * n_t

    `keras.layers.GRU(reset_after=True)` has a second bias, `3H` parameters that the published models do not have. This
    layer starts from a zero state and always returns the states of all steps, in the order of the inputs.
    The input products of all steps are computed at once, before the recurrence. On TensorFlow the gradient of
    the recurrence is written out, and the gradient of the recurrent matrix is one product for all steps.

    Args:
        units: Integer `H`.
        go_backwards: Boolean, whether the steps are processed in reverse order. Defaults to `False`.
        **kwargs: Base layer arguments, such as `name` and `dtype`.

    Call arguments:
        inputs: Floats `[B, T, I]`.
        mask: Optional booleans `[B, T]`. The state does not change at steps that are `False`.

    Output shape:
        The state after each step, in the order of the inputs, `[B, T, H]`.

    Raises:
        ValueError: If `units` is not a positive integer; when called, if the inputs have no steps.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> layer = kt.layers.OneBiasGRU(8, go_backwards=True)
    >>> tuple(layer(np.zeros((2, 5, 3), "float32")).shape)
    (2, 5, 8)

    Reference:
        Cho et al., Learning Phrase Representations using RNN Encoder-Decoder, 2014; for the reset gate, the
        program used by Press and Wolf, Using the Output Embedding to Improve Language Models, section 4.3.
    """

    def __init__(self, units, *, go_backwards=False, **kwargs):
        super().__init__(**kwargs)
        check_integer("units", units)
        self.units = units
        self.go_backwards = go_backwards
        self.supports_masking = True

    def build(self, input_shape):
        width = 3 * self.units
        self.kernel = self.add_weight((input_shape[-1], width), "glorot_uniform", name="kernel")
        self.recurrent_kernel = self.add_weight((self.units, width), OrthogonalGates(), name="recurrent_kernel")
        self.bias = self.add_weight((width,), "zeros", name="bias")

    def call(self, inputs, mask=None):
        check_steps("inputs", inputs)
        projected = ops.matmul(inputs, self.kernel) + self.bias
        return gru_sequence(projected, ops.cast(self.recurrent_kernel, projected.dtype), mask, self.go_backwards)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def get_config(self):
        return {**super().get_config(), "units": self.units, "go_backwards": self.go_backwards}


@keras.saving.register_keras_serializable("keras_tying")
class OrthogonalGates(initializers.Initializer):
    """Initializer of a recurrent matrix `[H, k * H]`: `k` square blocks, each orthogonal."""

    def __call__(self, shape, dtype=None):
        rows, columns = shape
        return ops.concatenate(
            [initializers.Orthogonal()((rows, rows), dtype=dtype) for _ in range(columns // rows)], axis=-1
        )

    def get_config(self):
        return {}


def gru_step(inputs, recurrent, state):
    """The state after a step, `[..., H]`.

    Args:
        inputs: The input's part of gates and candidate, `[..., 3H]`.
        recurrent: The state's part of them, `[..., 3H]`.
        state: The previous state, `[..., H]`.
    """
    update_in, reset_in, candidate_in = ops.split(inputs, 3, axis=-1)
    update_state, reset_state, candidate_state = ops.split(recurrent, 3, axis=-1)
    update = ops.sigmoid(update_in + update_state)
    reset = ops.sigmoid(reset_in + reset_state)
    candidate = ops.tanh(candidate_in + reset * candidate_state)
    return candidate + update * (state - candidate)


@dispatch
def gru_sequence(projected, recurrent_kernel, mask=None, reverse=False):
    """States `[B, T, H]` from `projected` `[B, T, 3H]`, the input's part of gates and candidate."""

    def step(state, inputs):
        projected, live = inputs
        new_state = gru_step(projected, ops.matmul(state, recurrent_kernel), state)
        state = ops.where(live, new_state, state)
        return state, state

    batch, steps = ops.shape(projected)[0], ops.shape(projected)[1]
    live = ops.ones((batch, steps), "bool") if mask is None else ops.cast(mask, "bool")
    sequences = ops.swapaxes(projected, 0, 1), ops.expand_dims(ops.swapaxes(live, 0, 1), -1)
    start = ops.zeros((batch, recurrent_kernel.shape[0]), projected.dtype)
    _, states = ops.scan(step, start, sequences, reverse=reverse)
    return ops.swapaxes(states, 0, 1)
