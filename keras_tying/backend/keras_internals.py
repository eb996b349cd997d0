"""The private names of Keras that the library uses.

This module reads or overrides names that Keras does not document, because there are no public ones. No other module of
the library does so. `tests/backend/test_keras_internals.py` fails if a new version of Keras changes one of these names.
"""

from typing import Any

import keras
from keras import ops
from keras.src import backend
from keras.src.backend.common import global_state
from keras.src.quantizers.utils import should_quantize_layer
from keras.src.saving import serialization_lib


def set_mask(tensor, mask):
    """Sets the mask of a tensor.

    `set_keras_mask`: the public `compute_mask` does not receive the argument `reverse` of `TiedEmbedding`, and float
    inputs can be ids as well as hidden states.
    """
    backend.set_keras_mask(tensor, mask)


def mask_of(tensor):
    """The mask of a tensor, or `None`.

    `get_keras_mask`: the public argument `mask` exists for layers only, not for losses.
    """
    return backend.get_keras_mask(tensor)


def variables_as_they_are():
    """A context in which variables are not cast to the compute dtype.

    `AutocastScope(None)`: a layer with `autocast=False` has its variables cast if it is called outside a model, or in a
    model that has no mixed precision.
    """
    return backend.AutocastScope(None)


def layers_before(tensor):
    """The layers whose outputs a symbolic tensor depends on, the nearest first, with those of nested models.

    `KerasTensor._keras_history`, `Operation._inbound_nodes` and `Node.input_tensors`: a public `keras.Model` of the
    tensor fails where layers of two models have one name.
    """
    layers, seen, nodes = [], set(), [tensor]
    while nodes:
        history = getattr(nodes.pop(0), "_keras_history", None)
        if history is None or history.operation is None or (id(history.operation), history.node_index) in seen:
            continue
        seen.add((id(history.operation), history.node_index))
        layers += _with_nested(history.operation)
        nodes += history.operation._inbound_nodes[history.node_index].input_tensors
    return layers


def _with_nested(operation):
    nested = reversed(operation.layers) if isinstance(operation, keras.Model) else ()
    return [operation, *(layer for each in nested for layer in _with_nested(each))]


NUMBER_IN_FILE = "number_in_file"
"""Key of the number of a layer in its configuration, see `number_in_file`."""


def number_in_file(layer):
    """A number of a layer for the file that Keras writes at the moment, or `None` if it writes none.

    `shared_objects/id_to_config_map`: Keras adds a number of its own from the second place of an object on, and then
    loads the object into all places. Here it is made to take each place for the first.
    """
    if not is_saving():
        return None
    global_state.get_global_attribute("shared_objects/id_to_config_map").pop(id(layer), None)
    return id(layer)


def is_saving():
    """Whether Keras writes a file of a model.

    `shared_objects/id_to_config_map`: as in `is_loading`.
    """
    return global_state.get_global_attribute("shared_objects/id_to_config_map") is not None


def keep_shared(layer):
    """Makes a file that Keras writes at the moment contain a layer of Keras once, if it has several places.

    `record_object_after_serialization`: Keras numbers an object from its second place on and adds the number to the
    first later, where it is lost if the configuration has been copied meanwhile, as that of a nested model.
    """
    serialization_lib.record_object_after_serialization(layer, {"module": None})


def record_loaded(layer, number):
    """Makes `shared_object` find the first layer with this number while Keras loads a file."""
    if number is not None and serialization_lib.get_shared_object(number) is None:
        serialization_lib.record_object_after_deserialization(layer, number)


def shared_object(config):
    """The object of a configuration that was already loaded from the same file, or `None`.

    `get_shared_object`: the public `deserialize_keras_object` makes a second object where there is none.
    """
    number = config.get("shared_object_id", config["config"].get(NUMBER_IN_FILE))
    return None if number is None else serialization_lib.get_shared_object(number)


def was_called(layer):
    """Whether a layer was called on a symbolic tensor.

    `Operation._inbound_nodes`: the public `Layer.output` raises an error instead.
    """
    return bool(layer._inbound_nodes)


def forget_calls(layer):
    """Makes the next call of a layer its first one for a functional model, which loads calls by number.

    `Operation._inbound_nodes`: as in `was_called`.
    """
    layer._inbound_nodes.clear()


