"""SGD and Adam with global-norm clipping and an averaged copy of the weights."""

from contextlib import contextmanager

import keras
from keras import ops

from keras_tying.backend import dispatch
from keras_tying.backend.compilation import write_back
from keras_tying.backend.keras_internals.optimizers import UpdateOptimizer, layout_of, variables_of, without_loss_scale
from keras_tying.checks import check_number, check_rate

__all__ = ["ClippedAdam", "ClippedSGD", "averaged_weights", "use_averaged_weights"]


@dispatch
def squared_norm(gradient):
    """Sum of the squares of all elements, float32."""
    return ops.sum(ops.square(ops.cast(gradient, "float32")))


@dispatch
def descend(variable, gradient, rate):
    """Subtracts `rate` times `gradient` from `variable`."""
    variable.assign_sub(ops.cast(gradient, variable.dtype) * ops.cast(rate, variable.dtype))


@dispatch
def adam_step(optimizer, gradient, variable, learning_rate):
    """Updates `variable` as Adam, with the settings and moments of `optimizer`."""
    keras.optimizers.Adam.update_step(optimizer, gradient, variable, learning_rate)


def _as_list(variables):
    """Variables that are read more than once, where an iterator may be given."""
    return None if variables is None else list(variables)


class _ClippingAndAveraging(UpdateOptimizer):
    """Clips by the global norm. Keeps the last norm and, with `average_momentum`, an averaged copy of the weights.

    The `use_ema` of Keras puts the average into the model at the end of every `fit`. Here the model keeps its own
    weights, to train on from them, and `averaged_weights` exchanges them for a while.
    """

    def __init__(self, *arguments, clip_norm, average_momentum, average_from_start, **kwargs):
        super().__init__(*arguments, **kwargs)
        if clip_norm is not None:
            check_number("clip_norm", clip_norm, above=0)
        self.clip_norm = clip_norm
        if average_momentum is not None:
            check_number("average_momentum", average_momentum, least=0)
            if average_momentum > 1:
                raise ValueError(f"`average_momentum` must be at most 1. Received: average_momentum={average_momentum}")
        elif not average_from_start:
            raise ValueError(
                "`average_from_start=False` needs `average_momentum`. "
                f"Received: average_from_start={average_from_start}, average_momentum={average_momentum}"
            )
        self.average_momentum = average_momentum
        self.average_from_start = average_from_start
        self.averages = []
        self._clip_factor = 1.0

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self.gradient_norm = self._shared_variable((), "gradient_norm")
        if self.average_momentum is None:
            return
        self.averages = [
            self._shared_variable(
                v.shape, f"average_{i}", dtype=keras.backend.result_type(v.dtype, "float32"), layout=layout_of(v)
            )
            for i, v in enumerate(variables)
        ]
        self.averaged_steps = self._shared_variable((), "averaged_steps")
        self.is_averaging = self._shared_variable((), "is_averaging", "ones" if self.average_from_start else "zeros")

    def _shared_variable(self, shape, name, initializer="zeros", **kwargs):
        return self.add_variable(shape, initializer, aggregation="only_first_replica", name=name, **kwargs)

    def start_averaging(self):
        """Starts the average anew at the weights after the next update.

        Raises:
            ValueError: If the optimizer keeps no averages, or is not built.
        """
        if not self.averages:
            raise ValueError(
                "`start_averaging` needs `average_momentum`, and an optimizer that was built: call `build` or train. "
                f"Received: average_momentum={self.average_momentum}, built={self.built}"
            )
        self.averaged_steps.assign(0.0)
        self.is_averaging.assign(1.0)

    def apply(self, grads, trainable_variables=None):
        trainable_variables = _as_list(trainable_variables)
        before = self.iterations
        super().apply(grads, trainable_variables)
        updates = ops.cast(self.iterations - before, "float32") if self.gradient_accumulation_steps else 1.0
        self.after_update(updates, variables_of(self) if trainable_variables is None else trainable_variables)

    def before_update(self, gradients):
        norm = ops.sqrt(sum(squared_norm(gradient) for gradient in gradients))
        self.gradient_norm.assign(norm)
        if self.clip_norm is not None:
            self._clip_factor = self.clip_norm / ops.maximum(norm, self.clip_norm)

    def after_update(self, updates, variables):
        """Moves the averages to the weights: by 1 / steps, as a mean, until that is below 1 - momentum.

        Args:
            updates: 1, or 0 if the gradients of the batch were only added to those of others.
            variables: Those that were updated.
        """
        if not self.averages:
            return
        share = updates * ops.maximum(1 / (self.averaged_steps + 1), 1 - self.average_momentum)
        for average, variable in zip(self.averages, variables_of(self), strict=True):
            weight = ops.cast(ops.stop_gradient(variable), average.dtype)
            average.assign_add(ops.cast(share, average.dtype) * (weight - average))
        self.averaged_steps.assign_add(updates * self.is_averaging)

    def get_config(self):
        own = ("clip_norm", "average_momentum", "average_from_start")
        return {**super().get_config(), **{name: getattr(self, name) for name in own}}


