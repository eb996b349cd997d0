"""Copies of a model with another vocabulary, tied, untied or without LoRA. They train on where the model was."""

from collections.abc import Callable
from typing import Any, NamedTuple

import h5py
import keras
import numpy as np
from keras import ops

from keras_tying.backend.keras_internals import leaf_layers, slots_of
from keras_tying.backend.variables import write_back
from keras_tying.checks import check_integer
from keras_tying.ids import check_ids
from keras_tying.layers import WordDropout
from keras_tying.models.layouts import VOCABULARY_DIMENSIONS
from keras_tying.models.serialization import SHARED

ARGUMENTS = ("embedding", "source_embedding", "output_embedding", "context_embedding")
"""Arguments of models that take an embedding layer."""
COUNTS = ("input_updates", "output_updates")
"""Variables of `SkipGram` itself with a number for each word."""
ROLES = ("source", "input", "output")
"""What a matrix embeds or scores: source words, the words of the model as inputs, and as outputs or contexts."""

Place = tuple[str, str]
"""Where a variable is: the argument of the model that takes its layer, `""` for a count, and the variable's name."""
Values = dict[Place, np.ndarray]
"""Values of the variables of embeddings, or numbers of an optimizer about each of their elements."""


class Change(NamedTuple):
    """What becomes of the embeddings of a model.

    Attributes:
        config: Changes the configuration of the model.
        weights: The new weights from the old ones.
        moments: The new moments of gradients, in an optimizer, and counts of words, from the old ones.
    """

    config: Callable[[dict[str, Any]], None]
    weights: Callable[[Values], Values]
    moments: Callable[[Values], Values]


class Words(NamedTuple):
    """A new vocabulary.

    Attributes:
        rows: For each word `[V']`, the old word whose row it gets.
        new: Ids of the words that are not the old word of their row.
        start_at_mean: Whether these start at the mean of all words instead.
    """

    rows: np.ndarray
    new: np.ndarray
    start_at_mean: bool


