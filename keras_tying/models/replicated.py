"""Models that several replicas train together, on backends with replicas."""

import keras

from keras_tying.backend import dispatch


@dispatch
class ReplicatedModel(keras.Model):
    """A model that `fit` and `evaluate` run on all of its replicas. This portable class has one replica."""

    def compile_from_config(self, config):
        # Keras does not compile a loaded model that has its own `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.optimizer is not None:
            self.optimizer.build(self.trainable_variables)
