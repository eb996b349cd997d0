"""The decoder of attention-based translation: two recurrent steps with attention between them."""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_tying.backend import dispatch
from keras_tying.layers.additive_attention import AdditiveAttention, attention_weights
from keras_tying.layers.gru import OrthogonalGates, gru_step


class Memory(NamedTuple):
    """What the decoder needs of source sentences at every step, computed once.

    Attributes:
        annotations: `[B, S, C]`.
        keys: What they bring to the attention's comparisons, `[B, S, A]`.
        projected: What they bring to the gates of the second step, `[B, S, 3H]`.
        mask: Which of them are words, booleans `[B, S]`.
    """

    annotations: Any
    keys: Any
    projected: Any
    mask: Any


class RecurrentWeights(NamedTuple):
    """The matrices of the recurrence: of the first step, the attention and the second step."""

    recurrent_kernel: Any
    query_kernel: Any
    score_vector: Any
    second_recurrent_kernel: Any
    second_bias: Any


@keras.saving.register_keras_serializable("keras_tying")
class ConditionalGRU(keras.layers.Layer):
    """Conditional GRU: a step on the word before, attention, and a step on what was attended to.

    With the previous target word's vector `y` and the state `s` before::

        m = GRU_1(y, s)
        c, a = attention(m, annotations)
        s' = GRU_2(c, m)

    Both steps are those of `GRU`; the bias of the second stands with its recurrent product. The
    products with `y` are one for all steps; the annotations meet the kernels of attention and second
    step once a sentence, and the weights `a` mix the results.

    Args:
        units: Integer `H`.
        attention_units: Integer, size of the attention network. Default: the width of the annotations.
        **kwargs: Base layer arguments, such as `name` and `dtype`.

    Call arguments:
        inputs: Vectors of the previous target words, `[B, T, E]`.
        memory: What `memory(annotations, mask)` gave.
        state: The state before the first step, `[B, H]`.

    Output shape:
        States `[B, T, H]`, contexts `[B, T, C]` and attention weights `[B, T, S]`.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> decoder = kt.layers.ConditionalGRU(8)
    >>> decoder.build((None, None, 4), (None, None, 6))
    >>> memory = decoder.memory(np.ones((2, 5, 6), "float32"), np.ones((2, 5), bool))
    >>> words, state = np.ones((2, 3, 4), "float32"), np.zeros((2, 8), "float32")
    >>> [tuple(output.shape) for output in decoder(words, memory, state)]
    [(2, 3, 8), (2, 3, 6), (2, 3, 5)]

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, section 4.3, whose models
        are those of the dl4mt tutorial.
    """

    def __init__(self, units, attention_units=None, **kwargs):
        super().__init__(**kwargs)
        if units < 1:
            raise ValueError(f"`units` must be at least 1. Received: units={units}")
        self.units = units
        self.attention_units = attention_units
        self.attention: Any = None

    def build(self, inputs_shape, annotations_shape):
        width, context = 3 * self.units, annotations_shape[-1]

        def kernel(rows, initializer, name):
            return self.add_weight((rows, width), initializer, name=name)

        self.kernel = kernel(inputs_shape[-1], "glorot_uniform", "kernel")
        self.recurrent_kernel = kernel(self.units, OrthogonalGates(), "recurrent_kernel")
        self.bias = self.add_weight((width,), "zeros", name="bias")
        self.second_kernel = kernel(context, "glorot_uniform", "second_kernel")
        self.second_recurrent_kernel = kernel(self.units, OrthogonalGates(), "second_recurrent_kernel")
        self.second_bias = self.add_weight((width,), "zeros", name="second_bias")
        self.attention = AdditiveAttention(self.attention_units or context, dtype=self.dtype_policy, name="attention")
        self.attention.build((None, self.units), annotations_shape)
        self.built = True

    def memory(self, annotations, mask):
        """The `Memory` of annotations `[B, S, C]`, of which those count whose `mask` `[B, S]` is `True`."""
        annotations = ops.convert_to_tensor(annotations, self.compute_dtype)
        projected = ops.matmul(annotations, ops.cast(self.second_kernel, annotations.dtype))
        return Memory(annotations, self.attention.keys(annotations), projected, ops.convert_to_tensor(mask))

    def call(self, inputs, memory, state):
        states, weights = conditional_gru_sequence(self._project(inputs), state, memory, self._recurrent_weights())
        return states, ops.matmul(weights, memory.annotations), weights

    def step(self, inputs, memory, state):
        """One step for `N` hypotheses of each sentence.

        Args:
            inputs: Vectors of the previous target words, `[B, N, E]`.
            memory: The sentences' `Memory`.
            state: The states before, `[B, N, H]`.

        Returns:
            States `[B, N, H]`, contexts `[B, N, C]` and attention weights `[B, N, S]`.
        """
        state, weights = conditional_gru_step(self._project(inputs), state, memory, self._recurrent_weights())
        return state, ops.matmul(weights, memory.annotations), weights

    def _project(self, inputs):
        """What words bring to the gates of the first step, `[..., 3H]`."""
        kernel, bias = (ops.cast(weight, inputs.dtype) for weight in (self.kernel, self.bias))
        return ops.matmul(inputs, kernel) + bias

    def _recurrent_weights(self):
        weights = (
            self.recurrent_kernel,
            self.attention.query_kernel,
            self.attention.score_vector,
            self.second_recurrent_kernel,
            self.second_bias,
        )
        return RecurrentWeights(*(ops.cast(weight, self.compute_dtype) for weight in weights))

    def compute_output_spec(self, inputs, memory, state):
        rows, steps, _ = inputs.shape
        _, words, width = memory.annotations.shape
        return tuple(
            keras.KerasTensor((rows, steps, size), dtype=self.compute_dtype) for size in (self.units, width, words)
        )

    def get_config(self):
        return {**super().get_config(), "units": self.units, "attention_units": self.attention_units}


def conditional_gru_step(projected, state, memory, weights):
    """One step, for one hypothesis a sentence or for `N`.

    Args:
        projected: The previous words' part of the first step's gates, `[B, 3H]` or `[B, N, 3H]`.
        state: `[B, H]` or `[B, N, H]`.
        memory: The sentences' `Memory`.
        weights: `RecurrentWeights`.

    Returns:
        The new states and the attention weights `[B, S]` or `[B, N, S]`.
    """
    middle = gru_step(projected, ops.matmul(state, weights.recurrent_kernel), state)
    attended = attention_weights(middle, memory.keys, memory.mask, weights.query_kernel, weights.score_vector)
    mixed = ops.matmul(attended if len(state.shape) == 3 else ops.expand_dims(attended, 1), memory.projected)
    mixed = ops.reshape(mixed, ops.shape(projected))
    recurrent = ops.matmul(middle, weights.second_recurrent_kernel) + weights.second_bias
    return gru_step(mixed, recurrent, middle), attended


@dispatch
def conditional_gru_sequence(projected, state, memory, weights):
    """States `[B, T, H]` and attention weights `[B, T, S]` of all steps."""

    def step(carried, projected):
        outputs = conditional_gru_step(projected, carried[0], memory, weights)
        return outputs, outputs  # Keras's TensorFlow scan wants what is carried and what is put out alike

    state = ops.cast(state, projected.dtype)
    start = state, ops.zeros_like(memory.keys[:, :, 0])
    _, (states, attended) = ops.scan(step, start, ops.swapaxes(projected, 0, 1))
    return ops.swapaxes(states, 0, 1), ops.swapaxes(attended, 0, 1)
