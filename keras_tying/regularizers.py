"""Penalties on the projection before the output embedding and on hidden states."""

import keras
from keras import ops

from keras_tying.checks import check_integer, check_number

__all__ = ["ActivationRegularizer", "ProjectionRegularizer", "TemporalActivationRegularizer"]


@keras.saving.register_keras_serializable("keras_tying")
class ProjectionRegularizer(keras.regularizers.Regularizer):
    """Penalty on the projection matrix `P` of `h3 = V P h2`.

    The paper has the term `lambda * ||P||_2` with `lambda = 0.15`. The code released by its authors
    computes `(1 / 6.5) * (1/2 * sum(P^2)) / batch_size`, where `1 / 6.5 = 0.154` is lambda, and adds it to a
    negative log-likelihood that is summed over the steps of a window and averaged over the rows of the batch.
    Both versions are available:

    - `norm="half_squared"` (default): `scale * sum(P^2) / 2 / batch_size`, the released code.
    - `norm="frobenius"`: `scale * sqrt(sum(P^2))`, the paper's term if its norm is the Frobenius norm;
      `batch_size` is not used.

    Args:
        scale: Float, lambda, at least 0. Defaults to 0.15.
        norm: `"half_squared"` or `"frobenius"`.
        batch_size: Positive integer by which the released code divides: its batch size, 20, by default. It is a fixed
            number, so the weight of the penalty does not depend on the batches.

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
        check_number("scale", scale, least=0)
        if norm not in ("half_squared", "frobenius"):
            raise ValueError(f"`norm` must be 'half_squared' or 'frobenius'. Received: norm={norm!r}")
        check_integer("batch_size", batch_size)
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


@keras.saving.register_keras_serializable("keras_tying")
class ActivationRegularizer(keras.regularizers.Regularizer):
    """Penalty on large hidden states (AR): `scale * B * T * mean(h^2)` for hidden states `h` `[B, T, H]`.

    It is for the argument `activity_regularizer` of a layer; Keras divides the penalty by the `B` rows of the batch.
    States `[B, H]` that the layer returns too have no penalty. It belongs to a loss that is summed over the `T` steps
    of a window, as `SequenceCrossEntropy()` is: `scale` is then the alpha of the paper, whose loss is a mean over
    steps. Merity et al. regularize the outputs of the last layer after dropout. Masked steps count too.

    Args:
        scale: Float, alpha, at least 0. Defaults to 2.

    Raises:
        ValueError: If `scale` is negative.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> float(kt.regularizers.ActivationRegularizer(scale=2.0)(3 * np.ones((4, 5, 6), "float32")))  # 2 * 4 * 5 * 9
    360.0

    Reference:
        Merity, Keskar and Socher, Regularizing and Optimizing LSTM Language Models, 2018, section 4.6.
    """

    def __init__(self, *, scale=2.0):
        check_number("scale", scale, least=0)
        self.scale = scale

    def __call__(self, x):
        return _mean_square(x, x, self.scale)

    def get_config(self):
        return {"scale": self.scale}


@keras.saving.register_keras_serializable("keras_tying")
class TemporalActivationRegularizer(keras.regularizers.Regularizer):
    """Penalty on changes of hidden states (TAR): `scale * B * T * mean((h_{t+1} - h_t)^2)` for `[B, T, H]`.

    It is for the argument `activity_regularizer` of a layer. For the scale and for states see `ActivationRegularizer`.
    Merity et al. regularize the outputs of the last layer before dropout. A window of one step has no changes and no
    penalty.

    Args:
        scale: Float, beta, at least 0. Defaults to 1.

    Raises:
        ValueError: If `scale` is negative.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> hidden = np.array([[[0.0], [3.0], [3.0]]], "float32")
    >>> float(kt.regularizers.TemporalActivationRegularizer(scale=1.0)(hidden))  # 3 * (9 + 0) / 2
    13.5

    Reference:
        Merity, Keskar and Socher, Regularizing and Optimizing LSTM Language Models, 2018, section 4.6.
    """

    def __init__(self, *, scale=1.0):
        check_number("scale", scale, least=0)
        self.scale = scale

    def __call__(self, x):
        return _mean_square(x[:, 1:] - x[:, :-1], x, self.scale)

    def get_config(self):
        return {"scale": self.scale}


def _mean_square(x, hidden, scale):
    """`scale` times the mean square of `x`, times rows and steps of `hidden` `[B, T, H]`.

    It is 0 without elements, and for states `[B, H]`.
    """
    if len(hidden.shape) != 3:
        return ops.zeros((), "float32")
    squares = ops.sum(ops.square(ops.cast(x, "float32")))
    positions = ops.cast(ops.shape(hidden)[0] * ops.shape(hidden)[1], "float32")
    return scale * positions * ops.divide_no_nan(squares, ops.cast(ops.size(x), "float32"))
