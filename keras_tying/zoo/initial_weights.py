"""Initializers of the models of the zoo."""

import keras


def uniform(initializer_range):
    """A function that returns a new initializer of uniform(-range, range) at each call.

    Two variables need two initializers, because one initializer draws the same numbers each time.

    Example:

    >>> initializer = uniform(0.1)
    >>> initializer() is initializer()
    False
    """
    return lambda: keras.initializers.RandomUniform(-initializer_range, initializer_range)
