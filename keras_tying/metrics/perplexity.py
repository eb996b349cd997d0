"""Perplexity: the exponential of the mean negative log-likelihood per word."""

import keras
import numpy as np
from keras import ops

from keras_tying.losses.cross_entropy import SequenceCrossEntropy


@keras.saving.register_keras_serializable("keras_tying")
class Perplexity(keras.metrics.Metric):
    """The exponential of the mean negative log-likelihood of all tokens since the last reset.

    The metric accumulates sum and count, with what float32 rounds off of both, so the result depends neither on the
    division into batches nor on the length of the text.

    Args:
        ignore_id: Optional target that does not count, for example -1. Models take that of their loss.
        name: Name of the metric. Defaults to `"perplexity"`.
        dtype: Dtype of the metric. Defaults to float32.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> metric = kt.metrics.Perplexity()
    >>> metric.update_state(np.zeros((2, 5), "int32"), np.zeros((2, 5, 10), "float32"))
    >>> round(float(metric.result()), 4)  # ten words of equal probability
    10.0
    """

    def __init__(self, *, ignore_id=None, name="perplexity", dtype=None):
        super().__init__(name=name, dtype=dtype or "float32")
        self.ignore_id = ignore_id
        self.total, self.total_rest, self.count, self.count_rest = (
            self.add_variable((), "zeros", name=name) for name in ("total", "total_rest", "count", "count_rest")
        )

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds targets `[...]` with logits `[..., V]`. Masked tokens do not count."""
        loss = SequenceCrossEntropy(reduction="sum", ignore_id=self.ignore_id)
        self.update_losses(*loss.losses_and_weights(y_true, y_pred, sample_weight))

    def update_losses(self, losses, counted):
        """Adds negative log-likelihoods `losses` with weights `counted`, both `[...]`."""
        _add(self.total, self.total_rest, ops.sum(losses * ops.cast(counted, losses.dtype)))
        _add(self.count, self.count_rest, ops.sum(counted))

    def result(self):
        return ops.exp(ops.divide_no_nan(self.total + self.total_rest, self.count + self.count_rest))

    def get_config(self):
        return {**super().get_config(), "ignore_id": self.ignore_id}


def _add(total, rest, value):
    """Adds `value` to `total`, and what rounding leaves out of it to `rest` (Knuth's two-sum)."""
    value = ops.cast(value, total.dtype)
    after = total + value
    added = after - total
    rounded_off = (total - (after - added)) + (value - added)
    rest.assign_add(ops.where(ops.isfinite(after), rounded_off, 0))
    total.assign(after)


def perplexity_of(mean):
    """The perplexity of a mean negative log-likelihood, as a float; infinite if the model has diverged."""
    with np.errstate(over="ignore"):
        return float(np.exp(mean))
