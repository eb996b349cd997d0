"""Models that several replicas train together, where the backend has replicas."""

import keras

if keras.backend.backend() == "tensorflow":
    from keras_tying.models.replicated_tensorflow import ReplicatedModel
else:

    class ReplicatedModel(keras.Model):  # type: ignore[no-redef]  # the name stands for one of two classes
        """A model on one replica."""

        def compile_from_config(self, config):
            # Keras compiles no loaded model whose `compile` is its own.
            self.compile(**keras.saving.deserialize_keras_object(config))
            if self.optimizer is not None:
                self.optimizer.build(self.trainable_variables)
