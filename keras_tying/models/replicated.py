"""Models that several replicas train together, where the backend has replicas."""

import keras

if keras.backend.backend() == "tensorflow":
    from keras_tying.models.replicated_tensorflow import ReplicatedModel
else:
    ReplicatedModel = keras.Model  # type: ignore[misc]  # the name stands for one of two classes
