"""Conditional GRU: the decoder of attention-based translation."""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_tying.backend import dispatch
from keras_tying.checks import check_integer, check_steps
from keras_tying.layers.annotation_attention import AnnotationAttention, attention_weights
from keras_tying.layers.gru import OrthogonalGates, gru_step


class Memory(NamedTuple):
    """Source sentences as the decoder uses them, computed once for all steps.

    Attributes:
        annotations: `[B, S, C]`.
        keys: Their part of the attention network, `[B, S, A]`.
        projected: Their part of the gates of the second step, `[B, S, 3H]`.
        mask: Booleans `[B, S]`, `False` for padding.
    """

    annotations: Any
    keys: Any
    projected: Any
    mask: Any


class RecurrentWeights(NamedTuple):
    """Weights of the recurrence: first step, attention and second step."""

    recurrent_kernel: Any
    query_kernel: Any
    score_vector: Any
    second_recurrent_kernel: Any
    second_bias: Any


@keras.saving.register_keras_serializable("keras_tying")
class ConditionalGRU(keras.layers.Layer):
    """Conditional GRU: a GRU step on the previous word, attention, and a GRU step on the context.

    With the vector `y` of the previous target word and the previous state `s`::

        m = GRU_1(y, s)
        c, a = attention(m, annotations)
        s' = GRU_2(c, m)

    Both steps follow the equations of `OneBiasGRU`. The bias of the second step is added to its recurrent product.
    The products with `y` are computed for all steps at once. The annotations are multiplied with the kernels
    of the attention and of the second step once per sentence.

    Args:
        units: Integer `H`.
        attention_units: Integer, size of the attention network. Default: the width of the annotations.
        **kwargs: Base layer arguments, such as `name` and `dtype`.

    Call arguments:
        inputs: Vectors of the previous target words, `[B, T, E]`.
        memory: Output of `memory(annotations, mask)`.
        state: The initial state, `[B, H]`.

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

    def __init__(self, units, *, attention_units=None, **kwargs):
        super().__init__(**kwargs)
        check_integer("units", units)
        if attention_units is not None:
            check_integer("attention_units", attention_units)
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
        self.attention = AnnotationAttention(self.attention_units or context, dtype=self.dtype_policy, name="attention")
        self.attention.build((None, self.units), annotations_shape)
        self.built = True

    def memory(self, annotations, mask):
        """The `Memory` of annotations `[B, S, C]`. `mask` `[B, S]` is `False` for padding."""
        annotations = ops.convert_to_tensor(annotations, self.compute_dtype)
        projected = ops.matmul(annotations, ops.cast(self.second_kernel, annotations.dtype))
        return Memory(annotations, self.attention.keys(annotations), projected, ops.convert_to_tensor(mask))

    def call(self, inputs, memory, state):
        check_steps("inputs", inputs)
        states, weights = conditional_gru_sequence(self._project(inputs), state, memory, self._recurrent_weights())
        return states, ops.matmul(weights, memory.annotations), weights

    def step(self, inputs, memory, state):
        """One step for `N` hypotheses of each sentence.

        Args:
            inputs: Vectors of the previous target words, `[B, N, E]`.
            memory: The `Memory` of the sentences.
            state: The previous states, `[B, N, H]`.

        Returns:
            States `[B, N, H]`, contexts `[B, N, C]` and attention weights `[B, N, S]`.
        """
        state, weights = conditional_gru_step(self._project(inputs), state, memory, self._recurrent_weights())
        return state, ops.matmul(weights, memory.annotations), weights

    def _project(self, inputs):
        """The words' part of the gates of the first step, `[..., 3H]`."""
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

    def compute_output_shape(self, inputs_shape, annotations_shape):
        positions, width = annotations_shape[1:]
        return tuple((*inputs_shape[:2], size) for size in (self.units, width, positions))

    def compute_output_spec(self, inputs, memory, state):
        shapes = self.compute_output_shape(inputs.shape, memory.annotations.shape)
        return tuple(keras.KerasTensor(shape, dtype=self.compute_dtype) for shape in shapes)

    def get_config(self):
        return {**super().get_config(), "units": self.units, "attention_units": self.attention_units}


def conditional_gru_step(projected, state, memory, weights):
    """One step, for one or `N` hypotheses per sentence.

    Args:
        projected: The previous words' part of the gates of the first step, `[B, 3H]` or `[B, N, 3H]`.
        state: The previous states, `[B, H]` or `[B, N, H]`.
        memory: The `Memory` of the sentences.
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
        return outputs, outputs  # on TensorFlow, `ops.scan` needs states and outputs of one structure

    state = ops.cast(state, projected.dtype)
    start = state, ops.zeros_like(memory.keys[:, :, 0])
    _, (states, attended) = ops.scan(step, start, ops.swapaxes(projected, 0, 1))
    return ops.swapaxes(states, 0, 1), ops.swapaxes(attended, 0, 1)
