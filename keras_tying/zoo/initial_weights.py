"""Initializers of the models of the zoo."""

import keras


def uniform(initializer_range):
    """Makes initializers of uniform(-range, range): a new one at each call, for one instance draws the same numbers.

    Example:

    >>> initializer = uniform(0.1)
    >>> initializer() is initializer()
    False
    """
    return lambda: keras.initializers.RandomUniform(-initializer_range, initializer_range)
