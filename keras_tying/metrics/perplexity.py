"""Perplexity: the exponential of the mean negative log-likelihood of a word."""

import keras
from keras import ops

from keras_tying.losses.linear_cross_entropy import losses_from_logits


@keras.saving.register_keras_serializable("keras_tying")
class Perplexity(keras.metrics.Metric):
    """`exp(mean negative log-likelihood)` over all tokens seen since the last reset.

    Exact however the tokens are divided into batches: sum and count are kept, not means of means.

    Args:
        name: Name of the metric. Defaults to `"perplexity"`.
        dtype: Defaults to float32.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> metric = kt.metrics.Perplexity()
    >>> metric.update_state(np.zeros((2, 5), "int32"), np.zeros((2, 5, 10), "float32"))
    >>> round(float(metric.result()), 4)  # ten words, all as likely
    10.0
    """

    def __init__(self, name="perplexity", dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_variable((), "zeros", name="total")
        self.count = self.add_variable((), "zeros", name="count")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds targets `[...]` under logits `[..., V]`."""
        _, losses = losses_from_logits(ops.cast(y_pred, "float32"), ops.cast(y_true, "int32"))
        counted = ops.ones_like(losses)
        if sample_weight is not None:
            counted = counted * ops.cast(sample_weight, "float32")
        self.update_losses(losses, counted)

    def update_losses(self, losses, counted):
        """Adds tokens whose negative log-likelihoods are known: both arguments `[...]`."""
        self.total.assign_add(ops.sum(losses * counted))
        self.count.assign_add(ops.sum(counted))

    def result(self):
        return ops.exp(self.total / ops.maximum(self.count, 1))