def is_loading():
    """Whether Keras loads a model from a file, so that weights will follow.

    `shared_objects/id_to_obj_map`: the objects that `get_shared_object` looks up exist only meanwhile.
    """
    return global_state.get_global_attribute("shared_objects/id_to_obj_map") is not None


def sharing_scope():
    """A context in which configurations refer to layers with several places, as in a file that Keras writes and loads.

    `ObjectSharingScope`: the public functions that serialize and deserialize one object do not look outside of it.
    """
    return serialization_lib.ObjectSharingScope()


def compiled_metrics(model):
    """The metrics that were passed to `compile`, as one metric, or `None`.

    `Model._compile_metrics`: the public `Model.metrics` contains the metrics of layers as well.
    """
    return model._compile_metrics


def take_loss_as_built(model):
    """Keeps `fit` from building the compiled loss, which Keras does by calling it on the logits of a first batch.

    `Model._compile_loss.built`: a loss that needs hidden states cannot be called on logits.
    """
    model._compile_loss.built = True


def variables_of(optimizer):
    """The model variables that a built optimizer trains.

    `Optimizer._trainable_variables`: the public `Optimizer.variables` are the optimizer's state, and `apply` can be
    called without variables.
    """
    return optimizer._trainable_variables


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


def slots_of(optimizer):
    """Pairs of a variable of the model and the one that a built optimizer keeps for it, by name of the slot.

    They are attributes of an optimizer, lists as long as `Optimizer._trainable_variables`: Keras has no list of them.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of a LossScaleOptimizer
    trained, found = variables_of(optimizer), {}
    for name, slots in vars(optimizer).items():
        if not isinstance(slots, list) or slots is trained or len(slots) != len(trained):
            continue
        pairs = [(each, slot) for each, slot in zip(trained, slots, strict=True) if slot is not None]
        if all(isinstance(slot, keras.Variable) and slot.shape == each.shape for each, slot in pairs):
            found[name] = pairs
    return found


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


class ResumableSeedGenerator(keras.random.SeedGenerator):
    """A seed generator whose state determines dropout masks on PyTorch as well.

    `SeedGenerator._initial_seed`: where it is `None`, the dropout of Keras on PyTorch draws from the global generator
    of PyTorch, whose state is in no checkpoint.
    """

    @property
    def _initial_seed(self):
        return self.__dict__["_initial_seed"] or 0

    @_initial_seed.setter
    def _initial_seed(self, seed):
        self.__dict__["_initial_seed"] = seed

    def get_config(self):
        return {**super().get_config(), "seed": self.__dict__["_initial_seed"]}


def layer_of_output(tensor):
    """The layer that a symbolic tensor is an output of, and the symbolic tensor that it was called on.

    `KerasTensor._keras_history`, `Operation._inbound_nodes` and `Node.input_tensors`, as for `layers_before`.
    """
    history = tensor._keras_history
    return history.operation, history.operation._inbound_nodes[history.node_index].input_tensors[0]


def leaf_layers(model):
    """The layers of a model that contain no layers, always in the same order: those that `Model.quantize` visits.

    `Layer._flatten_layers`: the public `Model.layers` are the outermost layers, without layers in lists.
    """
    return [layer for layer in model._flatten_layers() if len(list(layer._flatten_layers())) == 1]


def inner_layers(model):
    """The layers of a model and those that they contain, in nested models and lists too, always in the same order.

    `Layer._flatten_layers`: as in `leaf_layers`.
    """
    return list(model._flatten_layers(include_self=False))


def layers_to_quantize(model, filters):
    """The layers that `Model.quantize` quantizes with `filters`.

    `should_quantize_layer`: the public `Model.quantize` changes layers before it reaches one that cannot be quantized.
    """
    return [layer for layer in leaf_layers(model) if should_quantize_layer(layer, filters)]


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
    """The reversible embedding of Keras, in which both roles of a quantized matrix have mask, LoRA delta and gradient.

    `ReversibleEmbedding._int8_call`, `_int4_call`: Keras adds the LoRA delta to looked-up vectors and not to scores,
    sets no mask, passes no gradient to quantized hidden states, and applies the soft cap before a bias can be added.
    `Embedding._embeddings`: Keras looks for the variable in `embeddings`, which it unpacks.
    `Layer._not_implemented_error`: the error that other layers raise. `load_own_variables`: see there.
    """

    tie_weights: bool
    logit_soft_cap: float | None
    lora_enabled: bool
    lora_rank: int | None

    @property
    def embeddings(self):
        """The matrix `[V, H]` that embeds words, with the LoRA delta.

        `Embedding.embeddings`: Keras rounds the sum to the compute dtype, and with it the gradients of both factors.
        """
        if not self.built or not self.lora_enabled or self.quantization_mode is not None:
            return super().embeddings
        delta = ops.matmul(self.lora_embeddings_a, self._scaled_lora_b())
        return ops.add(self._embeddings, delta)

    def load_own_variables(self, store):
        """Loads a matrix into which Keras merged the delta of LoRA when it saved, and starts LoRA anew.

        Keras sets both factors of the delta to zero, from where neither has a gradient.
        """
        super().load_own_variables(store)
        if self.lora_enabled:
            factor = self.lora_embeddings_a
            factor.assign(keras.initializers.HeUniform()(factor.shape, factor.dtype))

    def finish(self, logits):
        """Logits from the products with the matrix."""
        raise NotImplementedError

    def mark_padding(self, vectors, ids):
        """`vectors` of `ids` with the mask of `mask_zero`."""
        if self.mask_zero:
            set_mask(vectors, ops.not_equal(ids, 0))
        return vectors

    def dequantized_output(self):
        """The quantized matrix of scores as floats `[V, H]`, with the LoRA delta if it is that of lookups."""
        if self.tie_weights:
            return self._vectors(ops.arange(self.input_dim, dtype="int32"))
        return ops.transpose(self._products(ops.eye(self.output_dim)))

    def _int8_call(self, inputs, reverse=False):
        if reverse:
            return self.finish(self._scores(inputs))
        return self.mark_padding(ops.cast(self._vectors(inputs), self.compute_dtype), inputs)

    _int4_call = _int8_call

    def _vectors(self, ids):
        """Looked-up vectors `[..., H]`."""
        vectors = self._without_lora(ids)
        if not self.lora_enabled:
            return vectors
        ids = ops.cast(ids, "int32")
        delta = ops.matmul(ops.take(self.lora_embeddings_a, ids, axis=0), self._scaled_lora_b())
        return vectors + ops.cast(delta, vectors.dtype)

    def _scores(self, hidden):
        """Products `[..., V]` of hidden states `[..., H]` with the matrix of scores, without bias and soft cap."""
        dtype = self.reverse_dtype or self.compute_dtype
        hidden = ops.cast(hidden, dtype)
        scores = ops.cast(self._products(hidden), dtype)
        if not (self.lora_enabled and self.tie_weights):
            return scores
        inner = ops.matmul(hidden, ops.transpose(ops.cast(self._scaled_lora_b(), dtype)))
        return scores + ops.matmul(inner, ops.transpose(ops.cast(self.lora_embeddings_a, dtype)))

    def _scaled_lora_b(self):
        return (self.lora_alpha / self.lora_rank) * ops.convert_to_tensor(self.lora_embeddings_b)

    def _products(self, hidden):
        """Products of hidden states with the quantized matrix, with the gradient of the dequantized matrix."""

        @ops.custom_gradient
        def products(hidden):
            def gradient(*arguments, upstream=None):
                upstream = arguments[0] if upstream is None else upstream
                kernel = self._without_lora(ops.eye(self.output_dim), reverse=True)
                return ops.cast(ops.matmul(upstream, ops.transpose(ops.cast(kernel, upstream.dtype))), hidden.dtype)

            return self._without_lora(hidden, reverse=True), gradient

        return products(hidden)

    def _without_lora(self, inputs, reverse=False):
        """Results of Keras without LoRA delta and soft cap."""
        parent_call = super()._int8_call if self.quantization_mode == "int8" else super()._int4_call
        soft_cap, lora_enabled = self.logit_soft_cap, self.lora_enabled
        self.logit_soft_cap, self.lora_enabled = None, False
        try:
            return parent_call(inputs, reverse=reverse)
        finally:
            self.logit_soft_cap, self.lora_enabled = soft_cap, lora_enabled

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
