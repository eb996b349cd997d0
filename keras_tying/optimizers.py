"""SGD with global-norm clipping."""

import keras
from keras import ops

from keras_tying.backend import dispatch
from keras_tying.backend.keras_internals import variables_of

__all__ = ["ClippedSGD"]


@dispatch
def squared_norm(gradient):
    """Sum of the squares of all elements, float32."""
    return ops.sum(ops.square(ops.cast(gradient, "float32")))


@dispatch
def descend(variable, gradient, rate):
    """Subtracts `rate` times `gradient` from `variable`."""
    variable.assign_sub(ops.cast(gradient, variable.dtype) * ops.cast(rate, variable.dtype))


@keras.saving.register_keras_serializable("keras_tying")
class ClippedSGD(keras.optimizers.SGD):
    """SGD without momentum whose gradient is scaled to a global norm of at most `clip_norm`.

    Unlike `keras.optimizers.SGD(global_clipnorm=...)` it scales the learning rate instead of every gradient, and keeps
    the last norm before clipping in the variable `gradient_norm`.

    Args:
        learning_rate: Float. Defaults to 1.0.
        clip_norm: Positive float, the largest global norm of an update divided by the learning rate.
        decoupled_weight_decay: Float in [0, 1). After each update all parameters are multiplied by
            `1 - decoupled_weight_decay`, independently of the learning rate (Gal and Ghahramani). The `weight_decay`
            of Keras is multiplied by the learning rate as well. Defaults to 0.
        **kwargs: Further arguments of `keras.optimizers.SGD`, except `momentum` and `nesterov`.

    Raises:
        ValueError: If `clip_norm` is not positive, `decoupled_weight_decay` is outside [0, 1), or momentum is set.

    Example:

    >>> import keras, numpy as np, keras_tying as kt
    >>> optimizer = kt.optimizers.ClippedSGD(1.0, clip_norm=2.5)
    >>> weights = keras.Variable(np.zeros(2, "float32"))
    >>> optimizer.apply([keras.ops.array([3.0, 4.0])], [weights])
    >>> float(optimizer.gradient_norm), keras.ops.convert_to_numpy(weights).tolist()
    (5.0, [-1.5, -2.0])

    References:
        Pascanu, Mikolov and Bengio, On the Difficulty of Training Recurrent Neural Networks. Gal and
        Ghahramani, A Theoretically Grounded Application of Dropout in Recurrent Neural Networks.
    """

    def __init__(self, learning_rate=1.0, *, clip_norm=5.0, decoupled_weight_decay=0.0, name="clipped_sgd", **kwargs):
        if clip_norm <= 0:
            raise ValueError(f"`clip_norm` must be positive. Received: clip_norm={clip_norm}")
        if not 0 <= decoupled_weight_decay < 1:
            raise ValueError(
                f"`decoupled_weight_decay` must be in [0, 1). Received: decoupled_weight_decay={decoupled_weight_decay}"
            )
        if kwargs.get("momentum") or kwargs.get("nesterov"):
            raise ValueError(f"`ClippedSGD` has no momentum; use `keras.optimizers.SGD`. Received: {kwargs}")
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.clip_norm = clip_norm
        self.decoupled_weight_decay = decoupled_weight_decay
        self._clip_factor = 1.0

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self.gradient_norm = self.add_variable((), "zeros", aggregation="only_first_replica", name="gradient_norm")

    def apply(self, grads, trainable_variables=None):
        if trainable_variables is not None:
            self.build(trainable_variables)
        grads = list(grads)
        norm = ops.sqrt(sum(squared_norm(gradient) for gradient in grads if gradient is not None))
        self.gradient_norm.assign(norm)
        self._clip_factor = self.clip_norm / ops.maximum(norm, self.clip_norm)
        super().apply(grads, trainable_variables)
        if self.decoupled_weight_decay:
            for variable in variables_of(self):
                variable.assign(variable * (1 - self.decoupled_weight_decay))

    def update_step(self, gradient, variable, learning_rate):
        descend(variable, gradient, ops.cast(learning_rate, "float32") * self._clip_factor)

    def get_config(self):
        config = super().get_config()
        for unused in ("momentum", "nesterov"):
            config.pop(unused)
        return {**config, "clip_norm": self.clip_norm, "decoupled_weight_decay": self.decoupled_weight_decay}
