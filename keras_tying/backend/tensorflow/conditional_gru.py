"""TensorFlow: the recurrence of the conditional GRU, with its gradient written out.

A backward step computes the gradients of the gates of both steps and of the attention scores. The gradients of all
weights except the score vector of the attention are one matrix product each, after the loop. The sum of query and keys
is the largest array, so its `tanh` is computed again instead of being kept.
"""

import tensorflow as tf

from keras_tying.backend.tensorflow.gradients import by_transpose
from keras_tying.backend.tensorflow.gru import backward, forward
from keras_tying.backend.tensorflow.scan import as_sequence, as_tensor, delayed, scan


def conditional_gru_sequence(projected, state, memory, weights):
    """States `[B, T, H]` and attention weights `[B, T, S]`."""
    live = tf.cast(memory.mask, projected.dtype)
    excluded = (1 - live) * projected.dtype.min / 2

    @tf.custom_gradient
    def recurrence(projected, state, keys, mixable, recurrent_kernel, query_kernel, score_vector, kernel, bias):
        def step(states, inputs):
            (state,), (projected,) = states, inputs
            middle, first = forward(projected, tf.matmul(state, recurrent_kernel), state)
            query = tf.matmul(middle, query_kernel)
            attended = live * _attend(keys, query, score_vector, excluded)
            mixed = _rows(attended, mixable)
            state, second = forward(mixed, tf.matmul(middle, kernel) + bias, middle)
            return (state,), (state, middle, query, attended, tf.concat([first, second], -1))

        _, (states, middles, queries, attended, gates) = scan(
            step, (state,), [as_sequence(projected)], [projected.dtype] * 5
        )
        outputs = as_tensor(states), as_tensor(attended)

        def gradient(d_states, d_attended):
            back = [by_transpose(part) for part in (recurrent_kernel, query_kernel, kernel)]

            def step_back(carried, inputs):
                d_state, d_keys, d_score_vector = carried
                d_output, d_attended, state, middle, query, attended, gates = inputs
                first, second = tf.split(gates, 2, axis=-1)
                d_mixed, d_second, d_direct = backward(d_state + d_output, second, middle)
                d_attended = d_attended + tf.linalg.matvec(mixable, d_mixed)
                d_scores = attended * (d_attended - tf.reduce_sum(attended * d_attended, -1, keepdims=True))
                compared = tf.tanh(keys + query[:, None])
                d_score_vector += tf.linalg.matvec(tf.reshape(compared, [-1, width]), tf.reshape(d_scores, [-1]), True)
                squared = compared * compared
                # The gradients of the scores sum to 0, so the 1 of 1 - tanh^2 cancels.
                d_query = -score_row * _rows(d_scores, squared)
                d_keys += d_scores[:, :, None] * (1 - squared)
                d_middle = back[2](d_second) + d_direct + back[1](d_query)
                d_projected, d_first, d_direct = backward(d_middle, first, state)
                d_state = back[0](d_first) + d_direct
                return (d_state, d_keys, d_score_vector), (d_projected, d_first, d_query, d_mixed, d_second)

            width, score_row = score_vector.shape[0], score_vector[:, 0]
            previous = delayed(states, state)
            sequences = [as_sequence(d_states), as_sequence(d_attended), previous, middles, queries, attended, gates]
            start = tf.zeros_like(state), tf.zeros_like(keys), tf.zeros_like(score_row)
            (d_state, d_keys, d_score_vector), found = scan(
                step_back, start, sequences, [state.dtype] * 5, reverse=True
            )
            d_projected, d_first, d_query, d_mixed, d_second = map(as_tensor, found)
            before, between = as_tensor(previous), as_tensor(middles)
            return (
                d_projected,
                d_state,
                d_keys * score_row,
                tf.matmul(tf.transpose(as_tensor(attended), [1, 2, 0]), tf.transpose(d_mixed, [1, 0, 2])),
                _product(before, d_first),
                _product(between, d_query),
                d_score_vector[:, None],
                _product(between, d_second),
                tf.reduce_sum(d_second, [0, 1]),
            )

        return outputs, gradient

    states, attended = recurrence(
        tf.transpose(projected, [1, 0, 2]), tf.cast(state, projected.dtype), memory.keys, memory.projected, *weights
    )
    return tf.transpose(states, [1, 0, 2]), tf.transpose(attended, [1, 0, 2])


def _attend(keys, query, score_vector, excluded):
    """Attention weights `[B, S]`; in a row without words they are not 0."""
    compared = tf.tanh(keys + query[:, None])
    return tf.nn.softmax(tf.tensordot(compared, score_vector, 1)[:, :, 0] + excluded)


def _rows(weights, rows):
    """The sum `[B, N]` of `rows` `[B, S, N]`, weighted by `weights` `[B, S]`."""
    return tf.matmul(weights[:, None], rows)[:, 0]


def _product(states, gradients):
    """The gradient of a matrix from its inputs `[T, B, I]` and the gradients of its outputs `[T, B, O]`."""
    return tf.tensordot(states, gradients, [[0, 1], [0, 1]])
