"""TensorFlow: operations of recurrences and of their gradients."""

import tensorflow as tf

LARGE_KERNEL = 2**20
"""Elements from which on a kernel is multiplied in another order in lower precision, see `by_transpose`."""


def wide_dtype(dtype):
    """The dtype of gates and states, at least float32: in bfloat16 only products are faster, all else is slower."""
    return dtype if dtype.size >= 4 else tf.float32


def by_transpose(kernel):
    """A function that multiplies rows `[B, O]` by the transpose of `kernel` `[I, O]`, for the steps of a sequence."""
    large = kernel.shape.num_elements() >= LARGE_KERNEL
    if large and kernel.dtype.size < 4 and not tf.config.list_logical_devices("GPU"):
        # In lower precision, a product of rows can take twice as long as this.
        return lambda rows: tf.transpose(tf.matmul(kernel, rows, transpose_b=True))
    # Transposed once, because `transpose_b` takes longer. As one matrix of a stack, because TensorFlow's graph
    # optimizer replaces the product with a plain transpose by one with `transpose_b`.
    turned = tf.squeeze(tf.transpose(kernel[None], [0, 2, 1]), 0)
    return lambda rows: tf.matmul(rows, turned)


def sigmoid_gradient(output, gradient):
    """Gradient in the argument of a sigmoid from its `output` and the `gradient` in that."""
    return tf.raw_ops.SigmoidGrad(y=output, dy=gradient)


def tanh_gradient(output, gradient):
    """Gradient in the argument of a tanh from its `output` and the `gradient` in that."""
    return tf.raw_ops.TanhGrad(y=output, dy=gradient)
