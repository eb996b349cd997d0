"""Base class of models that can train on several replicas."""

import keras

from keras_tying.backend import dispatch


@dispatch
class ReplicatedModel(keras.Model):
    """A model that `fit` and `evaluate` run on all its replicas. This portable class has one replica."""

    def compile_from_config(self, config):
        # Keras does not compile a loaded model that overrides `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.optimizer is not None:
            self.optimizer.build(self.trainable_variables)
