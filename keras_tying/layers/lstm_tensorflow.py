"""TensorFlow's loop over an LSTM's steps, with its gradient written out.

Automatic differentiation of `tf.while_loop` multiplies and adds a weight-sized matrix at every step
back. Here the backward loop computes only `dz_t`, the gradient of the gates before their
nonlinearities; with all of them in hand, the gradients of the weights and of the inputs are one
matrix product each.
"""

import keras
import tensorflow as tf


def applies(layer, mask):
    """Whether `lstm_sequence` computes what `layer` is configured to compute, on this device."""
    return (
        mask is None
        and not layer.unroll
        and not layer.recurrent_dropout
        and layer.use_cudnn in ("auto", False)
        and layer.activation is keras.activations.tanh
        and layer.recurrent_activation is keras.activations.sigmoid
        and not tf.config.list_logical_devices("GPU")
    )


def lstm_sequence(inputs, hidden, cell, kernel, recurrent_kernel, bias, go_backwards):
    """Runs an LSTM over `inputs` `[B, T, I]` from the states `hidden` and `cell` `[B, H]`.

    Returns:
        The outputs `[B, T, H]` in the order they were computed, and the last two states.
    """
    steps = tf.transpose(inputs, [1, 0, 2])
    if go_backwards:
        steps = tf.reverse(steps, [0])
    length, batch = tf.shape(steps)[0], tf.shape(steps)[1]
    flat = tf.reshape(steps, [-1, steps.shape[-1]])
    projected = tf.matmul(flat, tf.convert_to_tensor(kernel, flat.dtype))
    if bias is not None:
        projected = tf.nn.bias_add(projected, tf.convert_to_tensor(bias, flat.dtype))
    projected = tf.reshape(projected, [length, batch, projected.shape[-1]])
    outputs, cells = _recurrence(projected, hidden, cell, tf.convert_to_tensor(recurrent_kernel, flat.dtype))
    return tf.transpose(outputs, [1, 0, 2]), outputs[-1], cells[-1]


@tf.custom_gradient
def _recurrence(projected, hidden, cell, recurrent_kernel):
    """`projected` `[T, B, 4H]` to outputs and cells `[T, B, H]`."""
    activations, cells, outputs = _forward_loop(projected, hidden, cell, recurrent_kernel)

    def gradient(d_outputs, d_cells):
        d_gates, d_hidden, d_cell = _backward_loop(d_outputs, d_cells, activations, cells, cell, recurrent_kernel)
        units = recurrent_kernel.shape[0]
        previous = tf.concat([hidden[None], outputs[:-1]], 0)
        d_recurrent = tf.matmul(
            tf.reshape(previous, [-1, units]), tf.reshape(d_gates, [-1, 4 * units]), transpose_a=True
        )
        return d_gates, d_hidden, d_cell, d_recurrent

    return (outputs, cells), gradient


def _forward_loop(projected, hidden, cell, recurrent_kernel):
    length = tf.shape(projected)[0]
    inputs = tf.TensorArray(projected.dtype, length).unstack(projected)
    written = [tf.TensorArray(projected.dtype, length) for _ in range(3)]

    def step(t, hidden, cell, activations, cells, outputs):
        z = inputs.read(t) + tf.matmul(hidden, recurrent_kernel)
        z_i, z_f, z_g, z_o = tf.split(z, 4, axis=-1)
        i, f, g, o = tf.sigmoid(z_i), tf.sigmoid(z_f), tf.tanh(z_g), tf.sigmoid(z_o)
        cell = f * cell + i * g
        hidden = o * tf.tanh(cell)
        return (
            t + 1,
            hidden,
            cell,
            activations.write(t, tf.concat([i, f, g, o], -1)),
            cells.write(t, cell),
            outputs.write(t, hidden),
        )

    final = tf.while_loop(lambda t, *_: t < length, step, (0, hidden, cell, *written), maximum_iterations=length)
    batch, units = hidden.shape
    stacked = [array.stack() for array in final[3:]]
    for tensor, width in zip(stacked, (4 * units, units, units), strict=True):
        tensor.set_shape([projected.shape[0], batch, width])
    return stacked


def _backward_loop(d_outputs, d_cells, activations, cells, initial_cell, recurrent_kernel):
    """Gradients of the gates before their nonlinearities `[T, B, 4H]`, and of the initial states."""
    length = tf.shape(activations)[0]
    transposed = tf.transpose(recurrent_kernel)  # once: a transposing product in the loop takes twice as long
    previous_cells = tf.concat([initial_cell[None], cells[:-1]], 0)
    d_outputs, d_cells, activations, cells, previous_cells = (
        tf.TensorArray(tensor.dtype, length).unstack(tensor)
        for tensor in (d_outputs, d_cells, activations, cells, previous_cells)
    )

    def step(t, d_hidden, d_cell, d_gates):
        d_hidden = d_hidden + d_outputs.read(t)
        i, f, g, o = tf.split(activations.read(t), 4, axis=-1)
        squashed = tf.tanh(cells.read(t))
        d_cell = d_cell + d_cells.read(t) + d_hidden * o * (1 - squashed * squashed)
        d_z = tf.concat(
            [
                d_cell * g * i * (1 - i),
                d_cell * previous_cells.read(t) * f * (1 - f),
                d_cell * i * (1 - g * g),
                d_hidden * squashed * o * (1 - o),
            ],
            -1,
        )
        return t - 1, tf.matmul(d_z, transposed), d_cell * f, d_gates.write(t, d_z)

    zeros = tf.zeros_like(initial_cell)
    _, d_hidden, d_cell, d_gates = tf.while_loop(
        lambda t, *_: t >= 0,
        step,
        (length - 1, zeros, zeros, tf.TensorArray(zeros.dtype, length)),
        maximum_iterations=length,
    )
    return d_gates.stack(), d_hidden, d_cell
