"""Initializers of several variables of a layer."""

from numbers import Integral

import keras
from keras import initializers


def another(initializer, place):
    """A copy of an initializer for one more variable, because an object with a seed draws the same numbers each time.

    Args:
        initializer: An initializer. Functions, and objects without a seed or a `get_config`, stay as they are; so do
            those whose seed is a `SeedGenerator`, which goes on.
        place: Integer, added to a seed that is a number. Of the variables of a layer each has its own.
    """
    if not hasattr(initializer, "seed") or isinstance(initializer.seed, keras.random.SeedGenerator):
        return initializer
    if type(initializer).get_config is initializers.Initializer.get_config:  # it knows no arguments
        return initializer
    config = initializer.get_config()
    if isinstance(seed := config.get("seed"), Integral):
        config["seed"] = seed + place
    return type(initializer).from_config(config)