class ChangedCopies:
    """Mixin for a model that takes `ARGUMENTS`: copies with another vocabulary, tied, untied or without LoRA."""

    def resized(self, vocabulary_size=None, *, source_vocabulary_size=None):
        """A copy of the model with fewer or more words. New words start at the mean of all words.

        Keras cannot change the shape of a variable, so this and the methods `with_rows`, `tied_copy`, `untied_copy` and
        `without_lora` give new models, which share no variable with this one. They are compiled as this one is, and the
        state of its optimizer comes along: moments and averages follow their words, the moments of new words are zero,
        their averages start as their weights do, and training goes on as it would have. A carried state is not copied.

        Args:
            vocabulary_size: Optional integer, the words that the model scores. With three-way tying they are the source
                words too. Default: as before.
            source_vocabulary_size: Optional integer, the source words of a model that embeds them in a matrix of their
                own. Default: as before.

        Raises:
            ValueError: If a size is not a positive integer, there is none, the model has no source words of its own,
                it is quantized, or its optimizer keeps numbers that are not about single weights.

        Example:

        >>> import keras_tying as kt
        >>> model = kt.zoo.recurrent_language_model(100, 8)
        >>> tuple(model.resized(120).embedding.embeddings.shape)
        (120, 8)
        >>> translator = kt.zoo.dl4mt_small(100, 100, embedding_size=8, units=8)
        >>> larger = translator.resized(120, source_vocabulary_size=110)
        >>> larger.target_vocabulary_size, larger.source_vocabulary_size
        (120, 110)
        """
        sizes = {"vocabulary_size": vocabulary_size, "source_vocabulary_size": source_vocabulary_size}
        return _with_words(self, sizes, _words_of_size)

    def with_rows(self, rows=None, *, source_rows=None):
        """A copy of the model for another vocabulary, built from rows of this one's matrices.

        Embeddings and output bias are both taken by row. If several new words are copies of one row, its probability is
        divided equally among them: the bias of each is lower by the logarithm of their number. (Without an output bias,
        or with a soft cap, the probabilities of the other words fall instead.)

        Args:
            rows: Optional integers `[V']`: for each word of the new vocabulary, the id of the word whose row it starts
                with. Default: all words as before.
            source_rows: The same for source words, in a model that embeds them in a matrix of their own.

        Returns:
            A model of the same class with `V'` words, as `resized` gives one.

        Raises:
            ValueError: If an id is outside the vocabulary; else as for `resized`.

        Example:

        >>> import keras_tying as kt
        >>> model = kt.zoo.recurrent_language_model(100, 8)
        >>> model.with_rows([*range(100), 3, 3]).vocabulary_size  # two new words, which start as copies of word 3
        102
        """
        return _with_words(self, {"rows": rows, "source_rows": source_rows}, _words_of_rows)

    def tied_copy(self, matrix):
        """A tied copy of an untied model, as `resized` gives one. The output bias stays.

        Args:
            matrix: The matrix that both roles get: `"input"`, `"output"`, or their `"mean"`. The moments of the
                optimizer are those of this matrix.

        Raises:
            ValueError: If the model is tied, quantized, or has LoRA, there is no such matrix, or the matrices differ in
                size; else as for `resized`.

        Example:

        >>> import keras_tying as kt
        >>> kt.zoo.recurrent_language_model(100, 8, tied=False).tied_copy("output").tied
        True
        """
        return tied(self, matrix, ("input", "output"))

    def untied_copy(self):
        """An untied copy of a tied model, as `resized` gives one. It computes the same until it is trained.

        Both matrices get the moments of the tied one.

        Raises:
            ValueError: If the model is untied, quantized, or has LoRA; else as for `resized`.

        Example:

        >>> import keras_tying as kt
        >>> kt.zoo.recurrent_language_model(100, 8).untied_copy().tied
        False
        """
        return untied(self, ("output",))

    def without_lora(self):
        """A copy without LoRA, as `resized` gives one: its delta is added to the matrix, which stays tied.

        Raises:
            ValueError: If no embedding of the model has LoRA, or it is quantized; else as for `resized`.

        Example:

        >>> import keras_tying as kt
        >>> model = kt.zoo.recurrent_language_model(100, 8)
        >>> model.embedding.enable_lora(2)
        >>> model.without_lora().embedding.lora_enabled
        False
        """
        return without_lora(self)

    def load_weights(self, filepath, skip_mismatch=False, **kwargs):
        """Loads weights of a model with the same tying; arguments are those of `keras.Model.load_weights`.

        Args:
            filepath: Path of the file.
            skip_mismatch: Whether to leave out layers that do not fit.
            **kwargs: Further arguments.

        Raises:
            ValueError: If the file is of a model with other tying. Load it into a model with the tying of the file, and
                call `tied_copy` or `untied_copy` of that.
        """
        if str(filepath).endswith(".weights.h5") and not skip_mismatch:
            _check_file(self, filepath)
        super().load_weights(filepath, skip_mismatch, **kwargs)  # type: ignore[misc]  # a mixin has no `load_weights`


def _check_file(model, path):
    """Raises ValueError if a file of weights has more matrices than a model: Keras would leave some out silently."""
    sizes = []

    def add(place, values):
        is_weight = isinstance(values, h5py.Dataset) and values.shape and values.dtype.kind == "f"
        if is_weight and not place.startswith("optimizer"):
            sizes.append(values.size)

    with h5py.File(path) as file:
        file.visititems(add)
    if sum(sizes) > model.count_params():
        raise ValueError(
            "The file must be of a model with the same tying: load it into one, and tie that with tied_copy(matrix). "
            f"Received: {path} with {sum(sizes):,} weights, for a model of {model.count_params():,}"
        )


