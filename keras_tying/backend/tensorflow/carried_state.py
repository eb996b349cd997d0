"""TensorFlow: batches whose number of rows is known only at run time."""

import tensorflow as tf

from keras_tying.layers import carried_state


def with_rows(inputs, rows):
    received = inputs.shape[0]
    if received is not None and received != rows:
        raise ValueError(carried_state.ROWS.format(received, rows=rows))
    message = carried_state.ROWS.format("another number of", rows=rows)
    with tf.control_dependencies([tf.debugging.assert_equal(tf.shape(inputs)[0], rows, message)]):
        return tf.reshape(inputs, (rows, tf.shape(inputs)[1]))
