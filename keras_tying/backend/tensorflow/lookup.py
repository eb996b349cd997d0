"""TensorFlow: `tf.gather` with the sum over repeated ids taken in the gradient itself."""

import math

import tensorflow as tf

from keras_tying.backend.replicas import replicas_in_step


def lookup(matrix, ids, alone):
    """Rows of `matrix` `[V, H]` at `ids` of any shape: `[..., H]`; `alone` if it has no other role."""
    matrix = tf.convert_to_tensor(matrix)
    if alone and rows_are_less(ids, matrix.shape[0]):
        return tf.gather(matrix, ids)  # its gradient is rows; `sum_over_replicas` makes a matrix of them
    return _dense_gradient_lookup(matrix, ids)


def rows_are_less(ids, vocabulary_size):
    """Whether a replica tells the others less by the rows of `ids` than by a matrix with a row for each word.

    In a ring of `R` replicas it sends on the rows of all others, or a matrix about twice.
    """
    replicas = replicas_in_step()
    known = replicas > 1 and None not in ids.shape
    return known and replicas * math.prod(ids.shape) < 2 * vocabulary_size


def _dense_gradient_lookup(matrix, ids):
    @tf.custom_gradient
    def of_matrix(matrix):
        vocabulary_size, width = tf.unstack(tf.shape(matrix))

        def gradient(upstream):
            rows = tf.reshape(upstream, [-1, width])
            return tf.math.unsorted_segment_sum(rows, tf.reshape(ids, [-1]), vocabulary_size)

        return tf.gather(matrix, ids), gradient

    return of_matrix(matrix)
