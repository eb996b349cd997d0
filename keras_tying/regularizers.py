"""Penalty on the projection before the output embedding."""

import keras
from keras import ops

__all__ = ["ProjectionRegularizer"]


@keras.saving.register_keras_serializable("keras_tying")
class ProjectionRegularizer(keras.regularizers.Regularizer):
    """Penalty on the projection matrix `P` of `h3 = V P h2`.

    The paper has the term `lambda * ||P||_2` with `lambda = 0.15`. The code released by its authors
    computes `(1 / 6.5) * (1/2 * sum(P^2)) / batch_size`, where `1 / 6.5 = 0.154` is lambda, and adds it to a
    negative log-likelihood that is summed over the steps of a window and averaged over the rows of the batch.
    Both versions are available:

    - `norm="half_squared"` (default): `scale * sum(P^2) / 2 / batch_size`, the released code.
    - `norm="frobenius"`: `scale * sqrt(sum(P^2))`, the paper; `batch_size` is not used.

    Args:
        scale: Float, lambda, at least 0. Defaults to 0.15.
        norm: `"half_squared"` or `"frobenius"`.
        batch_size: Positive integer, the training batch size, by which the released code divides.

    Raises:
        ValueError: If an argument is outside its range.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> penalty = kt.regularizers.ProjectionRegularizer(scale=0.15, batch_size=20)
    >>> round(float(penalty(np.ones((200, 200), "float32"))), 4)  # 0.15 * 40000 / 2 / 20
    150.0

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, section 3.
    """

    def __init__(self, *, scale=0.15, norm="half_squared", batch_size=20):
        if scale < 0:
            raise ValueError(f"`scale` must be at least 0. Received: scale={scale}")
        if norm not in ("half_squared", "frobenius"):
            raise ValueError(f"`norm` must be 'half_squared' or 'frobenius'. Received: norm={norm!r}")
        if not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"`batch_size` must be a positive integer. Received: batch_size={batch_size!r}")
        self.scale = scale
        self.norm = norm
        self.batch_size = batch_size

    def __call__(self, x):
        squares = ops.sum(ops.square(x))
        if self.norm == "frobenius":
            return self.scale * ops.sqrt(ops.maximum(squares, keras.config.epsilon() ** 2))
        return self.scale * squares / (2 * self.batch_size)

    def get_config(self):
        return {"scale": self.scale, "norm": self.norm, "batch_size": self.batch_size}
