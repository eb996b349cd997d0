"""Seed generators of layers that may have several replicas."""

import keras

from keras_tying.backend import dispatch


@dispatch
class ReplicaSeedGenerator(keras.random.SeedGenerator):
    """A seed generator that gives each replica of a model seeds of its own; here there is one replica.

    Each replica drops out different units then, as one replica would for the rows of all.
    """
