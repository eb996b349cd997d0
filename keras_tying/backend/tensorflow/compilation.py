"""TensorFlow: functions of a model compiled by `tf.function`."""

import tensorflow as tf


def compile_function(model, function):
    return tf.function(function, reduce_retracing=True, autograph=False)