def _with_words(model, given, words_of):
    """A copy with other words: `given` are the arguments for target and source, `words_of` makes `Words` of one."""
    layers = _layers(model)
    target, source = given
    if all(value is None for value in given.values()):
        raise ValueError(f"Give `{target}`, or `{source}` of a model with source words. Received: neither")
    if given[source] is not None and "source_embedding" not in layers:
        raise ValueError(
            f"`{source}` is for models that embed source words in a matrix of their own; change all words of this "
            f"model by `{target}`. Received: {source}={given[source]!r}"
        )
    changed = {}
    for argument, layer in layers.items():
        name = source if argument == "source_embedding" else target
        if given[name] is not None:
            changed[argument] = words_of(name, given[name], layer)
    if "embedding" in changed:
        changed[""] = changed["embedding"]

    def configure(config):
        for argument in changed.keys() & layers.keys():
            config[argument]["config"]["input_dim"] = len(changed[argument].rows)
        for layer in config.get("hidden_layers", ()) if "embedding" in changed else ():
            if layer.get("registered_name") == keras.saving.get_registered_name(WordDropout):
                layer["config"]["vocabulary_size"] = len(changed["embedding"].rows)

    def weights(old):
        return {place: _taken(place, values, changed.get(place[0])) for place, values in old.items()}

    def moments(old):
        return {place: _taken_moments(place, values, changed.get(place[0])) for place, values in old.items()}

    return _changed(model, Change(configure, weights, moments))


def _words_of_size(name, size, layer):
    check_integer(name, size)
    ids = np.arange(size)
    return Words(np.where(ids < layer.input_dim, ids, 0), ids[layer.input_dim :], start_at_mean=True)


def _words_of_rows(name, rows, layer):
    rows = check_ids(rows, layer.input_dim)
    if rows.ndim != 1 or not rows.size:
        raise ValueError(f"`{name}` must be word ids [V] with at least one. Received: shape={rows.shape}")
    _, first = np.unique(rows, return_index=True)
    return Words(rows, np.delete(np.arange(len(rows)), first), start_at_mean=False)


def tied(model, matrix, roles):
    """A copy in which `roles` share the matrix that one of them had, or the mean of their matrices."""
    places = _places(model)
    joined = {role: places[role] for role in roles}
    if matrix not in (*roles, "mean"):
        raise ValueError(f"`matrix` must be one of {[*roles, 'mean']}. Received: matrix={matrix!r}")
    if len({*joined.values()}) == 1:
        raise ValueError("The model must be untied. Received: a tied model; it is what this would make")
    _check_no_lora(model)
    layers = _layers(model)
    sizes = {role: (layers[argument].input_dim, layers[argument].output_dim) for role, (argument, _) in joined.items()}
    if len({*sizes.values()}) > 1:
        raise ValueError(f"Matrices that are tied must have one size [V, H]. Received: {sizes}")
    output, _ = places["output"]

    def configure(config):
        if output == "output_embedding":  # it scores words, as the tied layer must
            name = layers["embedding"].name
            config["embedding"] = config["output_embedding"]
            config["embedding"]["config"]["name"] = name
        for argument in {argument for argument, _ in joined.values()} - {"embedding"}:
            config[argument] = None
        if "tie_weights" in config["embedding"]["config"]:
            config["embedding"]["config"]["tie_weights"] = True
            config["embedding"]["config"].pop("reverse_embeddings_initializer", None)

    def merge(old):
        found = [joined[matrix]] if matrix != "mean" else sorted({*joined.values()})
        matrices = [_by_row(place, old[place]) for place in found if place in old]  # frozen ones have no moments
        new = {place: values for place, values in old.items() if place not in joined.values()}
        if matrices:
            new["embedding", "embeddings"] = sum(matrices) / len(matrices) if len(matrices) > 1 else matrices[0]
        return new | ({("embedding", "bias"): old[output, "bias"]} if (output, "bias") in old else {})

    return _changed(model, Change(configure, merge, merge))


