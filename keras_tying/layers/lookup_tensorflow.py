"""TensorFlow: `tf.gather` with the sum over repeated ids taken in the gradient itself."""

import tensorflow as tf


def dense_gradient_lookup(matrix, ids):
    """Rows of `matrix` `[V, H]` at `ids` of any shape: `[..., H]`; the gradient is dense `[V, H]`."""
    matrix = tf.convert_to_tensor(matrix)

    @tf.custom_gradient
    def lookup(matrix):
        vocabulary_size, width = tf.unstack(tf.shape(matrix))

        def gradient(upstream):
            rows = tf.reshape(upstream, [-1, width])
            return tf.math.unsorted_segment_sum(rows, tf.reshape(ids, [-1]), vocabulary_size)

        return tf.gather(matrix, ids), gradient

    return lookup(matrix)
