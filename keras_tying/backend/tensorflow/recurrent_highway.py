"""TensorFlow: the recurrence of a recurrent highway layer, with its gradient written out.

A backward step computes only the gradients of the gates before their nonlinearities. The gradient of the matrix of each
micro-step is one product for all time steps, after the loop.
"""

import tensorflow as tf

from keras_tying.backend.tensorflow.gradients import by_transpose, sigmoid_gradient, tanh_gradient, wide_dtype
from keras_tying.backend.tensorflow.scan import as_sequence, as_tensor, scan


def highway_sequence(projected, state, kernels, biases, kept=None):
    """States after each step `[B, T, H]`."""
    dtype, wide = projected.dtype, wide_dtype(projected.dtype)
    projected = tf.transpose(projected, [1, 0, 2])

    @tf.custom_gradient
    def recurrence(projected, state, kernels, biases):
        matrices, offsets = tf.unstack(kernels), tf.unstack(tf.cast(biases, wide))
        dropout = None if kept is None else tf.cast(kept, wide)

        def step(states, inputs):
            return _step(states[0], inputs[0], matrices, offsets, dropout)

        start = tf.cast(state, wide)
        _, (outputs, *micro) = scan(step, (start,), [as_sequence(projected)], [dtype] + [wide] * 3)

        def gradient(d_outputs):
            back = [by_transpose(matrix) for matrix in matrices]

            def step_back(states, inputs):
                return _step_back(states[0], inputs, back, dropout)

            sequences = [as_sequence(d_outputs), *micro]
            (d_state,), (d_gates,) = scan(step_back, (tf.zeros_like(start),), sequences, [dtype], reverse=True)
            d_gates = as_tensor(d_gates)  # [T, depth, B, 2H]
            before = as_tensor(micro[0])
            seen = tf.cast(before if dropout is None else before * dropout, dtype)
            d_kernels = tf.matmul(_by_micro_step(seen), _by_micro_step(d_gates), transpose_a=True)
            return d_gates[:, 0], tf.cast(d_state, dtype), d_kernels, tf.reduce_sum(d_gates, [0, 2])

        return as_tensor(outputs), gradient

    states = recurrence(projected, state, kernels, biases)
    return tf.transpose(states, [1, 0, 2])


def _step(state, projected, matrices, offsets, dropout):
    before, proposals, transforms = [], [], []
    for layer, (matrix, offset) in enumerate(zip(matrices, offsets, strict=True)):
        before.append(state)
        seen = tf.cast(state if dropout is None else state * dropout, matrix.dtype)
        gates = tf.cast(tf.matmul(seen, matrix), state.dtype) + offset
        if layer == 0:
            gates += tf.cast(projected, state.dtype)
        proposal, transform = tf.split(gates, 2, axis=-1)
        proposal, transform = tf.tanh(proposal), tf.sigmoid(transform)
        state += transform * (proposal - state)
        proposals.append(proposal)
        transforms.append(transform)
    return (state,), (tf.cast(state, projected.dtype), *map(tf.stack, (before, proposals, transforms)))


def _step_back(d_state, inputs, back, dropout):
    d_output, *micro = inputs
    d_state += tf.cast(d_output, d_state.dtype)
    gradients = []
    layers = zip(*map(tf.unstack, micro), back, strict=True)
    for before, proposal, transform, multiply in reversed(list(layers)):
        d_proposal = tanh_gradient(proposal, d_state * transform)
        d_transform = sigmoid_gradient(transform, d_state * (proposal - before))
        d_gates = tf.cast(tf.concat([d_proposal, d_transform], axis=-1), d_output.dtype)
        d_seen = tf.cast(multiply(d_gates), d_state.dtype)
        d_state = d_state * (1 - transform) + (d_seen if dropout is None else d_seen * dropout)
        gradients.append(d_gates)
    return (d_state,), (tf.stack(gradients[::-1]),)


def _by_micro_step(sequence):
    """`[T, depth, B, K]` as `[depth, T * B, K]`."""
    steps, depth, rows, width = tf.unstack(tf.shape(sequence))
    return tf.reshape(tf.transpose(sequence, [1, 0, 2, 3]), [depth, steps * rows, width])
