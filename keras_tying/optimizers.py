"""Stochastic gradient descent that knows the size of its gradient."""

import keras
from keras import ops

from keras_tying.backend import dispatch


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
    """Plain SGD on a gradient whose global norm is cut down to `clip_norm`.

    Unlike `keras.optimizers.SGD(global_clipnorm=...)` it keeps the norm of the last gradient, as it was
    before the cut, in the variable `gradient_norm`, and scales the learning rate instead of rewriting
    every gradient.

    Args:
        learning_rate: Float. Defaults to 1.0.
        clip_norm: Positive float, the largest global norm of an update divided by the learning rate.
        shrink: Float in [0, 1): after each update all parameters are multiplied by `1 - shrink`, whatever
            the learning rate, as Gal decays weights; the `weight_decay` of Keras is this times the
            learning rate, the gradient of an L2 penalty. Defaults to 0.
        **kwargs: Further arguments of `keras.optimizers.SGD`, momentum excepted.

    Raises:
        ValueError: If `clip_norm` is not positive, `shrink` is outside [0, 1), or momentum is asked for.

    References:
        Pascanu, Mikolov and Bengio, On the Difficulty of Training Recurrent Neural Networks. Gal and
        Ghahramani, A Theoretically Grounded Application of Dropout in Recurrent Neural Networks.
    """

    def __init__(self, learning_rate=1.0, clip_norm=5.0, shrink=0.0, name="clipped_sgd", **kwargs):
        if clip_norm <= 0:
            raise ValueError(f"`clip_norm` must be positive. Received: clip_norm={clip_norm}")
        if not 0 <= shrink < 1:
            raise ValueError(f"`shrink` must be in [0, 1). Received: shrink={shrink}")
        if kwargs.get("momentum") or kwargs.get("nesterov"):
            raise ValueError(f"`ClippedSGD` has no momentum; use `keras.optimizers.SGD`. Received: {kwargs}")
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.clip_norm = clip_norm
        self.shrink = shrink
        self._cut = 1.0

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
        self._cut = self.clip_norm / ops.maximum(norm, self.clip_norm)
        super().apply(grads, trainable_variables)
        if self.shrink:
            for variable in self._trainable_variables:
                variable.assign(variable * (1 - self.shrink))

    def update_step(self, gradient, variable, learning_rate):
        descend(variable, gradient, ops.cast(learning_rate, "float32") * self._cut)

    def get_config(self):
        config = super().get_config()
        for unused in ("momentum", "nesterov"):
            config.pop(unused)
        return {**config, "clip_norm": self.clip_norm, "shrink": self.shrink}
