"""Configurations of models that are composed of layers."""

import keras

from keras_tying.backend.keras_internals import shared_object, was_called
from keras_tying.layers.shared_place import embedding_at

SHARED = "shared_layer"
"""Key of a reference to a layer that has another place in the same configuration."""


def layer_configs(**layers):
    """The configurations of layers and lists of layers by the names of a model's arguments; `None` stays `None`.

    A layer with several places has its configuration in the first. The others refer to it, so that a copy of the model
    shares it too. `build_config` is left out: a model builds its layers itself, under its own name.
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
        return {key: value for key, value in config.items() if key != "build_config"}

    return {name: config_of(layer, name) for name, layer in layers.items()}


def from_layer_configs(config, custom_objects=None):
    """The items of a model's configuration, with the layers that `layer_configs` described."""
    arguments = keras.saving.deserialize_keras_object(config, custom_objects)

    def resolved(value):
        if isinstance(value, list):
            return [resolved(each) for each in value]
        if not (isinstance(value, dict) and SHARED in value):
            return embedding_at(value)
        name, *index = value[SHARED].split("/")
        return embedding_at(arguments[name][int(index[0])] if index else arguments[name])

    return {name: resolved(value) for name, value in arguments.items()}


def not_yet_called(config):
    """Layers of a model's configuration that a functional model around it has loaded and will call later."""
    described = [each for each in config.values() if isinstance(each, dict) and isinstance(each.get("config"), dict)]
    loaded = [layer for each in described if (layer := shared_object(each)) is not None]
    return [layer for layer in loaded if not was_called(layer)]
