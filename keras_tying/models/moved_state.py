"""Moves the weights of a model and the state of its optimizer into a changed copy."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_tying.backend.compilation import write_back
from keras_tying.backend.keras_internals.layers import leaf_layers
from keras_tying.backend.keras_internals.optimizers import copy_decay_exclusions, slots_of, without_loss_scale
from keras_tying.backend.keras_internals.training import compiled_objects
from keras_tying.backend.replicas import build_optimizer, scope_of

COUNTS = ("input_updates", "output_updates")
"""Variables of `SkipGram` itself with a number for each word."""

FROZEN_BY_LORA = ("embeddings", "kernel")
"""Weights that `enable_lora` freezes."""
AVERAGES = ("averages", "_model_variables_moving_average")
"""Slots of averaged weights: of the optimizers of this library, and of those of Keras."""
Place = tuple[str, str]
"""Where a variable is: the argument of the model that takes its layer, `""` for a count, and the variable's name."""
Values = dict[Place, np.ndarray]
"""Values of the variables of embeddings, or numbers of an optimizer about each of their elements."""
Name = Place | int
"""A place, or the number of a weight among those outside of embeddings."""


class Change(NamedTuple):
    """What becomes of a model and its embeddings.

    Attributes:
        config: Changes the configuration of the model.
        weights: The new weights from the old ones.
        moments: The new moments of gradients, in an optimizer, and counts of words, from the old ones.
    """

    config: Callable[[dict[str, Any]], None]
    weights: Callable[[Values], Values]
    moments: Callable[[Values], Values]


def changed_copy(model, change):
    """A copy of a model after a change, compiled as the model and with the state of its optimizer."""
    write_back(model)
    config = model.get_config()
    if quantized := [each for each in leaf_layers(model) if each.quantization_mode is not None]:
        raise ValueError(
            "The model must not be quantized: change it first and quantize it then. "
            f"Received: layer {quantized[0].name!r} with quantization_mode={quantized[0].quantization_mode!r}"
        )
    change.config(config)
    with scope_of(model):  # on the replicas of the model
        copy = type(model).from_config(config)
        names = _names(model) | _names(copy)
        weights = _named(zip(model.weights, model.weights, strict=True), names)
        new_weights = _after(change.weights, weights)
        frozen = _carried(_frozen(model, names), weights, change)
        _check_weights(copy, names, new_weights)
        for weight in copy.weights:
            weight.assign(new_weights[names[id(weight)]])
            if names[id(weight)] in frozen:
                weight.trainable = False
        if model.compiled:
            _compile_alike(copy, model, change, names, weights)
            if model.optimizer is not None and model.optimizer.built:
                _copy_state(model, copy, change, names, weights)
    return copy


def _compile_alike(copy, model, change, names, weights):
    """Compiles a copy as the model, also with what no configuration has. For the arguments see `_copy_state`."""
    with keras.saving.custom_object_scope(compiled_objects(model)):
        copy.compile_from_config(model.get_compile_config())
    if model.optimizer is None:
        return
    scaled = (isinstance(each.optimizer, keras.optimizers.LossScaleOptimizer) for each in (copy, model))
    if [*scaled] == [True, False] and copy.dtype_policy == model.dtype_policy:  # `auto_scale_loss=False`
        copy.optimizer = copy.optimizer.inner_optimizer

    def of_copy(variables):
        carried = _carried({names[id(each)] for each in variables}, weights, change)
        return [each for each in copy.weights if names[id(each)] in carried]

    copy_decay_exclusions(model.optimizer, copy.optimizer, model.weights, of_copy)


def _carried(chosen, weights, change) -> set[Name]:
    """Names of the weights of a copy that take the place of those whose names are in `chosen`."""
    if not chosen:  # mostly: the marks are as large as the weights
        return set()
    marks = {name: np.full(values.shape, name in chosen, "float32") for name, values in weights.items()}
    return {name for name, mark in _after(change.moments, marks).items() if mark.any()}


def _check_weights(copy, names, values):
    """Raises ValueError if the copy has other weights than there are values, or of other sizes."""
    if len(copy.weights) != len(values) or not values.keys() <= {names[id(each)] for each in copy.weights}:
        raise ValueError(
            "The configuration of the model must say how its embedding is tied and which layers have LoRA: make a new "
            f"model with this change. Expected: a copy with {len(values)} weights. Received: one with "
            f"{len(copy.weights)}"
        )
    for weight in copy.weights:
        if (shape := values[names[id(weight)]].shape) != tuple(weight.shape):
            raise ValueError(
                "Only embeddings can have a size that changes. Make the model anew, without the layer that depends on "
                f"it. Received: {weight.path}, whose shape {shape} would become {tuple(weight.shape)}"
            )


