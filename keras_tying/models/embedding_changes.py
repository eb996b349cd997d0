"""Changes of the embeddings of a model: other words, tied or untied roles, no LoRA."""

from functools import partial
from typing import NamedTuple

import keras
import numpy as np

from keras_tying.checks import check_integer
from keras_tying.ids import check_ids
from keras_tying.layers import WordDropout
from keras_tying.models.layouts import VOCABULARY_DIMENSIONS
from keras_tying.models.moved_state import COUNTS, Change, Place, changed_copy, embedding_layers
from keras_tying.models.serialization import configs_within


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


def with_words(model, given, words_of):
    """A copy with other words: `given` are the arguments for target and source, `words_of` makes `Words` of one."""
    layers = embedding_layers(model)
    target, source = given
    if all(value is None for value in given.values()):
        raise ValueError(f"Give `{target}`, or `{source}` of a model with source words. Received: neither")
    if given[source] is not None and "source_embedding" not in layers:
        raise ValueError(
            f"`{source}` is for a Translator or JointLanguageModel that has a matrix of its own for source words. The "
            f"words of this model are changed by `{target}`. Received: {source}={given[source]!r}"
        )
    changed = {}
    for argument, layer in layers.items():
        name = source if argument == "source_embedding" else target
        if given[name] is not None:
            changed[argument] = words_of(name, given[name], layer)
    _check_stop_words(model, changed.get("source_embedding"))
    if "embedding" in changed:
        changed[""] = changed["embedding"]

    def configure(config):
        configs = model.embedding_configs(config)
        for argument in changed.keys() & layers.keys():
            for own in configs[argument]:
                own["vocabulary_size" if "vocabulary_size" in own else "input_dim"] = len(changed[argument].rows)
                _drop_given_values(own)
        if "embedding" in changed:
            layers_between = [config.get(name) for name in ("hidden_layers", "backbone")]
            for own in configs_within(layers_between, _is_word_dropout):
                if own["vocabulary_size"] == layers["embedding"].input_dim:  # else it may be of source words
                    own["vocabulary_size"] = len(changed["embedding"].rows)

    def take(old, are_weights):
        return {
            place: _taken(place, values, changed[place[0]], are_weights) if place[0] in changed else values
            for place, values in old.items()
        }

    weights, moments = partial(take, are_weights=True), partial(take, are_weights=False)
    return changed_copy(model, Change(configure, weights, moments))


def _check_stop_words(model, words):
    """Raises ValueError if new source words would make a model leave out others than before."""
    stop_words = max((getattr(each, "stop_words", 0) for each in getattr(model, "global_context", ())), default=0)
    if words is not None and not np.array_equal(first := words.rows[:stop_words], np.arange(len(first))):
        raise ValueError(
            f"The first {stop_words} source words, which the model leaves out of its global context (stop_words), must "
            f"stay the first. Received: source_rows that begin with {first.tolist()}"
        )


def words_of_size(name, size, layer):
    """`Words` of an embedding layer with fewer or more of its words."""
    check_integer(name, size)
    ids = np.arange(size)
    return Words(np.where(ids < layer.input_dim, ids, 0), ids[layer.input_dim :], start_at_mean=True)


def words_of_rows(name, rows, layer):
    """`Words` whose rows are those of given words of an embedding layer."""
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
        raise ValueError("The model must be untied. Received: one that is tied already")
    _check_no_lora(model)
    layers = embedding_layers(model)
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
        for own in model.embedding_configs(config)["embedding"]:
            if "tie_weights" in own:
                own["tie_weights"] = True
                own.pop("reverse_embeddings_initializer", None)

    def merge(old):
        found = [joined[matrix]] if matrix != "mean" else sorted({*joined.values()})
        matrices = [_by_row(place, old[place]) for place in found if place in old]  # frozen ones have no moments
        new = {place: values for place, values in old.items() if place not in joined.values()}
        if matrices:
            new["embedding", "embeddings"] = sum(matrices) / len(matrices) if len(matrices) > 1 else matrices[0]
        if (output, "bias") in new:
            new["embedding", "bias"] = new.pop((output, "bias"))
        return new

    return changed_copy(model, Change(configure, merge, merge))