@contextmanager
def averaged_weights(model):
    """A context in which a compiled model has the averaged weights of its optimizer, if it keeps them.

    Args:
        model: A `keras.Model`. Its own weights return afterwards, bit for bit.

    Yields:
        Whether there are averaged weights: the optimizer keeps them and has made an update.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> model, words = kt.zoo.recurrent_language_model(100, units=8), np.array([[3, 14, 15]])
    >>> model.compile(kt.optimizers.ClippedSGD(1.0, average_momentum=0.9))
    >>> history = model.fit(words, words, epochs=3, verbose=0)
    >>> own = model.get_weights()
    >>> with kt.optimizers.averaged_weights(model):
    ...     loss = model.evaluate(words, words, verbose=0)
    >>> all(np.array_equal(*pair) for pair in zip(own, model.get_weights()))
    True
    """
    write_back(model)
    own = [(variable, ops.convert_to_numpy(variable).copy()) for variable, _ in _averages_of(model)]
    use_averaged_weights(model)
    try:
        yield bool(own)
    finally:
        for variable, value in own:
            variable.assign(value)


def use_averaged_weights(model):
    """Gives a compiled model the averaged weights of its optimizer, if it keeps them.

    Args:
        model: A `keras.Model`. Its own weights are lost; `averaged_weights` brings them back.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> model, words = kt.zoo.recurrent_language_model(100, units=8), np.array([[3, 14, 15]])
    >>> model.compile(kt.optimizers.ClippedSGD(1.0, average_momentum=0.9))
    >>> history = model.fit(words, words, epochs=3, verbose=0)
    >>> kt.optimizers.use_averaged_weights(model)
    >>> averages = model.optimizer.averages
    >>> all(np.array_equal(*pair) for pair in zip(averages, model.trainable_variables))
    True
    """
    for variable, average in _averages_of(model):
        variable.assign(ops.convert_to_numpy(average))


def _averages_of(model):
    """Pairs of a weight and its average; none before the first update, when there is nothing to average."""
    if not model.compiled:
        raise ValueError(f"The model must be compiled with an optimizer. Received: model={model!r}, which is not.")
    optimizer = without_loss_scale(model.optimizer)
    averages = getattr(optimizer, "averages", [])
    if not averages or not int(ops.convert_to_numpy(optimizer.iterations)):
        return []
    return list(zip(variables_of(optimizer), averages, strict=True))


