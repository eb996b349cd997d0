"""Models that several replicas train together, where the backend has replicas."""

import keras

from keras_tying.backend import dispatch


@dispatch
class ReplicatedModel(keras.Model):
    """A model that `fit` and `evaluate` run on every replica there is; here there is one."""
