"""TensorFlow: the recurrence of a recurrent highway layer, with its gradient written out.

A backward step computes only the gradients of the gates before their nonlinearities. The gradient of the matrix of each
micro-step is one product for all time steps, after the loop.
"""

import tensorflow as tf

from keras_tying.backend.tensorflow.scan import as_sequence, as_tensor, scan


def highway_sequence(projected, state, kernels, biases, kept=None):
    """States after each step `[B, T, H]`."""
    projected = tf.transpose(projected, [1, 0, 2])

    @tf.custom_gradient
    def recurrence(projected, state, kernels, biases):
        matrices, offsets = tf.unstack(kernels), tf.unstack(biases)

        def step(states, inputs):
            return _step(states[0], inputs[0], matrices, offsets, kept)

        _, (outputs, *micro) = scan(step, (state,), [as_sequence(projected)], 4)

        def gradient(d_outputs):
            transposed = [tf.transpose(matrix) for matrix in matrices]

            def step_back(states, inputs):
                return _step_back(states[0], inputs, transposed, kept)

            sequences = [as_sequence(d_outputs), *micro]
            (d_state,), (d_gates,) = scan(step_back, (tf.zeros_like(state),), sequences, 1, reverse=True)
            d_gates = as_tensor(d_gates)  # [T, depth, B, 2H]
            before = as_tensor(micro[0])
            seen = before if kept is None else before * kept
            d_kernels = tf.matmul(_by_micro_step(seen), _by_micro_step(d_gates), transpose_a=True)
            return d_gates[:, 0], d_state, d_kernels, tf.reduce_sum(d_gates, [0, 2])

        return as_tensor(outputs), gradient

    states = recurrence(projected, state, kernels, biases)
    return tf.transpose(states, [1, 0, 2])


def _step(state, projected, matrices, offsets, kept):
    before, proposals, transforms = [], [], []
    for layer, (matrix, offset) in enumerate(zip(matrices, offsets, strict=True)):
        before.append(state)
        gates = tf.matmul(state if kept is None else state * kept, matrix) + offset
        if layer == 0:
            gates += projected
        proposal, transform = tf.split(gates, 2, axis=-1)
        proposal, transform = tf.tanh(proposal), tf.sigmoid(transform)
        state += transform * (proposal - state)
        proposals.append(proposal)
        transforms.append(transform)
    return (state,), (state, *map(tf.stack, (before, proposals, transforms)))


def _step_back(d_state, inputs, transposed, kept):
    d_output, *micro = inputs
    d_state += d_output
    gradients = []
    layers = zip(*map(tf.unstack, micro), transposed, strict=True)
    for before, proposal, transform, matrix in reversed(list(layers)):
        d_proposal = d_state * transform * (1 - proposal * proposal)
        d_transform = d_state * (proposal - before) * transform * (1 - transform)
        d_gates = tf.concat([d_proposal, d_transform], axis=-1)
        d_seen = tf.matmul(d_gates, matrix)
        d_state = d_state * (1 - transform) + (d_seen if kept is None else d_seen * kept)
        gradients.append(d_gates)
    return (d_state,), (tf.stack(gradients[::-1]),)


def _by_micro_step(sequence):
    """`[T, depth, B, K]` as `[depth, T * B, K]`."""
    steps, depth, rows, width = tf.unstack(tf.shape(sequence))
    return tf.reshape(tf.transpose(sequence, [1, 0, 2, 3]), [depth, steps * rows, width])
