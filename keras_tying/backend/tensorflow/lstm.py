"""TensorFlow: the recurrence of an LSTM on a CPU, with its gradient written out.

Automatic differentiation of a loop computes and adds the gradient of the weights at every backward step. Here a
backward step computes only `dz_t`, the gradient of the gates before their nonlinearities. The gradients of the weights
and of the inputs are one matrix product each, after the loop.
"""

import keras
import tensorflow as tf

from keras_tying.backend import portable
from keras_tying.backend.tensorflow.scan import as_sequence, as_tensor, delayed, scan


def run_loop(layer, sequences, initial_state, mask, training, masks):
    if not applies(layer):
        return portable(run_loop)(layer, sequences, initial_state, mask, training, masks)
    mask = mask[0] if isinstance(mask, (list, tuple)) else mask
    states, cell = lstm_sequence(
        sequences,
        initial_state,
        layer.recurrence_weights(masks),
        mask,
        masks.inputs,
        masks.hidden,
        layer.go_backwards,
        layer.cap_input_gate,
    )
    outputs = states if mask is None else _masked_outputs(layer, states, mask)
    return outputs[:, -1], outputs, [states[:, -1], cell]


def scan_time(step, states, sequences):
    """Unrolls short sequences, see `scan`."""

    def first_of(states, inputs):
        states = step(states, inputs)
        return states, states[:1]

    last, (first,) = scan(first_of, states, [as_sequence(each) for each in sequences], 1)
    return last, as_tensor(first)


def applies(layer):
    """Whether `lstm_sequence` can run `layer` with its settings on this device."""
    return (
        not layer.unroll
        and layer.use_cudnn in ("auto", False)
        and layer.activation is keras.activations.tanh
        and layer.recurrent_activation is keras.activations.sigmoid
        and not tf.config.list_logical_devices("GPU")
    )


def _masked_outputs(layer, states, mask):
    """Outputs at masked steps as in the Keras layer: the previous output, or zero."""
    mask = tf.reverse(mask, [1]) if layer.go_backwards else tf.convert_to_tensor(mask)
    if not layer.zero_output_for_mask:
        mask = tf.cumsum(tf.cast(mask, tf.int32), axis=1) > 0
    return tf.where(mask[:, :, None], states, tf.zeros([], states.dtype))


def lstm_sequence(
    inputs,
    states,
    weights,
    mask=None,
    input_dropout=(),
    recurrent_dropout=(),
    go_backwards=False,
    cap_input_gate=False,
):
    """Runs an LSTM over `inputs` `[B, T, I]`.

    Args:
        inputs: Tensor `[B, T, I]`.
        states: Hidden and cell state `[B, H]` before the first step.
        weights: Kernel `[I, 4H]`, recurrent kernel `[H, 4H]`, and bias `[4H]` or `None`.
        mask: Optional booleans `[B, T]`. The states do not change at steps that are `False`.
        input_dropout: Dropout masks `[B, I]` of the inputs: none, one, or one per gate.
        recurrent_dropout: Dropout masks `[B, H]` of the hidden states: none, one, or one per gate.
        go_backwards: Whether the steps are processed in reverse order.
        cap_input_gate: Whether the input gate is at most 1 minus the forget gate.

    Returns:
        The hidden states after each step `[B, T, H]`, in the order of computation, and the last cell
        state `[B, H]`.
    """
    kernel, recurrent_kernel, bias = (w if w is None else tf.convert_to_tensor(w, inputs.dtype) for w in weights)
    steps = _time_major(inputs, go_backwards)
    projected = _product(steps, _split(kernel, input_dropout), input_dropout)
    if bias is not None:
        projected = projected + bias
    live = None if mask is None else _time_major(tf.cast(mask, inputs.dtype)[:, :, None], go_backwards)
    hidden, cell = states
    hiddens, cell = _recurrence(projected, hidden, cell, recurrent_kernel, live, recurrent_dropout, cap_input_gate)
    return tf.transpose(hiddens, [1, 0, 2]), cell


def _time_major(tensor, go_backwards):
    tensor = tf.transpose(tensor, [1, 0, 2])
    return tf.reverse(tensor, [0]) if go_backwards else tensor