def untied(model, roles):
    """A copy in which each of `roles` (`"source"`, `"output"`) has a matrix of its own."""
    places = _places(model)
    separated = [role for role in roles if places.get(role) == places["input"]]
    if not separated:
        raise ValueError("The model must be tied. Received: an untied model; it is what this would make")
    _check_no_lora(model)
    layers_of = {"source": "source_embedding", "output": "context_embedding"}
    new_places: dict[str, Place] = {
        role: ("embedding", "reverse_embeddings")
        if role == "output" and _scores_in_reverse(model)
        else (layers_of[role], "embeddings")
        for role in separated
    }

    def configure(config):
        for argument, variable in new_places.values():
            if variable == "reverse_embeddings":
                config["embedding"]["config"]["tie_weights"] = False
                continue
            own = {**config["embedding"]["config"]}
            own["name"] = f"{argument.removesuffix('_embedding')}_{own['name']}"
            alone = {"use_bias": False, "tie_weights": True, "reverse_embeddings_initializer": None}
            own |= {key: value for key, value in alone.items() if key in own}
            config[argument] = {**config["embedding"], "config": own}

    def copy(old):
        shared = old.get(places["input"])
        return old if shared is None else old | {place: _by_row(place, shared) for place in new_places.values()}

    return _changed(model, Change(configure, copy, copy))


def without_lora(model):
    """`ChangedCopies.without_lora`."""
    scales = {
        argument: layer.lora_alpha / layer.lora_rank for argument, layer in _layers(model).items() if _has_lora(layer)
    }
    if not scales:
        raise ValueError("An embedding must have LoRA. Received: none with it; call enable_lora(rank) of one first")

    def configure(config):
        for argument in scales:
            config[argument]["config"].update(lora_rank=None, lora_alpha=None)

    def merge(old):
        new = without(old)
        for argument, scale in scales.items():
            matrix = old[argument, "embeddings"]
            delta = scale * (old[argument, "lora_embeddings_a"] @ old[argument, "lora_embeddings_b"])
            new[argument, "embeddings"] = matrix + delta.astype(matrix.dtype)
        return new

    def without(old):
        return {place: values for place, values in old.items() if not place[1].startswith("lora")}

    return _changed(model, Change(configure, merge, without))


def _layers(model):
    """The embedding layers of a model by the argument that takes them, each once.

    Raises:
        ValueError: If one has no matrix with a row for each word.
    """
    config = model.get_config()
    layers = {name: getattr(model, name) for name in ARGUMENTS if config.get(name) and SHARED not in config[name]}
    for name, layer in layers.items():
        if not isinstance(layer, keras.layers.Embedding):
            raise ValueError(f"`{name}` must be a keras.layers.Embedding or a TiedEmbedding. Received: {layer!r}")
    return layers


def _places(model) -> dict[str, Place]:
    """Where the matrices of the roles of a model are. Tied roles have one place."""
    layers = _layers(model)
    output = next((name for name in ("output_embedding", "context_embedding") if name in layers), "embedding")
    is_reversed = _scores_in_reverse(model) and not layers[output].tie_weights
    places = {"input": ("embedding", "embeddings")}
    places["source"] = ("source_embedding" if "source_embedding" in layers else "embedding", "embeddings")
    places["output"] = (output, "reverse_embeddings" if is_reversed else "embeddings")
    return places


def _scores_in_reverse(model):
    """Whether the output embedding is called with `reverse=True`. `SkipGram` looks up its rows instead."""
    return not hasattr(model, "context_embedding")


def _check_no_lora(model):
    if any(_has_lora(layer) for layer in _layers(model).values()):
        raise ValueError(
            "An embedding with LoRA cannot be tied or untied, because its delta is in both roles of a tied matrix and "
            "in one of an untied one. Call without_lora() first. Received: lora_enabled=True"
        )


def _has_lora(layer):
    return getattr(layer, "lora_enabled", False)


def _by_row(place, values):
    """A matrix `[V, H]` from its variable, or the reverse."""
    return values.T if place[1] == "reverse_embeddings" else values


def _taken(place, values, words):
    """The values of a variable for the `words` of a new vocabulary."""
    axis = _vocabulary_axis(place)
    if words is None or axis is None:
        return values
    if place[0] == "":
        return _taken_moments(place, values, words)
    taken = np.take(values, words.rows, axis)
    if words.start_at_mean:
        mean = values.mean(axis, keepdims=True, dtype="float32").astype(values.dtype)
        np.moveaxis(taken, axis, 0)[words.new] = np.moveaxis(mean, axis, 0)
    elif place[1] == "bias":
        taken = taken - np.log(np.bincount(words.rows)[words.rows]).astype(values.dtype)
    return taken


