"""TensorFlow: norm and SGD update that read each gradient once and do not copy it."""

import tensorflow as tf

from keras_tying.backend.tensorflow.lookup import add_to_rows


def squared_norm(gradient):
    """Sum of the squares of all elements, float32."""
    if isinstance(gradient, tf.IndexedSlices):
        gradient = _rows(gradient)
    return 2 * tf.nn.l2_loss(tf.cast(gradient, tf.float32))


def _rows(gradient):
    """The rows of a sparse gradient, with repeated rows summed. On GPUs, for XLA, the dense gradient."""
    if tf.config.list_logical_devices("GPU"):
        return tf.convert_to_tensor(gradient)
    words, places = tf.unique(gradient.indices)
    return tf.math.unsorted_segment_sum(gradient.values, places, tf.size(words))


def descend(variable, gradient, rate):
    """Subtracts `rate` times `gradient` from `variable`."""
    variable = variable if isinstance(variable, tf.Variable) else variable.value
    rate = tf.cast(rate, variable.dtype)
    if isinstance(gradient, tf.IndexedSlices):
        add_to_rows(variable, gradient.indices, tf.cast(gradient.values, variable.dtype) * -rate)
    else:
        tf.raw_ops.ResourceApplyGradientDescent(
            var=variable.handle, alpha=rate, delta=tf.cast(gradient, variable.dtype)
        )
