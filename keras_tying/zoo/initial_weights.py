"""Initializers of the models of the zoo."""

import keras

from keras_tying.checks import check_number


def uniform(initializer_range):
    """A function that returns a new initializer of uniform(-range, range) at each call.

    Two variables need two initializers, because one initializer draws the same numbers each time.

    Example:

    >>> initializer = uniform(0.1)
    >>> initializer() is initializer()
    False
    """
    check_number("initializer_range", initializer_range, least=0)
    return lambda: keras.initializers.RandomUniform(-initializer_range, initializer_range)