def _taken_moments(place, values, words):
    """The moments of a variable for the `words` of a new vocabulary, zero for new words."""
    axis = _vocabulary_axis(place)
    if words is None or axis is None:
        return values
    taken = np.take(values, words.rows, axis)
    np.moveaxis(taken, axis, 0)[words.new] = 0
    return taken


def _vocabulary_axis(place):
    """The axis of a variable that is the vocabulary, or `None`."""
    dimensions = (True,) if place[1] in COUNTS else VOCABULARY_DIMENSIONS.get(place[1], ())
    return dimensions.index(True) if True in dimensions else None


def _changed(model, change):
    """A copy of a model after a change of its embeddings, compiled as the model and with the state of its optimizer."""
    write_back(model)
    config = model.get_config()
    if quantized := [each for each in leaf_layers(model) if each.quantization_mode is not None]:
        raise ValueError(
            "The model must not be quantized: change it first and quantize it then. "
            f"Received: layer {quantized[0].name!r} with quantization_mode={quantized[0].quantization_mode!r}"
        )
    change.config(config)
    copy = type(model).from_config(config)
    weights = _after(change.weights, _by_path(model.weights), model, copy)
    _assign(_by_path(copy.weights), weights)
    if model.compiled:
        copy.compile_from_config(model.get_compile_config())
        if model.optimizer is not None and model.optimizer.built:
            _copy_state(model, copy, change)
    return copy


def _copy_state(model, copy, change):
    """Gives the optimizer of `copy` the state of that of `model`, after the change."""
    old, new = model.optimizer, copy.optimizer
    if not new.built:
        new.build(copy.trainable_variables)
    old_slots, new_slots = slots_of(old), slots_of(new)
    numbers = _numbers(old, old_slots)
    if others := [each.path for each in numbers if len(each.shape)]:
        raise ValueError(
            "The state of an optimizer can be moved if it has one number for each weight, as that of Adam or SGD. "
            f"Compile the model with such an optimizer first. Received: {type(old).__name__} with {others[0]}"
        )
    for name, slots in old_slots.items():
        if "average" in name:  # of weights that were not trained, the average is the weight
            values = _after(change.weights, {**_by_path(model.weights), **slots}, model, copy)
        else:
            values = _after(change.moments, slots, model, copy)
        _assign({path: slot for path, slot in new_slots[name].items() if path in values}, values)
    for before, after in zip(numbers, _numbers(new, new_slots), strict=True):
        after.assign(ops.convert_to_numpy(before))


def _numbers(optimizer, slots):
    """The variables of an optimizer that belong to no variable of the model, such as the number of updates."""
    taken = {id(slot) for each in slots.values() for slot in each.values()}
    return [each for each in optimizer.variables if id(each) not in taken]


def _by_path(variables):
    return {variable.path: variable for variable in variables}


def _after(function, variables, model, copy):
    """Values by path of the variables of `copy`, after `function` has changed those of embeddings.

    Args:
        function: Gives the new values of the variables of embeddings by place, from the old ones.
        variables: Variables of `model`, or of its optimizer, by the path of the model's variable.
        model: The model.
        copy: Its changed copy.
    """
    values = {path: ops.convert_to_numpy(variable) for path, variable in variables.items()}
    places = _places_by_path(model)
    changed = function({places[path]: value for path, value in values.items() if path in places})
    others = {path: value for path, value in values.items() if path not in places}
    paths = {place: path for path, place in _places_by_path(copy).items()}
    return others | {paths[place]: value for place, value in changed.items() if place in paths}


def _places_by_path(model) -> dict[str, Place]:
    """The places of all variables of the embeddings of a model, by path."""
    places = {each.path: (name, each.name) for name, layer in _layers(model).items() for each in layer.variables}
    return places | {getattr(model, name).path: ("", name) for name in COUNTS if hasattr(model, name)}


def _assign(variables, values):
    for path, variable in variables.items():
        variable.assign(values[path])
