"""Options of a request: one number for all rows of a batch, or a number of each row."""

import tensorflow as tf

from keras_tying.export.saving import checked


def option(dtype: tf.DType, name: str | None = None) -> tf.TensorSpec:
    """An input that is a number `[]`, or one of each row `[B]`.

    TensorFlow Serving puts several requests into one batch only if all their inputs have rows.
    """
    return tf.TensorSpec(None, dtype, name)


def for_rows(numbers: tf.Tensor, texts: tf.Tensor, name: str) -> tf.Tensor:
    """The option of that name, checked to be one number or one of each of the texts `[B]`."""
    fits = (tf.rank(numbers) == 0) | ((tf.rank(numbers) == 1) & (tf.size(numbers) == tf.size(texts)))
    return checked(numbers, fits, f"{name} must be a number, or a list with a number for each row")


def largest(numbers: tf.Tensor, *, least: int = 1) -> tf.Tensor:
    """The largest of some numbers, or of none: `int32 []`, at least `least`."""
    return tf.reduce_max(tf.concat([tf.reshape(numbers, [-1]), [least]], axis=0))


def column(numbers: tf.Tensor) -> tf.Tensor:
    """A number as `[1, 1]`, or a number of each row as `[B, 1]`."""
    return tf.reshape(numbers, [-1, 1])


def first_of_each_row(values: tf.Tensor, counts: tf.Tensor, padding: str | float) -> tf.Tensor:
    """Values `[B, K]` of which each row keeps its first `counts` (`[]` or `[B]`); the others are padding."""
    return tf.where(tf.range(tf.shape(values)[1])[None] < column(counts), values, padding)
