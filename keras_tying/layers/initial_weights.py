"""Initializers of several variables of a layer."""

from keras import initializers


def another(initializer):
    """A copy of an initializer for one more variable, because one object draws the same numbers each time.

    Functions stay as they are.
    """
    return initializer.clone() if isinstance(initializer, initializers.Initializer) else initializer
