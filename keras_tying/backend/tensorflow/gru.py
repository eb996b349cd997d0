"""TensorFlow: the recurrence of gated recurrent units, with its gradient written out.

A backward step computes only the gradients of the gates before their nonlinearities. The gradient of the recurrent
matrix is one matrix product for all steps, after the loop.
"""

import tensorflow as tf

from keras_tying.backend.tensorflow.gradients import by_transpose, sigmoid_gradient, tanh_gradient
from keras_tying.backend.tensorflow.scan import as_sequence, as_tensor, delayed, scan


def gru_sequence(projected, recurrent_kernel, mask=None, reverse=False):
    """States `[B, T, H]` from `projected` `[B, T, 3H]`."""
    kernel = tf.convert_to_tensor(recurrent_kernel)
    live = [] if mask is None else [as_sequence(tf.transpose(tf.cast(mask, projected.dtype))[:, :, None])]

    @tf.custom_gradient
    def recurrence(projected, kernel):
        start = tf.zeros([tf.shape(projected)[1], kernel.shape[0]], projected.dtype)

        def step(states, inputs):
            (state,), (projected, *live) = states, inputs
            new_state, gates = forward(projected, tf.matmul(state, kernel), state)
            if live:
                new_state = tf.where(live[0] > 0, new_state, state)
            return (new_state,), (new_state, gates)

        _, (states, gates) = scan(step, (start,), [as_sequence(projected), *live], [projected.dtype] * 2, reverse)
        previous = delayed(states, start, reverse)

        def gradient(d_states):
            back = by_transpose(kernel)

            def step_back(states, inputs):
                d_output, gates, state, *live = inputs
                d_state = d_output + states[0]
                passed = d_state * (1 - live[0]) if live else 0
                d_state = d_state * live[0] if live else d_state
                d_inputs, d_recurrent, d_direct = backward(d_state, gates, state)
                return (back(d_recurrent) + d_direct + passed,), (d_inputs, d_recurrent)

            sequences = [as_sequence(d_states), gates, previous, *live]
            _, (d_inputs, d_recurrent) = scan(
                step_back, (tf.zeros_like(start),), sequences, [d_states.dtype] * 2, not reverse
            )
            return as_tensor(d_inputs), tf.tensordot(as_tensor(previous), as_tensor(d_recurrent), [[0, 1], [0, 1]])

        return as_tensor(states), gradient

    return tf.transpose(recurrence(tf.transpose(projected, [1, 0, 2]), kernel), [1, 0, 2])


def forward(inputs, recurrent, state):
    """The new state `[B, H]`, and the values `[B, 4H]` that `backward` needs.

    Args:
        inputs: The input's part of update gate, reset gate and candidate, `[B, 3H]`.
        recurrent: The state's part of them, `[B, 3H]`.
        state: The previous state, `[B, H]`.
    """
    width = state.shape[-1]
    gates = tf.sigmoid(inputs[:, : 2 * width] + recurrent[:, : 2 * width])
    update, reset = tf.split(gates, 2, axis=-1)
    candidate_state = recurrent[:, 2 * width :]
    candidate = tf.tanh(inputs[:, 2 * width :] + reset * candidate_state)
    return candidate + update * (state - candidate), tf.concat([gates, candidate, candidate_state], -1)


def backward(d_state, kept, state):
    """Gradients of `forward` in its arguments. The gradient of `state` excludes the path through `recurrent`."""
    update, reset, candidate, candidate_state = tf.split(kept, 4, axis=-1)
    d_candidate = tanh_gradient(candidate, d_state * (1 - update))
    d_update = sigmoid_gradient(update, d_state * (state - candidate))
    d_reset = sigmoid_gradient(reset, d_candidate * candidate_state)
    d_inputs = tf.concat([d_update, d_reset, d_candidate], -1)
    d_recurrent = tf.concat([d_update, d_reset, d_candidate * reset], -1)
    return d_inputs, d_recurrent, d_state * update