def untied(model, roles):
    """A copy in which each of `roles` (`"source"`, `"output"`) has a matrix of its own."""
    places = _places(model)
    separated = [role for role in roles if places.get(role) == places["input"]]
    if not separated:
        raise ValueError("The model must be tied. Received: one that is untied already")
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
                for own in model.embedding_configs(config)["embedding"]:
                    if "tie_weights" in own:
                        own["tie_weights"] = False
                        _drop_given_values(own)
                continue
            own = {**config["embedding"]["config"]}
            own["name"] = f"{argument.removesuffix('_embedding')}_{own['name']}"
            alone = {"use_bias": False, "tie_weights": True, "reverse_embeddings_initializer": None}
            own |= {key: value for key, value in alone.items() if key in own}
            config[argument] = {**config["embedding"], "config": own}

    def copy(old):
        shared = old.get(places["input"])
        return old if shared is None else old | {place: _by_row(place, shared) for place in new_places.values()}

    return changed_copy(model, Change(configure, copy, copy))


def without_lora(model):
    """A copy in which the LoRA of each embedding is added to its matrix."""
    scales = {
        argument: layer.lora_alpha / layer.lora_rank
        for argument, layer in embedding_layers(model).items()
        if _has_lora(layer)
    }
    if not scales:
        raise ValueError("An embedding must have LoRA. Received: none with it; call enable_lora(rank) of one first")

    def configure(config):
        configs = model.embedding_configs(config)
        for argument in scales:
            for own in configs[argument]:
                own.update({key: None for key in ("lora_rank", "lora_alpha") if key in own})

    def merge(old):
        new = without(old)
        for argument, scale in scales.items():
            matrix = old[argument, "embeddings"]
            delta = scale * (old[argument, "lora_embeddings_a"] @ old[argument, "lora_embeddings_b"])
            new[argument, "embeddings"] = matrix + delta.astype(matrix.dtype)
        return new

    def without(old):
        return {place: values for place, values in old.items() if not place[1].startswith("lora")}

    return changed_copy(model, Change(configure, merge, without))


def _is_word_dropout(config):
    return config.get("registered_name") == keras.saving.get_registered_name(WordDropout)


def _drop_given_values(config):
    """Removes the initializers of a layer that are arrays, which fit one shape only, from its configuration."""
    for name, initializer in [*config.items()]:
        is_constant = isinstance(initializer, dict) and initializer.get("class_name") == "Constant"
        if is_constant and name.endswith("_initializer") and isinstance(initializer["config"]["value"], (list, dict)):
            del config[name]


def _places(model) -> dict[str, Place]:
    """Where the matrices of the roles of a model are. Tied roles have one place."""
    layers = embedding_layers(model)
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
    if any(_has_lora(layer) for layer in embedding_layers(model).values()):
        raise ValueError(
            "An embedding with LoRA cannot be tied or untied, because its delta is in both roles of a tied matrix and "
            "in one of an untied one. Call without_lora() first. Received: lora_enabled=True"
        )


def _has_lora(layer):
    return getattr(layer, "lora_enabled", False)


def _by_row(place, values):
    """A matrix `[V, H]` from its variable, or the reverse."""
    return values.T if place[1] == "reverse_embeddings" else values


def _taken(place, values, words, are_weights):
    """The values of a variable for the `words` of a new vocabulary. Moments and counts are zero for new words."""
    dimensions = (True,) if place[1] in COUNTS else VOCABULARY_DIMENSIONS.get(place[1], ())
    if True not in dimensions:
        return values
    axis = dimensions.index(True)
    taken = np.moveaxis(np.take(values, words.rows, axis), axis, 0)
    if not are_weights or place[1] in COUNTS:
        taken[words.new] = 0
    elif words.start_at_mean:
        taken[words.new] = values.mean(axis, dtype="float32").astype(values.dtype)
    elif place[1] == "bias":
        taken -= np.log(np.bincount(words.rows)[words.rows]).astype(values.dtype)
    return np.moveaxis(taken, 0, axis)
