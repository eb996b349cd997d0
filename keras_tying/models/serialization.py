"""Configurations of models that are composed of layers."""

import keras


def layer_config(layer):
    """The configuration of a layer, or of a list of layers; `None` stays `None`.

    `build_config` is left out: a model builds its layers itself, under its own name.
    """
    if isinstance(layer, (list, tuple)):
        return [layer_config(each) for each in layer]
    config = keras.saving.serialize_keras_object(layer)
    return config and {key: value for key, value in config.items() if key != "build_config"}


def from_layer_configs(cls, config, custom_objects=None):
    """The model of class `cls` with the configuration `config`, which contains configurations of layers."""
    return cls(**keras.saving.deserialize_keras_object(config, custom_objects))
