"""Perplexity: the exponential of the mean negative log-likelihood per word."""

import keras
from keras import ops

from keras_tying.losses.cross_entropy import losses_from_logits


@keras.saving.register_keras_serializable("keras_tying")
class Perplexity(keras.metrics.Metric):
    """The exponential of the mean negative log-likelihood of all tokens since the last reset.

    The metric accumulates sum and count, so the result does not depend on the division into batches.

    Args:
        name: Name of the metric. Defaults to `"perplexity"`.
        dtype: Dtype of the metric. Defaults to float32.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> metric = kt.metrics.Perplexity()
    >>> metric.update_state(np.zeros((2, 5), "int32"), np.zeros((2, 5, 10), "float32"))
    >>> round(float(metric.result()), 4)  # ten words of equal probability
    10.0
    """

    def __init__(self, name="perplexity", dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_variable((), "zeros", name="total")
        self.count = self.add_variable((), "zeros", name="count")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds targets `[...]` with logits `[..., V]`."""
        _, losses = losses_from_logits(ops.cast(y_pred, "float32"), ops.cast(y_true, "int32"))
        weights = ops.ones_like(losses)
        if sample_weight is not None:
            weights = weights * ops.cast(sample_weight, "float32")
        self.update_losses(losses, weights)

    def update_losses(self, losses, counted):
        """Adds negative log-likelihoods `losses` with weights `counted`, both `[...]`."""
        self.total.assign_add(ops.sum(losses * counted))
        self.count.assign_add(ops.sum(counted))

    def result(self):
        return ops.exp(self.total / ops.maximum(self.count, 1))
