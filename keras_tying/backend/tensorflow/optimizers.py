"""TensorFlow: the norm of a gradient, and the updates of SGD and Adam, in one operation each."""

import tensorflow as tf

from keras_tying.backend import portable
from keras_tying.backend.keras_internals.optimizers import adam_moments
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
    variable = _of_tensorflow(variable)
    rate = tf.cast(rate, variable.dtype)
    if isinstance(gradient, tf.IndexedSlices):
        add_to_rows(variable, gradient.indices, tf.cast(gradient.values, variable.dtype) * -rate)
    else:
        tf.raw_ops.ResourceApplyGradientDescent(
            var=variable.handle, alpha=rate, delta=tf.cast(gradient, variable.dtype)
        )


def adam_step(optimizer, gradient, variable, learning_rate):
    """Updates `variable` as Adam, with the settings and moments of `optimizer`."""
    if optimizer.amsgrad:
        return portable(adam_step)(optimizer, gradient, variable, learning_rate)
    momentum, velocity = adam_moments(optimizer, variable)
    variable = _of_tensorflow(variable)
    dtype = variable.dtype
    beta_1, beta_2 = tf.constant(optimizer.beta_1, dtype), tf.constant(optimizer.beta_2, dtype)
    step = tf.cast(optimizer.iterations + 1, dtype)
    tf.raw_ops.ResourceApplyAdam(
        var=variable.handle,
        m=_of_tensorflow(momentum).handle,
        v=_of_tensorflow(velocity).handle,
        beta1_power=tf.pow(beta_1, step),
        beta2_power=tf.pow(beta_2, step),
        lr=tf.cast(learning_rate, dtype),
        beta1=beta_1,
        beta2=beta_2,
        epsilon=tf.constant(optimizer.epsilon, dtype),
        grad=tf.cast(gradient, dtype),
    )


def _of_tensorflow(variable):
    return variable if isinstance(variable, tf.Variable) else variable.value
