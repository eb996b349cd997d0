"""Base class of models that can train on several replicas."""

from typing import Any

import keras

from keras_tying.backend import dispatch
from keras_tying.backend.compilation import keep_variables, loop_steps


@dispatch
class ReplicatedModel(keras.Model):
    """A model that `fit` and `evaluate` run on all its replicas. This portable class has one replica."""

    train_function: Any
    test_function: Any
    predict_function: Any

    def make_train_function(self, force=False):
        if force or self.train_function is None:
            super().make_train_function(force)
            self.train_function = keep_variables(self, loop_steps(self, self.train_function))

    def make_test_function(self, force=False):
        if force or self.test_function is None:
            super().make_test_function(force)
            self.test_function = keep_variables(self, self.test_function)

    def make_predict_function(self, force=False):
        if force or self.predict_function is None:
            super().make_predict_function(force)
            self.predict_function = keep_variables(self, self.predict_function)