@keras.saving.register_keras_serializable("keras_tying")
class ClippedSGD(_ClippingAndAveraging, keras.optimizers.SGD):
    """SGD without momentum whose gradient is scaled to a global norm of at most `clip_norm`.

    Unlike `keras.optimizers.SGD(global_clipnorm=...)` it scales the learning rate instead of every gradient, and keeps
    the last norm before clipping in the variable `gradient_norm`.

    Args:
        learning_rate: Float. Defaults to 1.0.
        clip_norm: Positive float, the largest global norm of an update divided by the learning rate.
        decoupled_weight_decay: Float in [0, 1). After each update all parameters are multiplied by
            `1 - decoupled_weight_decay`, independently of the learning rate (Gal and Ghahramani). The `weight_decay`
            of Keras is multiplied by the learning rate as well. Defaults to 0.
        average_momentum: Optional float in [0, 1]: the optimizer keeps an average of the weights, see
            `averaged_weights`. It is their mean over the first `1 / (1 - average_momentum)` updates, then an
            exponential moving average with this momentum; with 1 it remains a mean. Default: no average.
        average_from_start: Boolean, whether averaging starts with the first update. With `False` it starts when
            `start_averaging()` is called, and the average are the newest weights until then. Defaults to `True`.
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

    def __init__(
        self,
        learning_rate=1.0,
        *,
        clip_norm=5.0,
        decoupled_weight_decay=0.0,
        average_momentum=None,
        average_from_start=True,
        name="clipped_sgd",
        **kwargs,
    ):
        check_number("clip_norm", clip_norm, above=0)
        check_rate("decoupled_weight_decay", decoupled_weight_decay)
        if kwargs.get("momentum") or kwargs.get("nesterov"):
            raise ValueError(f"`ClippedSGD` has no momentum; use `keras.optimizers.SGD`. Received: {kwargs}")
        super().__init__(
            learning_rate=learning_rate,
            clip_norm=clip_norm,
            average_momentum=average_momentum,
            average_from_start=average_from_start,
            name=name,
            **kwargs,
        )
        self.decoupled_weight_decay = decoupled_weight_decay

    def after_update(self, updates, variables):
        if self.decoupled_weight_decay:
            for variable in variables:
                variable.assign(variable * ops.cast(1 - updates * self.decoupled_weight_decay, variable.dtype))
                if variable.constraint is not None:
                    variable.assign(variable.constraint(variable))
        super().after_update(updates, variables)

    def update_step(self, gradient, variable, learning_rate):
        descend(variable, gradient, ops.cast(learning_rate, "float32") * self._clip_factor)

    def get_config(self):
        config = super().get_config()
        for unused in ("momentum", "nesterov"):
            config.pop(unused)
        return {**config, "decoupled_weight_decay": self.decoupled_weight_decay}


@keras.saving.register_keras_serializable("keras_tying")
class ClippedAdam(_ClippingAndAveraging, keras.optimizers.Adam):
    """Adam whose gradient, with that of an L2 penalty, is scaled to a global norm of at most `clip_norm`.

    With `beta_1=0` it is RMSprop with bias correction, as Melis et al. use it. The last norm before clipping is kept in
    the variable `gradient_norm`.

    Args:
        learning_rate: Float. Defaults to 0.001.
        beta_1: Float, see `keras.optimizers.Adam`. Defaults to 0.9.
        beta_2: Float, see there. Defaults to 0.999.
        epsilon: Float, see there. Defaults to 1e-7.
        clip_norm: Optional positive float, the largest global norm of a gradient. Default: no clipping.
        l2: Float, at least 0. The gradient of `l2 / 2` times the sum of the squares of all parameters is added before
            clipping. The `weight_decay` of Keras is decoupled from the gradient instead. Defaults to 0.
        average_momentum: See `ClippedSGD`.
        average_from_start: See `ClippedSGD`.
        **kwargs: Further arguments of `keras.optimizers.Adam`.

    Raises:
        ValueError: If an argument is outside its range.

    Example:

    >>> import keras, numpy as np, keras_tying as kt
    >>> optimizer = kt.optimizers.ClippedAdam(0.1, beta_1=0.0, clip_norm=2.5)
    >>> weights = keras.Variable(np.zeros(2, "float32"))
    >>> optimizer.apply([keras.ops.array([3.0, -4.0])], [weights])
    >>> float(optimizer.gradient_norm), keras.ops.convert_to_numpy(weights).round(4).tolist()
    (5.0, [-0.10000000149011612, 0.10000000149011612])

    References:
        Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015. Melis, Dyer and Blunsom, On the State of the
        Art of Evaluation in Neural Language Models, 2018, section 4.
    """

    def __init__(
        self,
        learning_rate=0.001,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-7,
        *,
        clip_norm=None,
        l2=0.0,
        average_momentum=None,
        average_from_start=True,
        name="clipped_adam",
        **kwargs,
    ):
        check_number("l2", l2, least=0)
        super().__init__(
            learning_rate,
            beta_1,
            beta_2,
            epsilon,
            clip_norm=clip_norm,
            average_momentum=average_momentum,
            average_from_start=average_from_start,
            name=name,
            **kwargs,
        )
        self.l2 = l2

    def apply(self, grads, trainable_variables=None):
        trainable_variables = _as_list(trainable_variables)
        grads = [gradient if gradient is None else ops.convert_to_tensor(gradient) for gradient in grads]
        if self.l2:
            variables = variables_of(self) if trainable_variables is None else trainable_variables
            l2 = self.l2 * (self.loss_scale_factor or 1)
            grads = [
                gradient if gradient is None else gradient + l2 * ops.stop_gradient(variable)
                for gradient, variable in zip(grads, variables, strict=True)
            ]
        super().apply(grads, trainable_variables)

    def update_step(self, gradient, variable, learning_rate):
        adam_step(self, gradient * ops.cast(self._clip_factor, gradient.dtype), variable, learning_rate)

    def get_config(self):
        return {**super().get_config(), "l2": self.l2}
