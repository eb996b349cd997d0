"""Base class of models that can train on several replicas."""

from typing import Any

import keras

from keras_tying.backend import dispatch
from keras_tying.backend.compilation import loop_steps


@dispatch
class ReplicatedModel(keras.Model):
    """A model that `fit` and `evaluate` run on all its replicas. This portable class has one replica."""

    train_function: Any

    def make_train_function(self, force=False):
        if force or self.train_function is None:
            super().make_train_function(force)
            self.train_function = loop_steps(self, self.train_function)
