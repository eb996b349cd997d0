"""States of a mixture of softmaxes."""

import keras
from keras import ops

from keras_tying.checks import check_integer


@keras.saving.register_keras_serializable("keras_tying")
class SoftmaxMixture(keras.layers.Layer):
    """The last hidden layer of a language model whose next word has a mixture of softmaxes.

    From the hidden state `g` of a word it computes a state for each of `K` softmaxes, and the logits of their weights::

        h_k = tanh(A_k g + c_k)
        pi  = softmax(B g)

    All softmaxes have the output embeddings of the model.

    Args:
        units: Integer `H`, the width of the embedding.
        softmaxes: Integer `K`.
        kernel_initializer: Initializer of both kernels. Defaults to `"glorot_uniform"`.
        **kwargs: Base layer arguments, such as `name` and `dtype`.

    Output shape:
        `[..., K * (H + 1)]`: for each softmax its state and the logit of its weight.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> mixture = kt.layers.SoftmaxMixture(8, softmaxes=3)
    >>> tuple(mixture(np.zeros((2, 5, 16), "float32")).shape)
    (2, 5, 27)

    Reference:
        Yang, Dai, Salakhutdinov and Cohen, Breaking the Softmax Bottleneck: A High-Rank RNN Language Model, section 2.4.
    """

    def __init__(self, units, softmaxes, *, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        check_integer("units", units)
        check_integer("softmaxes", softmaxes)
        self.units = units
        self.softmaxes = softmaxes
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.supports_masking = True

    def build(self, input_shape):
        shape, initializer = (input_shape[-1], self.softmaxes * self.units), self.kernel_initializer
        self.kernel = self.add_weight(shape=shape, initializer=initializer, name="kernel")
        self.bias = self.add_weight(shape=shape[1:], initializer="zeros", name="bias")
        shape = (input_shape[-1], self.softmaxes)
        self.weight_kernel = self.add_weight(shape=shape, initializer=initializer, name="weight_kernel")

    def call(self, inputs):
        states = ops.tanh(ops.matmul(inputs, self.kernel) + self.bias)
        states = ops.reshape(states, (*ops.shape(inputs)[:-1], self.softmaxes, self.units))
        logits = ops.expand_dims(ops.matmul(inputs, self.weight_kernel), -1)
        packed = ops.concatenate([states, logits], axis=-1)
        return ops.reshape(packed, (*ops.shape(inputs)[:-1], self.softmaxes * (self.units + 1)))

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.softmaxes * (self.units + 1))

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "softmaxes": self.softmaxes,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
