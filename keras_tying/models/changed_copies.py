"""Copies of a language model with another vocabulary, tied, untied or without LoRA. They train on where it was."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_tying.backend.keras_internals import slots_of
from keras_tying.backend.variables import write_back
from keras_tying.checks import check_integer
from keras_tying.ids import check_ids
from keras_tying.layers import AdaptiveEmbedding

BY_ROW = ("embeddings", "bias", "lora_embeddings_a")
"""Variables of a `TiedEmbedding` whose first axis is the vocabulary; that of `reverse_embeddings` is the last."""
MATRICES = {
    "input": lambda embeddings, reverse: embeddings,
    "output": lambda embeddings, reverse: reverse.T,
    "mean": lambda embeddings, reverse: (embeddings + reverse.T) / 2,
}

Values = dict[str, np.ndarray]
"""Values of the variables of a `TiedEmbedding` by name, or numbers of an optimizer about each of their elements."""


class Change(NamedTuple):
    """What becomes of the embedding of a model.

    Attributes:
        config: Arguments of the embedding that change.
        weights: The new weights from the old ones.
        moments: The new moments of gradients, in an optimizer, from the old ones.
    """

    config: dict[str, Any]
    weights: Callable[[Values], Values]
    moments: Callable[[Values], Values]


def with_rows(model, rows):
    """`LanguageModel.with_rows`."""
    rows = check_ids(rows, model.vocabulary_size)
    if rows.ndim != 1 or not rows.size:
        raise ValueError(f"`rows` must be word ids [V] with at least one. Received: shape={rows.shape}")
    _, first = np.unique(rows, return_index=True)
    copies = np.delete(np.arange(len(rows)), first)

    def weights(old):
        new = {name: _take(name, values, rows) for name, values in old.items()}
        if "bias" in new:
            new["bias"] = new["bias"] - np.log(np.bincount(rows)[rows]).astype(new["bias"].dtype)
        return new

    def moments(old):
        return {name: _without(name, _take(name, values, rows), copies) for name, values in old.items()}

    return _changed(model, Change({"input_dim": len(rows)}, weights, moments))


def resized(model, vocabulary_size):
    """`LanguageModel.resized`."""
    check_integer("vocabulary_size", vocabulary_size)
    added = vocabulary_size - model.vocabulary_size
    if added <= 0:
        return with_rows(model, np.arange(vocabulary_size))
    rows = np.append(np.arange(model.vocabulary_size), np.zeros(added, int))
    new_words = np.arange(model.vocabulary_size, vocabulary_size)

    def weights(old):
        return {name: _with_means(name, values, added) for name, values in old.items()}

    def moments(old):
        return {name: _without(name, _take(name, values, rows), new_words) for name, values in old.items()}

    return _changed(model, Change({"input_dim": vocabulary_size}, weights, moments))


def tied(model, matrix):
    """`LanguageModel.tied_copy`."""
    if matrix not in MATRICES:
        raise ValueError(f"`matrix` must be one of {list(MATRICES)}. Received: matrix={matrix!r}")
    if model.tied:
        raise ValueError("The model must be untied. Received: a tied model; it is what this would make")
    _check_no_lora(model)

    def merge(old):
        reverse = old.pop("reverse_embeddings")
        return {**old, "embeddings": MATRICES[matrix](old["embeddings"], reverse)}

    return _changed(model, Change({"tie_weights": True}, merge, merge))


def untied(model):
    """`LanguageModel.untied_copy`."""
    if not model.tied:
        raise ValueError("The model must be tied. Received: an untied model; it is what this would make")
    _check_no_lora(model)

    def copy(old):
        return {**old, "reverse_embeddings": old["embeddings"].T}

    return _changed(model, Change({"tie_weights": False}, copy, copy))


def without_lora(model):
    """`LanguageModel.without_lora`."""
    _check_one_width(model)
    embedding = model.embedding
    if not embedding.lora_enabled:
        raise ValueError("The embedding must have LoRA. Received: one without; call its enable_lora(rank) first")
    scale = embedding.lora_alpha / embedding.lora_rank

    def merge(old):
        delta = scale * (old.pop("lora_embeddings_a") @ old.pop("lora_embeddings_b"))
        return {**old, "embeddings": old["embeddings"] + delta.astype(old["embeddings"].dtype)}

    def frozen(old):
        return {name: values for name, values in old.items() if not name.startswith("lora")}

    return _changed(model, Change({"lora_rank": None, "lora_alpha": None}, merge, frozen))


def _check_one_width(model):
    if isinstance(model.embedding, AdaptiveEmbedding):
        raise ValueError(
            "Only a model with a TiedEmbedding can be changed, because rows of different widths cannot be exchanged. "
            f"Received: an AdaptiveEmbedding, {model.embedding.name!r}"
        )


def _check_no_lora(model):
    _check_one_width(model)
    if model.embedding.lora_enabled:
        raise ValueError(
            "An embedding with LoRA cannot be tied or untied, because its delta is in both roles of a tied matrix and "
            "in one of an untied one. Call without_lora() first. Received: lora_enabled=True"
        )


def _take(name, values, rows):
    """The values of the words `rows`."""
    if name == "reverse_embeddings":
        return values[:, rows]
    return values[rows] if name in BY_ROW else values


def _without(name, values, words):
    """`values` with zeros for `words`."""
    values = np.array(values)
    if name == "reverse_embeddings":
        values[:, words] = 0
    elif name in BY_ROW:
        values[words] = 0
    return values


def _with_means(name, values, added):
    """`values` with those of new words: the mean of all words."""
    if name not in (*BY_ROW, "reverse_embeddings"):
        return values
    axis = 1 if name == "reverse_embeddings" else 0
    mean = values.mean(axis, keepdims=True, dtype="float32").astype(values.dtype)
    return np.concatenate([values, np.repeat(mean, added, axis)], axis)


def _changed(model, change):
    """A copy of a model after a change of its embedding, compiled as the model and with the state of its optimizer."""
    _check_one_width(model)
    if model.embedding.quantization_mode is not None:
        raise ValueError(
            "The embedding must not be quantized: change the model first and quantize it then. "
            f"Received: quantization_mode={model.embedding.quantization_mode!r}"
        )
    write_back(model)
    config = model.get_config()
    config["embedding"]["config"].update(change.config)
    copy = type(model).from_config(config)
    _assign(_by_path(copy.weights), _after(change.weights, _by_path(model.weights), model.embedding))
    if model.compiled:
        copy.compile_from_config(model.get_compile_config())
        if model.optimizer.built:
            _copy_state(model, copy, change)
    return copy


def _copy_state(model, copy, change):
    """Gives the optimizer of `copy` the state of that of `model`, after the change."""
    old, new = model.optimizer, copy.optimizer
    if not new.built:
        new.build(copy.trainable_variables)
    old_slots, new_slots = slots_of(old), slots_of(new)
    for name, slots in old_slots.items():
        function = change.weights if "average" in name else change.moments
        values = _after(function, slots, model.embedding)
        _assign({path: slot for path, slot in new_slots[name].items() if path in values}, values)
    for before, after in zip(_numbers(old, old_slots), _numbers(new, new_slots), strict=True):
        after.assign(ops.convert_to_numpy(before))


def _numbers(optimizer, slots):
    """The variables of an optimizer that belong to no variable of the model, such as the number of updates."""
    taken = {id(slot) for each in slots.values() for slot in each.values()}
    return [each for each in optimizer.variables if id(each) not in taken]


def _by_path(variables):
    return {variable.path: variable for variable in variables}


def _after(function, variables, embedding):
    """Values by path, after `function` has changed those of an embedding.

    Args:
        function: Gives the new values of the variables of `embedding` by name, from the old ones.
        variables: Variables of a model, or of its optimizer, by the path of the model's variable.
        embedding: A `TiedEmbedding`.
    """
    values = {path: ops.convert_to_numpy(variable) for path, variable in variables.items()}
    paths = {each.path: each.name for each in embedding.variables}
    changed = function({paths[path]: value for path, value in values.items() if path in paths})
    folder = next(iter(paths)).rpartition("/")[0]
    others = {path: value for path, value in values.items() if path not in paths}
    return others | {f"{folder}/{name}": value for name, value in changed.items()}


def _assign(variables, values):
    for path, variable in variables.items():
        variable.assign(values[path])
