"""Configurations of models that are composed of layers."""

import keras

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
            return value
        name, *index = value[SHARED].split("/")
        return arguments[name][int(index[0])] if index else arguments[name]

    return {name: resolved(value) for name, value in arguments.items()}
