"""Configurations of models that are composed of layers."""

from contextlib import nullcontext

import keras

from keras_tying.backend.keras_internals.calls import was_called
from keras_tying.backend.keras_internals.layers import described_layers, inner_layers
from keras_tying.backend.keras_internals.saving import is_saving, shared_object, sharing_scope
from keras_tying.layers.shared_place import SharedPlace, embedding_at

SHARED = "shared_layer"
"""Key of a reference to a layer that has another place in the same configuration."""
SHARED_WITHIN = "shared_within"
"""Key of the number of places of layers within others, if there are any: then layers are numbered as in a file."""


def layer_configs(**layers):
    """The configurations of layers and lists of layers by the names of a model's arguments; `None` stays `None`.

    A layer with several places has its configuration in the first. The others refer to it, so that a copy of the model
    shares it too. So it does with a layer that others contain, such as an embedding within a nested model.
    `build_config` is left out: a model builds its layers itself, under its own name.
    """
    places: dict[int, str] = {}

    def config_of(layer, place):
        if isinstance(layer, (list, tuple)):
            return [config_of(each, f"{place}/{i}") for i, each in enumerate(layer)]
        if layer is None:
            return None
        first = places.setdefault(id(layer), place)
        if first != place:
            return {SHARED: first}
        config = keras.saving.serialize_keras_object(layer)
        config.pop("build_config", None)
        return config

    return with_shared_places(lambda: {name: config_of(layer, name) for name, layer in layers.items()}, layers)


def with_shared_places(make_configs, arguments):
    """Calls `make_configs`. A layer that is in several places is marked, so that a copy shares it again."""
    if is_saving() or not (further := _further_places(arguments)):
        return make_configs()
    with sharing_scope():
        return {**make_configs(), SHARED_WITHIN: further}


def _further_places(arguments):
    """How many times a layer is contained somewhere in a model's layers, not counting the first time of each."""
    layers = {id(each): each for each in keras.tree.flatten(arguments) if isinstance(each, keras.layers.Layer)}
    places = [place for layer in layers.values() for place in _places(layer)]
    return len(places) - len({*places})


def _places(layer):
    """The ids of a layer and of those within it: what two layers of a functional model contain is there twice."""
    if described := described_layers(layer):
        return [id(layer), *(place for each in described for place in _places(each))]
    return [*{id(each) for each in [layer, *inner_layers(layer)]}]


def from_layer_configs(config, custom_objects=None):
    """The items of a model's configuration, with the layers that `layer_configs` described.

    Raises:
        ValueError: If two layers contain one that they would not share any longer.
    """
    config = dict(config)
    further = config.pop(SHARED_WITHIN, 0)
    with sharing_scope() if further else nullcontext():
        arguments = keras.saving.deserialize_keras_object(config, custom_objects)

    def resolved(value):
        if isinstance(value, list):
            return [resolved(each) for each in value]
        if not (isinstance(value, dict) and SHARED in value):
            return embedding_at(value)
        name, *index = value[SHARED].split("/")
        return embedding_at(arguments[name][int(index[0])] if index else arguments[name])

    arguments = {name: resolved(value) for name, value in arguments.items()}
    if further and (kept := _further_places(arguments)) != further:
        raise ValueError(
            "Models within a model can share embeddings of keras_tying; of another layer, Keras makes a copy for each. "
            f"Make one model of those that share it. Received: {further} places that share a layer, {kept} in the copy"
        )
    return arguments


def own_layers(model):
    """The layers within a model, in the same order before and after it was saved."""
    return [layer for layer in inner_layers(model) if not isinstance(layer, SharedPlace)]


def configs_within(value, is_wanted):
    """The `config` dictionaries of all objects described in `value` for which `is_wanted` is true."""
    return [described["config"] for described in described_within(value, is_wanted)]


def described_within(value, is_wanted):
    """The descriptions of all objects in `value` for which `is_wanted` is true, without those within one of them."""
    if isinstance(value, (list, tuple)):
        return [found for each in value for found in described_within(each, is_wanted)]
    if not isinstance(value, dict):
        return []
    if isinstance(value.get("config"), dict) and is_wanted(value):
        return [value]
    return [found for each in value.values() for found in described_within(each, is_wanted)]


def not_yet_called(config):
    """Layers of a model's configuration that a functional model around it has loaded and will call later."""
    described = [each for each in config.values() if isinstance(each, dict) and isinstance(each.get("config"), dict)]
    found = map(shared_object, described)  # also dtype policies, which models share too
    return [each for each in found if isinstance(each, keras.layers.Layer) and not was_called(each)]
