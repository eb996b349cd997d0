"""Additive attention."""

import keras
from keras import ops

from keras_tying.checks import check_integer

EXCLUDED = {"float16": -6e4}
"""Score of masked annotations in each dtype, near its lowest number; -1e38 in others than these."""


@keras.saving.register_keras_serializable("keras_tying")
class AnnotationAttention(keras.layers.Layer):
    """Weighted mean of annotations. A small network computes the weights from a query and each annotation.

    With query `s` and annotations `h_j`, `j` the source position::

        e_j = v . tanh(s W + h_j K + b)
        a   = softmax(e)
        c   = sum_j a_j h_j

    `keys` computes `h_j K + b` once for all queries of a sentence.

    Args:
        units: Integer `A`, size of the network.
        **kwargs: Base layer arguments, such as `name` and `dtype`.

    Call arguments:
        query: Floats `[B, Q]`, or `[B, N, Q]` for `N` queries of each sentence.
        annotations: Floats `[B, S, C]`.
        mask: Optional booleans `[B, S]`: annotations that are `False` get no weight. Default: the mask that Keras gives
            the annotations, for example after an embedding with `mask_zero=True`.
        keys: Optional output of `keys(annotations)`.

    Output shape:
        Contexts `[B, C]` or `[B, N, C]`, and weights `[B, S]` or `[B, N, S]`. A sentence without
        annotations has weights and context 0.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> attention = kt.layers.AnnotationAttention(16)
    >>> context, weights = attention(np.ones((2, 4), "float32"), np.ones((2, 5, 6), "float32"))
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 6), (2, 5))

    Reference:
        Bahdanau, Cho and Bengio, Neural Machine Translation by Jointly Learning to Align and Translate,
        appendix A.1.2.
    """

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        check_integer("units", units)
        self.units = units
        self.supports_masking = True

    def build(self, query_shape, annotations_shape=None, **_):
        self.query_kernel = self.add_weight((query_shape[-1], self.units), "glorot_uniform", name="query_kernel")
        self.key_kernel = self.add_weight((annotations_shape[-1], self.units), "glorot_uniform", name="key_kernel")
        self.bias = self.add_weight((self.units,), "zeros", name="bias")
        self.score_vector = self.add_weight((self.units, 1), "glorot_uniform", name="score_vector")

    def keys(self, annotations):
        """The annotations' part of the network, `h_j K + b`, `[B, S, A]`."""
        kernel, bias = (ops.cast(weight, annotations.dtype) for weight in (self.key_kernel, self.bias))
        return ops.matmul(annotations, kernel) + bias

    def call(self, query, annotations, mask=None, keys=None, annotations_mask=None):
        mask = annotations_mask if mask is None else mask
        keys = self.keys(annotations) if keys is None else keys
        weights = attention_weights(query, keys, mask, self.query_kernel, self.score_vector)
        if len(query.shape) == 3:
            return ops.matmul(weights, annotations), weights
        return ops.squeeze(ops.matmul(ops.expand_dims(weights, 1), annotations), 1), weights

    def compute_mask(self, *_, **__):
        """None: contexts are not masked."""

    def compute_output_shape(self, query_shape, annotations_shape, **_):
        lead = tuple(query_shape[:-1])
        return (*lead, annotations_shape[-1]), (*lead, annotations_shape[1])

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def attention_weights(query, keys, mask, query_kernel, score_vector):
    """Weights `[B, S]` or `[B, N, S]` of annotations for a `query` `[B, Q]` or `[B, N, Q]`.

    Args:
        query: One or `N` queries per sentence.
        keys: Output of `AnnotationAttention.keys`, `[B, S, A]`.
        mask: Booleans `[B, S]`, or `None`. Annotations that are `False` get no weight.
        query_kernel: `[Q, A]`.
        score_vector: `[A, 1]`.
    """
    if len(query.shape) == 3:
        keys, mask = ops.expand_dims(keys, 1), None if mask is None else ops.expand_dims(mask, 1)
    compared = ops.tanh(keys + ops.expand_dims(ops.matmul(query, query_kernel), -2))
    return masked_softmax(ops.squeeze(ops.matmul(compared, score_vector), -1), mask)


def masked_softmax(scores, mask=None):
    """Softmax over the positions of the last axis whose mask is `True`. Without such positions the result is 0."""
    if mask is None:
        return ops.softmax(scores, axis=-1)
    live = ops.cast(mask, scores.dtype)
    excluded = EXCLUDED.get(keras.backend.standardize_dtype(scores.dtype), -1e38)
    scores = ops.where(mask, scores, excluded)
    # An initial value, because PyTorch has no largest element of a batch without rows.
    weights = ops.exp(scores - ops.max(scores, axis=-1, keepdims=True, initial=excluded)) * live
    return weights / ops.maximum(ops.sum(weights, axis=-1, keepdims=True), keras.config.epsilon())
