"""The private names of Keras that the library uses.

This module reads or overrides names that Keras does not document, because there are no public ones. No other module of
the library does so. `tests/backend/test_keras_internals.py` fails if a new version of Keras changes one of these names.
"""

from typing import Any

import keras


def set_mask(tensor, mask):
    """Sets the mask of a tensor.

    `Tensor._keras_mask`: the public `compute_mask` does not receive the argument `reverse` of `TiedEmbedding`, and
    float inputs can be ids as well as hidden states.
    """
    tensor._keras_mask = mask


def compiled_metrics(model):
    """The metrics that were passed to `compile`, as one metric, or `None`.

    `Model._compile_metrics`: the public `Model.metrics` contains the metrics of layers as well.
    """
    return model._compile_metrics


def variables_of(optimizer):
    """The model variables that a built optimizer trains.

    `Optimizer._trainable_variables`: the public `Optimizer.variables` are the optimizer's state, and `apply` can be
    called without variables.
    """
    return optimizer._trainable_variables


def replace_seed_generator(layer, kind):
    """Replaces the seed generator of a Keras layer by one of another class with the same state.

    `Layer._tracker`: a layer tracks the variables of every seed generator it was given, and a built layer accepts no
    new one. `SeedGenerator`: its whole state is in its attributes.

    Args:
        layer: A layer with a `seed_generator`.
        kind: A subclass of `keras.random.SeedGenerator`.
    """
    stock, tracker = layer.seed_generator, layer._tracker
    generator = kind.__new__(kind)
    vars(generator).update(vars(stock))
    was_locked = tracker.locked
    tracker.unlock()
    tracker.untrack(stock)
    layer.seed_generator = generator
    if was_locked:
        tracker.lock()


class LSTMLoop(keras.layers.LSTM):
    """The LSTM layer of Keras with a replaceable loop, and dropout masks drawn only in training.

    `LSTM.inner_loop` and `RNN._maybe_config_dropout_masks`: `call` of Keras handles states, casts, masks and outputs
    around the loop.
    """

    def run_loop(self, sequences, initial_state, mask, training):
        """The last output `[B, H]`, the outputs `[B, T, H]` and the last states of inputs `[B, T, I]`."""
        return super().inner_loop(sequences, initial_state, mask, training=training)

    def inner_loop(self, sequences, initial_state, mask, training=False):
        return self.run_loop(sequences, initial_state, mask, training)

    def _maybe_config_dropout_masks(self, *_):
        """Draws no masks: Keras draws them for inference as well. `run_loop` has the argument `training`."""


class QuantizableEmbedding(keras.layers.ReversibleEmbedding):
    """The reversible embedding of Keras, in which `finish` also applies to quantized logits.

    `ReversibleEmbedding._int8_call`, `_int4_call`: Keras applies the soft cap there, before a bias can be added.
    `Layer._not_implemented_error`: the error that other layers raise.
    """

    logit_soft_cap: float | None

    def finish(self, logits):
        """Logits from the products with the matrix."""
        raise NotImplementedError

    def quantized_product(self, inputs):
        """Products `[..., V]` of `inputs` `[..., H]` with the quantized matrix."""
        parent_call = super()._int8_call if self.quantization_mode == "int8" else super()._int4_call
        soft_cap = self.logit_soft_cap
        self.logit_soft_cap = None  # applied in `finish`, after the bias
        try:
            return parent_call(inputs, reverse=True)
        finally:
            self.logit_soft_cap = soft_cap

    def _int8_call(self, inputs, reverse=False):
        return self.finish(self.quantized_product(inputs)) if reverse else super()._int8_call(inputs)

    def _int4_call(self, inputs, reverse=False):
        return self.finish(self.quantized_product(inputs)) if reverse else super()._int4_call(inputs)

    def check_quantizable(self, kind):
        """Raises NotImplementedError for subclasses of `kind`, which may override the computation."""
        if type(self) is not kind:
            raise self._not_implemented_error(self.quantize)


class BuiltModel(keras.Model):
    """A model that builds itself before `fit`, for training on several replicas.

    `TensorFlowTrainer._maybe_symbolic_build`: there `fit` averages the first batches of the replicas, which fails on
    several machines, and loses these batches of an iterator. `Trainer._symbolic_build` builds compiled metrics.
    """

    def build_for_fit(self, first_batch):
        """Builds the model for `fit`, or returns `False` to let Keras do it.

        `first_batch()` reads a batch of one replica.
        """
        return False

    def build_metrics(self, batch):
        """Builds the metrics that were passed to `compile` from a batch."""
        self._symbolic_build(data_batch=batch)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        def first_batch():
            return data_batch or self.first_of_replicas(next(iter(iterator))[2])

        if not self.build_for_fit(first_batch):
            super()._maybe_symbolic_build(iterator, data_batch)

    def first_of_replicas(self, batches):
        """The first batch of an iterator, for one replica."""
        raise NotImplementedError


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
        super().apply(self.sum_gradients(grads), trainable_variables)  # type: ignore[misc]


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
