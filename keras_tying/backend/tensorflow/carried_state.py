"""TensorFlow: batches whose number of rows is known only at run time."""

import tensorflow as tf

from keras_tying.backend import portable
from keras_tying.layers import carried_state


def checked_rows(inputs, rows):
    static = portable(carried_state.checked_rows)
    if inputs.shape[0] is not None:
        return static(inputs, rows)
    message = carried_state.ROWS.format("another number of", rows=rows)
    with tf.control_dependencies([tf.debugging.assert_equal(tf.shape(inputs)[0], rows, message)]):
        # Of another shape for the optimizer of graphs, which infers from the result that the assertion holds.
        return static(tf.raw_ops.PlaceholderWithDefault(input=inputs, shape=[None, None]), rows)
