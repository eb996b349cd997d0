"""TensorFlow: `tf.gather` with a dense gradient, and updates of rows."""

import math

import tensorflow as tf

from keras_tying.backend.replicas import replicas_in_step
from keras_tying.backend.tensorflow.gradients import wide_dtype


def lookup(matrix, ids, alone):
    """Rows of `matrix` `[V, H]` at `ids` of any shape: `[..., H]`. `alone` if the matrix has no other role."""
    matrix = tf.convert_to_tensor(matrix)
    if alone and rows_are_less(ids, matrix.shape[0]):
        return tf.gather(matrix, ids)  # sparse gradient; `sum_over_replicas` makes it dense
    return _dense_gradient_lookup(matrix, ids)


def rows_are_less(ids, vocabulary_size):
    """Whether the rows of `ids` are less data between replicas than the whole matrix.

    In a ring of `R` replicas, a replica sends either the rows of all replicas or about twice the matrix.
    """
    replicas = replicas_in_step()
    if replicas == 1 or None in ids.shape:
        return False
    return replicas * math.prod(ids.shape) < 2 * vocabulary_size


def _dense_gradient_lookup(matrix, ids):
    @tf.custom_gradient
    def of_matrix(matrix):
        vocabulary_size, width = tf.unstack(tf.shape(matrix))

        def gradient(upstream):
            rows = tf.reshape(upstream, [-1, width])
            rows = tf.cast(rows, wide_dtype(rows.dtype))  # in bfloat16 the sum of equal rows stops at 256 of them
            sums = tf.math.unsorted_segment_sum(rows, tf.reshape(ids, [-1]), vocabulary_size)
            return tf.cast(sums, upstream.dtype)

        return tf.gather(matrix, ids), gradient

    return of_matrix(matrix)


def add_to_rows(variable, ids, values):
    """Adds `values` `[N, H]` to the rows of `variable` `[V, H]` at `ids` `[N]`, in which ids can be repeated.

    On a CPU the rows are added in the order of `ids`. `scatter_add` adds them in an order that depends on the
    threads, so that repeated ids make the sum of each run another one, and it is not faster.
    """
    tf.raw_ops.ResourceScatterNdAdd(ref=variable.handle, indices=tf.expand_dims(ids, 1), updates=values)
