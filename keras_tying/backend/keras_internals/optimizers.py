"""What an optimizer keeps of its variables, all gradients of an update, and their sums over replicas."""

from typing import Any

import keras


def variables_of(optimizer):
    """The model variables that a built optimizer trains.

    `Optimizer._trainable_variables`: the public `Optimizer.variables` are the optimizer's state, and `apply` can be
    called without variables.
    """
    return optimizer._trainable_variables


def without_loss_scale(optimizer):
    """The optimizer that a `LossScaleOptimizer` wraps; any other one is returned as it is.

    `LossScaleOptimizer.inner_optimizer`: Keras documents it as an argument only.
    """
    return getattr(optimizer, "inner_optimizer", optimizer)


def layout_of(variable):
    """The layout of a variable over the devices of JAX, or `None`.

    `Variable._layout`: Keras passes it on to moments of optimizers; there is no public name.
    """
    return getattr(variable, "_layout", None)


def adam_moments(optimizer, variable):
    """Momentum and velocity that an Adam optimizer keeps of `variable`.

    `Adam._momentums`, `Adam._velocities`: there is no public way to them.
    """
    index = optimizer._get_variable_index(variable)
    return optimizer._momentums[index], optimizer._velocities[index]


def slots_of(optimizer):
    """Pairs of a variable of the model and the one that a built optimizer keeps for it, by name of the slot.

    They are attributes of an optimizer, lists as long as `Optimizer._trainable_variables`: Keras has no list of them.
    """
    optimizer = without_loss_scale(optimizer)
    trained, found = variables_of(optimizer), {}
    for name, slots in vars(optimizer).items():
        if not isinstance(slots, list) or slots is trained or len(slots) != len(trained):
            continue
        pairs = [(each, slot) for each, slot in zip(trained, slots, strict=True) if slot is not None]
        if all(isinstance(slot, keras.Variable) and slot.shape == each.shape for each, slot in pairs):
            found[name] = pairs
    return found


def copy_decay_exclusions(optimizer, copy, variables, of_copy):
    """Makes a copy of an optimizer leave the same variables out of weight decay.

    `Optimizer._use_weight_decay`: no configuration has what was passed to `exclude_from_weight_decay`. Names that were
    passed are not passed on, as variables of the copy can have others.

    Args:
        optimizer: The optimizer.
        copy: The copy, which has not trained yet.
        variables: Variables of the model.
        of_copy: Takes some of them and returns those that the copy trains in their place.
    """
    optimizer, copy = without_loss_scale(optimizer), without_loss_scale(copy)
    if excluded := of_copy([each for each in variables if not optimizer._use_weight_decay(each)]):
        copy.exclude_from_weight_decay(excluded)


class UpdateOptimizer(keras.optimizers.Optimizer):
    """An optimizer with a method that sees all gradients of an update.

    `Optimizer._clip_gradients`: the public `update_step` sees one gradient at a time. The public `apply` sees those of
    a batch, which are scaled if there is a `loss_scale_factor`, and one of several of an update if there are
    `gradient_accumulation_steps`.
    """

    def _clip_gradients(self, grads):
        grads = super()._clip_gradients(grads)
        self.before_update(grads)
        return grads

    def before_update(self, gradients):
        """Receives the gradients of an update, before it. Default: nothing is done."""


# Keras clips the gradient of each replica and sums the clipped gradients. To clip the sum, `summing_optimizer` sums the
# gradients before `apply` and overrides `TFOptimizer._all_reduce_sum_gradients`, so that they are not summed again.


class _GivenSums:
    """Mixin for an optimizer whose gradients are already summed over replicas."""

    def _all_reduce_sum_gradients(self, grads_and_vars):
        return list(grads_and_vars)


class _SumsGradients:
    """Mixin for an optimizer that sums gradients over replicas before `apply`."""

    sum_gradients: Any

    def apply(self, grads, trainable_variables=None):
        super().apply(self.sum_gradients(grads), trainable_variables)  # type: ignore[misc]  # a mixin has no `apply`


def summing_optimizer(optimizer, sum_gradients):
    """A copy of an optimizer that sums gradients over replicas before it clips or checks them.

    Args:
        optimizer: An optimizer that has not trained yet, or a result of this function.
        sum_gradients: Takes a list of gradients, in which items can be `None`, and returns their sums over replicas.

    Raises:
        ValueError: If the optimizer is built: the copy would not have its variables.
    """
    if isinstance(optimizer, _SumsGradients):
        return optimizer
    if optimizer.built:
        raise ValueError(
            "With several replicas the model trains with a copy of the optimizer. Compile with an optimizer that has "
            f"not trained yet, or with `model.optimizer`. Received: a built {type(optimizer).__name__}"
        )
    added = {"sum_gradients": staticmethod(sum_gradients)}
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        inner = optimizer.inner_optimizer
        inner = _subclass(type(inner), _GivenSums).from_config(inner.get_config())
        return _loss_scale(optimizer, inner, _subclass(keras.optimizers.LossScaleOptimizer, _SumsGradients, **added))
    kind = _subclass(type(optimizer), _SumsGradients, _GivenSums, **added)
    return kind.from_config(optimizer.get_config())


def plain_optimizer(optimizer):
    """A copy, without variables, of the optimizer that was passed to `summing_optimizer`."""
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        inner = plain_optimizer(optimizer.inner_optimizer)
        return _loss_scale(optimizer, inner, keras.optimizers.LossScaleOptimizer)
    return getattr(type(optimizer), "plain", type(optimizer)).from_config(optimizer.get_config())


def _subclass(kind, *mixins, **attributes):
    return type(kind.__name__, (*mixins, kind), {"plain": kind, **attributes})


def _loss_scale(optimizer, inner, kind):
    config = optimizer.get_config()
    return kind(inner, **{name: value for name, value in config.items() if name != "inner_optimizer"})