def _copy_state(model, copy, change, names, weights):
    """Gives the optimizer of `copy` the state of that of `model`, after the change.

    `names` are those of the weights of both, `weights` the values of the model's by name.
    """
    old, new = model.optimizer, copy.optimizer
    build_optimizer(copy)
    if type(old) is not type(new):  # one is a LossScaleOptimizer, whose scale the other does not need
        old, new = without_loss_scale(old), without_loss_scale(new)
    old_slots, new_slots = slots_of(old), slots_of(new)
    numbers = _numbers(old, old_slots)
    if others := [each.path for each in numbers if len(each.shape)]:
        raise ValueError(
            "The state of an optimizer can be moved if its arrays have the shapes of the weights, as with Adam or SGD. "
            f"Compile the model with such an optimizer first. Received: {type(old).__name__} with {others[0]}"
        )
    moved: dict[str, dict[Name, np.ndarray]] = {}
    for slot_name, slots in old_slots.items():
        values = _named(slots, names)
        if slot_name in AVERAGES:  # of weights that were not trained, the average is the weight
            values = _after(change.weights, weights | values)
        else:
            start = _start(new_slots[slot_name])
            values = _after(change.moments, {name: value - start for name, value in values.items()})
            values = {name: value + start for name, value in values.items()}
        moved[slot_name] = values
    _check_rules(type(old).__name__, new_slots, moved, names)
    for slot_name, values in moved.items():
        for weight, slot in new_slots[slot_name]:
            if (name := names[id(weight)]) in values:
                slot.assign(values[name])
    for before, after in zip(numbers, _numbers(new, new_slots), strict=True):
        after.assign(ops.convert_to_numpy(before))


def _check_rules(optimizer, slots, moved, names):
    """Raises ValueError if the optimizer of a copy keeps something of a weight that was trained without it."""
    trained = {name for slot_name, values in moved.items() if slot_name not in AVERAGES for name in values}
    for slot_name, pairs in slots.items():
        left_out = trained - moved[slot_name].keys()
        for weight, _ in pairs:
            if names[id(weight)] in left_out:
                raise ValueError(
                    "The optimizer must train each variable by the same rule in the copy, where its path is another: "
                    "compile the model with an optimizer that has one rule, such as Adam or SGD, first. Received: "
                    f"{optimizer}, which would train {weight.path} by another rule than before"
                )


def _start(slots):
    """What a new optimizer has in a slot, for each weight the same number: mostly 0."""
    return ops.convert_to_numpy(slots[0][1]).flat[0] if slots else 0


def _frozen(model, names) -> set[Name]:
    """Names of the weights that are frozen one by one: not with their layer, as its configuration says, or by LoRA."""
    return {
        names[id(weight)]
        for layer in leaf_layers(model)
        if layer.trainable
        for weight in layer.weights
        if not (weight.trainable or (getattr(layer, "lora_enabled", False) and weight.name in FROZEN_BY_LORA))
    }


def _numbers(optimizer, slots):
    """The variables of an optimizer that belong to no variable of the model, such as the number of updates."""
    taken = {id(slot) for pairs in slots.values() for _, slot in pairs}
    return [each for each in optimizer.variables if id(each) not in taken]


def _names(model) -> dict[int, Name]:
    """What a weight of a model and that of its copy have in common, by the id of the weight.

    Paths do not: layers of one name have the same, and a layer keeps that of the model that built it.
    """
    names: dict[int, Name] = {
        id(each): (argument, each.name)
        for argument, layer in model.embedding_arguments().items()
        if isinstance(layer, (keras.layers.Embedding, keras.layers.Dense))
        for each in layer.variables
    }
    names |= {id(getattr(model, name)): ("", name) for name in COUNTS if hasattr(model, name)}
    others = [weight for weight in model.weights if id(weight) not in names]
    return names | {id(weight): number for number, weight in enumerate(others)}


def _named(pairs, names) -> dict[Name, np.ndarray]:
    """Values by name, from pairs of a weight and a variable."""
    return {names[id(weight)]: ops.convert_to_numpy(variable) for weight, variable in pairs}


def _after(function, values):
    """Values by name after `function` has changed those of embeddings."""
    others = {name: value for name, value in values.items() if isinstance(name, int)}
    return others | function({name: value for name, value in values.items() if not isinstance(name, int)})


def embedding_layers(model):
    """The embedding layers of a model by the argument that takes them, each once.

    Raises:
        ValueError: If one has no matrix with a row for each word.
    """
    layers = model.embedding_arguments()
    for layer in layers.values():
        if not isinstance(layer, keras.layers.Embedding):
            raise ValueError(
                "Copies with other words, tying or LoRA need a TiedEmbedding or a keras.layers.Embedding, also a "
                f"ReversibleEmbedding. Received: layer {layer.name!r}, of class {type(layer).__name__}"
            )
    return layers
