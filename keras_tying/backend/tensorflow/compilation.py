"""TensorFlow: functions of a model compiled by `tf.function`."""

import tensorflow as tf

from keras_tying.backend.keras_internals.calls import forget_losses


def compile_function(model, function):
    def traced(*arguments):
        results = function(*arguments)
        forget_losses(model)  # those of layers are tensors of the graph
        return results

    return tf.function(traced, reduce_retracing=True, autograph=False)
