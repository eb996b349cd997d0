"""Seed generators with different seeds on each replica."""

import keras

from keras_tying.backend import dispatch


@dispatch
class ReplicaSeedGenerator(keras.random.SeedGenerator):
    """A seed generator with different seeds on each replica of a model, so that dropout masks differ.

    This portable class is for one replica.
    """
