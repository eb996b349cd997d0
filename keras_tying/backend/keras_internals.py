"""What the library uses of Keras beyond its public interface.

Everything here reads or overrides a name that Keras does not document, for want of a public one. Nothing else in the
library does. `tests/backend/test_keras_internals.py` fails where a new version of Keras has changed one of these names.
"""

from typing import Any

import keras


def set_mask(tensor, mask):
    """Says which steps of a layer's output count.

    `Tensor._keras_mask`: a layer announces masks by `compute_mask`, which is not told whether `TiedEmbedding` was
    called in reverse, and float inputs may be ids as well as hidden states.
    """
    tensor._keras_mask = mask


def compiled_metrics(model):
    """The metrics that `compile` was given, as one metric, or `None`.

    `Model._compile_metrics`: `Model.metrics` has those of layers as well.
    """
    return model._compile_metrics


def variables_of(optimizer):
    """The variables a built optimizer trains.

    `Optimizer._trainable_variables`: `Optimizer.variables` are its own, and `apply` may be called without variables.
    """
    return optimizer._trainable_variables


def replace_seed_generator(layer, kind):
    """Makes a layer of Keras draw from a seed generator of another class, with the state of the one it has.

    `Layer._tracker`: a layer counts the variables of every seed generator it was ever given, and a built layer takes no
    new one. `SeedGenerator`: all it knows is in its attributes.

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
    """The LSTM layer of Keras with a loop that a subclass may replace, and dropout masks drawn in training only.

    `LSTM.inner_loop` and `RNN._maybe_config_dropout_masks`: what `call` does around the loop (states, casts, masks,
    what is returned) is not to be written again.
    """

    def run_loop(self, sequences, initial_state, mask, training):
        """The last output `[B, H]`, the outputs `[B, T, H]` and the last states of inputs `[B, T, I]`."""
        return super().inner_loop(sequences, initial_state, mask, training=training)

    def inner_loop(self, sequences, initial_state, mask, training=False):
        return self.run_loop(sequences, initial_state, mask, training)

    def _maybe_config_dropout_masks(self, *_):
        """Draws nothing, where Keras draws masks for inference too: `run_loop` knows whether it trains."""


class QuantizableEmbedding(keras.layers.ReversibleEmbedding):
    """The reversible embedding of Keras whose quantized logits a subclass finishes, as those in full precision.

    `ReversibleEmbedding._int8_call`, `_int4_call`: Keras caps logits there, before a bias could be added.
    `Layer._not_implemented_error`: the error that other layers raise.
    """

    logit_soft_cap: float | None

    def finish(self, logits):
        """Logits as the layer returns them, from the products with the matrix."""
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
        """Raises NotImplementedError for subclasses of `kind`, which may compute something else."""
        if type(self) is not kind:
            raise self._not_implemented_error(self.quantize)


class BuiltModel(keras.Model):
    """A model that builds itself before `fit`, for training on several replicas.

    `TensorFlowTrainer._maybe_symbolic_build`: `fit` averages the replicas' first batches there, which fails on several
    machines, and which loses them where batches are read but once. `Trainer._symbolic_build` builds compiled metrics.
    """

    def build_for_fit(self, first_batch):
        """Builds what `fit` needs; `first_batch()` reads a batch of one replica. `False` leaves it to Keras."""
        return False

    def build_metrics(self, batch):
        """Builds the metrics that `compile` was given from a batch."""
        self._symbolic_build(data_batch=batch)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        def first_batch():
            return data_batch or self.first_of_replicas(next(iter(iterator))[2])

        if not self.build_for_fit(first_batch):
            super()._maybe_symbolic_build(iterator, data_batch)

    def first_of_replicas(self, batches):
        """The first batch of an iterator, as one replica sees it."""
        raise NotImplementedError


# Optimizers. Keras clips the gradient of each replica and adds up the clipped ones. To clip the sum, gradients are
# added up before `apply`, and `TFOptimizer._all_reduce_sum_gradients` must not add them up again: no argument says so.


class _GivenSums:
    """Of an optimizer whose gradients are summed over replicas already."""

    def _all_reduce_sum_gradients(self, grads_and_vars):
        return list(grads_and_vars)


class _SumsGradients:
    """Of an optimizer that adds up gradients over replicas before all else."""

    sum_gradients: Any

    def apply(self, grads, trainable_variables=None):
        super().apply(self.sum_gradients(grads), trainable_variables)  # type: ignore[misc]


def summing_optimizer(optimizer, sum_gradients):
    """A copy of an optimizer that adds up gradients over replicas before it measures, clips or checks them.

    Args:
        optimizer: An optimizer that has not trained yet, or one that this function returned.
        sum_gradients: Takes a list of gradients, of which some may be `None`, and returns their sums over replicas.

    Raises:
        ValueError: If the optimizer has variables of its own already, which the copy would not have.
    """
    if isinstance(optimizer, _SumsGradients):
        return optimizer
    if optimizer.built:
        raise ValueError(
            "Several replicas train with a copy of the optimizer, `model.optimizer`. Compile with an optimizer that "
            f"has not trained yet, or with `model.optimizer`. Received: a built {type(optimizer).__name__}"
        )
    added = {"sum_gradients": staticmethod(sum_gradients)}
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        inner = optimizer.inner_optimizer
        inner = _subclass(type(inner), _GivenSums).from_config(inner.get_config())
        return _loss_scale(optimizer, inner, _subclass(keras.optimizers.LossScaleOptimizer, _SumsGradients, **added))
    kind = _subclass(type(optimizer), _SumsGradients, _GivenSums, **added)
    return kind.from_config(optimizer.get_config())


def plain_optimizer(optimizer):
    """A copy of the optimizer that `summing_optimizer` was given, without its variables."""
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        inner = plain_optimizer(optimizer.inner_optimizer)
        return _loss_scale(optimizer, inner, keras.optimizers.LossScaleOptimizer)
    return getattr(type(optimizer), "plain", type(optimizer)).from_config(optimizer.get_config())


def _subclass(kind, *mixins, **attributes):
    return type(kind.__name__, (*mixins, kind), {"plain": kind, **attributes})


def _loss_scale(optimizer, inner, kind):
    config = optimizer.get_config()
    return kind(inner, **{name: value for name, value in config.items() if name != "inner_optimizer"})