def _recurrence(projected, hidden, cell, kernel, live, dropout, capped):
    """Hidden states `[T, B, H]` and last cell state, from the input's part of the gates `projected` `[T, B, 4H]`."""
    live = [] if live is None else [as_sequence(live)]

    @tf.custom_gradient
    def recurrence(projected, hidden, cell, kernel):
        kernels = _split(kernel, dropout)

        def step(states, inputs):
            return _step(states, inputs, kernels, dropout, capped)

        (_, last_cell), (hiddens, cells, *gates) = scan(step, (hidden, cell), [as_sequence(projected), *live], 6)
        outputs = as_tensor(hiddens)

        def gradient(d_outputs, d_last_cell):
            transposed = [tf.transpose(part) for part in kernels]  # once, because `transpose_b` takes twice as long

            def step_back(states, inputs):
                return _step_back(states, inputs, transposed, dropout, capped)

            sequences = [as_sequence(d_outputs), *gates, cells, delayed(cells, cell), *live]
            initial = tf.zeros_like(cell), d_last_cell
            (d_hidden, d_cell), (d_gates,) = scan(step_back, initial, sequences, 1, reverse=True)
            d_projected = as_tensor(d_gates)
            previous = as_tensor(delayed(hiddens, hidden))
            d_kernel = _kernel_gradient(previous, d_projected, dropout)
            return d_projected, d_hidden, d_cell, d_kernel

        return (outputs, last_cell), gradient

    return recurrence(projected, hidden, cell, kernel)


def _step(states, inputs, kernels, dropout, capped):
    hidden, cell = states
    projected, *live = inputs
    i, f, g, o = tf.split(projected + _product(hidden, kernels, dropout), 4, axis=-1)
    i, f, g, o = tf.sigmoid(i), tf.sigmoid(f), tf.tanh(g), tf.sigmoid(o)
    used = tf.minimum(i, 1 - f) if capped else i
    new_cell = f * cell + used * g
    new_hidden = o * tf.tanh(new_cell)
    if live:
        new_cell = cell + live[0] * (new_cell - cell)
        new_hidden = hidden + live[0] * (new_hidden - hidden)
    return (new_hidden, new_cell), (new_hidden, new_cell, i, f, g, o)


def _step_back(states, inputs, transposed, dropout, capped):
    d_output, i, f, g, o, cell, previous_cell, *live = inputs
    d_hidden, d_cell = states[0] + d_output, states[1]
    if live:
        passed = d_hidden * (1 - live[0]), d_cell * (1 - live[0])
        d_hidden, d_cell = d_hidden * live[0], d_cell * live[0]
    squashed = tf.tanh(cell)
    d_cell = d_cell + d_hidden * o * (1 - squashed * squashed)
    d_i, d_f, used = d_cell * g, d_cell * previous_cell, i
    if capped:
        free = i < 1 - f  # else the input gate is 1 - f
        used = tf.where(free, i, 1 - f)
        d_i, d_f = tf.where(free, d_i, 0), tf.where(free, d_f, d_f - d_i)
    d_gates = tf.concat(
        [
            d_i * i * (1 - i),
            d_f * f * (1 - f),
            d_cell * used * (1 - g * g),
            d_hidden * squashed * o * (1 - o),
        ],
        axis=-1,
    )
    d_hidden, d_cell = _product_back(d_gates, transposed, dropout), d_cell * f
    if live:
        d_hidden, d_cell = d_hidden + passed[0], d_cell + passed[1]
    return (d_hidden, d_cell), (d_gates,)


# Products with a kernel [I, 4H] whose input has no dropout mask, one mask for all gates, or one mask per gate.


def _split(tensor, dropout):
    """The columns of each dropout mask."""
    return tf.split(tensor, len(dropout), axis=-1) if len(dropout) > 1 else [tensor]


def _dropped(states, dropout):
    return [states * mask for mask in dropout] or [states]


def _product(states, kernels, dropout):
    parts = [tf.tensordot(s, k, 1) for s, k in zip(_dropped(states, dropout), kernels, strict=True)]
    return parts[0] if len(parts) == 1 else tf.concat(parts, axis=-1)


def _product_back(d_gates, transposed, dropout):
    parts = [tf.matmul(d, k) for d, k in zip(_split(d_gates, dropout), transposed, strict=True)]
    if dropout:
        parts = [part * mask for part, mask in zip(parts, dropout, strict=True)]
    return parts[0] if len(parts) == 1 else tf.add_n(parts)


def _kernel_gradient(states, d_gates, dropout):
    parts = [
        tf.tensordot(s, d, [[0, 1], [0, 1]])
        for s, d in zip(_dropped(states, dropout), _split(d_gates, dropout), strict=True)
    ]
    return parts[0] if len(parts) == 1 else tf.concat(parts, axis=-1)
