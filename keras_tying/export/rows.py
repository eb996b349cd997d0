"""Numbers of each row of a batch, in the place of one number for all rows."""

import tensorflow as tf


def largest(numbers: tf.Tensor, *, least: int = 1) -> tf.Tensor:
    """The largest of some numbers, or of none: `int32 []`, at least `least`."""
    return tf.reduce_max(tf.concat([tf.reshape(numbers, [-1]), [least]], axis=0))


def first_of_each_row(values: tf.Tensor, counts: tf.Tensor, padding: str | float) -> tf.Tensor:
    """Values `[B, K]` of which each row keeps its first `counts` `[B]`; the others are padding."""
    return tf.where(tf.range(tf.shape(values)[1])[None] < counts[:, None], values, padding)


def columns(*numbers: tf.Tensor) -> list[tf.Tensor]:
    """Numbers of each row `[B]` as columns `[B, 1]`."""
    return [each[:, None] for each in numbers]
