"""Initializers of several variables of a layer."""

import keras
from keras import initializers


def another(initializer, place):
    """A copy of an initializer for one more variable, because one object draws the same numbers each time.

    Args:
        initializer: An initializer. Functions, and initializers whose seed is a `SeedGenerator`, which goes on, stay as
            they are.
        place: Integer, added to a seed that is a number. Of the variables of a layer each has its own.
    """
    if not isinstance(initializer, initializers.Initializer):
        return initializer
    if isinstance(getattr(initializer, "seed", None), keras.random.SeedGenerator):
        return initializer
    config = initializer.get_config()
    if isinstance(seed := config.get("seed"), int):
        config["seed"] = seed + place
    return type(initializer).from_config(config)
