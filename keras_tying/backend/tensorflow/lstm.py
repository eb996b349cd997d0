"""TensorFlow: the recurrence of an LSTM on a CPU, and that of layers with other gates.

Automatic differentiation of a loop computes and adds the gradient of the weights at every backward step. Here the
gradient of each matrix is one product, after the loop. The gradient of the LSTM is written out: a backward step
computes only `dz_t`, the gradient of the gates before their nonlinearities. With other gates (`recurrence`)
differentiation is automatic, but it stops at the results of matrix products. The gradient of a matrix is then the
product of the rows that all steps multiplied with it and the gradients of the results.
"""

import keras
import tensorflow as tf

from keras_tying.backend import portable
from keras_tying.backend.tensorflow.gradients import by_transpose, sigmoid_gradient, tanh_gradient, wide_dtype
from keras_tying.backend.tensorflow.scan import as_sequence, as_tensor, delayed, is_unrolled, scan
from keras_tying.layers import lstm


def lstm_loop(layer, sequences, initial_state, mask, training, masks):
    if not applies(layer):
        return portable(lstm_loop)(layer, sequences, initial_state, mask, training, masks)
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
    outputs = states if mask is None else lstm.masked_outputs(layer, states, mask)
    return outputs[:, -1], outputs, [states[:, -1], cell]


def recurrence(layer, prepared, states, weights, masks, live):
    """As the portable `recurrence`, which runs long sequences, those of unknown length, and one mask per gate."""
    if not is_unrolled(prepared) or len(masks.hidden) > 1:
        return portable(recurrence)(layer, prepared, states, weights, masks, live)
    dtype, wide = prepared.dtype, wide_dtype(prepared.dtype)
    narrow = masks
    masks = masks._replace(hidden=[tf.cast(mask, wide) for mask in masks.hidden])
    places = [place for place, weight in enumerate(weights) if weight is not None]

    def run_portable(prepared, hidden, cell, *weights_at_places):
        given = dict(zip(places, weights_at_places, strict=True))
        every = [given.get(place) for place in range(len(weights))]
        return portable(recurrence)(layer, prepared, [hidden, cell], every, narrow, live)

    @tf.custom_gradient
    def run(*tensors):
        prepared, hidden, cell, *weights_at_places = tensors
        given = dict(zip(places, weights_at_places, strict=True))
        vectors = {place: weight for place, weight in given.items() if weight.shape.rank == 1}
        products = _Products([weight for weight in given.values() if weight.shape.rank == 2], wide)
        sources = prepared, hidden, cell, vectors
        with tf.GradientTape(persistent=True) as tape:  # a saved function is differentiated more than once
            tape.watch(sources)
            used = [tf.cast(vectors[i], wide) if i in vectors else given.get(i) for i in range(len(weights))]
            state = tf.cast(hidden, wide), tf.cast(cell, wide)
            hiddens = []
            for t, step in enumerate(tf.unstack(tf.cast(prepared, wide))):
                new = layer.next_states(layer.gates(step, state[0], used, masks, products), state[1])
                if live is not None:
                    new = [tf.where(live[t] != 0, after, before) for after, before in zip(new, state, strict=True)]
                state = new
                hiddens.append(state[0])
            results = tf.cast(tf.stack(hiddens), dtype), tf.cast(state[1], dtype)

        def gradient(*upstream):
            *d_states, d_vectors, d_results = tape.gradient(results, [*sources, products.results], list(upstream))
            found = (
                *d_states,
                *(
                    d_vectors[place] if place in vectors else products.matrix_gradient(weight, d_results)
                    for place, weight in given.items()
                ),
            )
            return _with_second_gradients(found, run_portable, tensors, upstream)

        return results, gradient

    return run(prepared, *states, *(weights[place] for place in places))


def _with_second_gradients(gradients, function, tensors, upstream):
    """`gradients` of `function` in `tensors`, some of them `None`, whose own gradients are those of `function`."""
    places = [place for place, each in enumerate(gradients) if each is not None]
    sources = [*upstream, *tensors]

    @tf.custom_gradient
    def differentiable(*_):
        def second(*wanted):
            with tf.GradientTape() as outer:
                outer.watch(sources)
                with tf.GradientTape() as inner:
                    inner.watch(tensors)
                    results = function(*tensors)
                found = inner.gradient(results, [tensors[place] for place in places], list(upstream))
            return outer.gradient(found, sources, wanted, tf.UnconnectedGradients.ZERO)

        return [gradients[place] for place in places], second

    found = dict(zip(places, differentiable(*sources), strict=True))
    return [found.get(place) for place in range(len(gradients))]


def scan_time(step, states, sequences):
    """Unrolls short sequences, see `scan`."""

    def first_of(states, inputs):
        states = step(states, inputs)
        return states, states[:1]

    last, (first,) = scan(first_of, states, [as_sequence(each) for each in sequences], [states[0].dtype])
    return last, as_tensor(first)


def applies(layer):
    """Whether `lstm_sequence` can run `layer` with its settings on this device."""
    return (
        lstm.has_steps_of_lstm(layer)
        and not layer.unroll
        and layer.use_cudnn in ("auto", False)
        and layer.activation is keras.activations.tanh
        and layer.recurrent_activation is keras.activations.sigmoid
        and not tf.config.list_logical_devices("GPU")
    )


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
    live = None if mask is None else _time_major(tf.cast(mask, tf.bool)[:, :, None], go_backwards)
    hidden, cell = states
    hiddens, cell = _recurrence(projected, hidden, cell, recurrent_kernel, live, recurrent_dropout, cap_input_gate)
    return tf.transpose(hiddens, [1, 0, 2]), cell


def _time_major(tensor, go_backwards):
    tensor = tf.transpose(tensor, [1, 0, 2])
    return tf.reverse(tensor, [0]) if go_backwards else tensor


def _recurrence(projected, hidden, cell, kernel, live, dropout, capped):
    """Hidden states `[T, B, H]` and last cell state, from the input's part of the gates `projected` `[T, B, 4H]`."""
    live = [] if live is None else [as_sequence(live)]
    dtype, wide = projected.dtype, wide_dtype(projected.dtype)

    @tf.custom_gradient
    def recurrence(projected, hidden, cell, kernel):
        kernels = _split(kernel, dropout)
        start = tf.cast(cell, wide)

        def step(states, inputs):
            return _step(states, inputs, kernels, dropout, capped)

        kept = [dtype] + [wide] * 5
        (_, last_cell), (hiddens, cells, *gates) = scan(step, (hidden, start), [as_sequence(projected), *live], kept)
        outputs = as_tensor(hiddens)

        def gradient(d_outputs, d_last_cell):
            back = [by_transpose(part) for part in kernels]

            def step_back(states, inputs):
                return _step_back(states, inputs, back, dropout, capped)

            sequences = [as_sequence(d_outputs), *gates, cells, delayed(cells, start), *live]
            initial = tf.zeros_like(hidden), tf.cast(d_last_cell, wide)
            (d_hidden, d_cell), (d_gates,) = scan(step_back, initial, sequences, [dtype], reverse=True)
            d_projected = as_tensor(d_gates)
            previous = as_tensor(delayed(hiddens, hidden))
            d_kernel = _kernel_gradient(previous, d_projected, dropout)
            return d_projected, d_hidden, tf.cast(d_cell, dtype), d_kernel

        return (outputs, tf.cast(last_cell, dtype)), gradient

    return recurrence(projected, hidden, cell, kernel)


def _step(states, inputs, kernels, dropout, capped):
    hidden, cell = states
    projected, *live = inputs
    gates = tf.cast(projected, cell.dtype) + tf.cast(_product(hidden, kernels, dropout), cell.dtype)
    i, f, g, o = tf.split(gates, 4, axis=-1)
    i, f, g, o = tf.sigmoid(i), tf.sigmoid(f), tf.tanh(g), tf.sigmoid(o)
    used = tf.minimum(i, 1 - f) if capped else i
    new_cell = f * cell + used * g
    new_hidden = tf.cast(o * tf.tanh(new_cell), hidden.dtype)
    if live:
        new_cell = tf.where(live[0], new_cell, cell)
        new_hidden = tf.where(live[0], new_hidden, hidden)
    return (new_hidden, new_cell), (new_hidden, new_cell, i, f, g, o)


def _step_back(states, inputs, back, dropout, capped):
    d_output, i, f, g, o, cell, previous_cell, *live = inputs
    d_hidden = tf.cast(states[0], cell.dtype) + tf.cast(d_output, cell.dtype)
    d_cell = states[1]
    if live:
        zero = tf.zeros([], cell.dtype)
        passed = tf.where(live[0], zero, d_hidden), tf.where(live[0], zero, d_cell)
        d_hidden, d_cell = tf.where(live[0], d_hidden, zero), tf.where(live[0], d_cell, zero)
    squashed = tf.tanh(cell)
    d_cell = d_cell + tanh_gradient(squashed, d_hidden * o)
    d_i, d_f, used = d_cell * g, d_cell * previous_cell, i
    if capped:
        free = i < 1 - f  # else the input gate is 1 - f
        used = tf.where(free, i, 1 - f)
        d_i, d_f = tf.where(free, d_i, 0), tf.where(free, d_f, d_f - d_i)
    d_gates = [
        sigmoid_gradient(i, d_i),
        sigmoid_gradient(f, d_f),
        tanh_gradient(g, d_cell * used),
        sigmoid_gradient(o, d_hidden * squashed),
    ]
    d_gates = tf.concat([tf.cast(d_gate, d_output.dtype) for d_gate in d_gates], axis=-1)
    d_hidden, d_cell = _product_back(d_gates, back, dropout), d_cell * f
    if live:
        d_hidden, d_cell = d_hidden + tf.cast(passed[0], d_output.dtype), d_cell + passed[1]
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


def _product_back(d_gates, back, dropout):
    parts = [multiply(part) for multiply, part in zip(back, _split(d_gates, dropout), strict=True)]
    if dropout:
        parts = [part * mask for part, mask in zip(parts, dropout, strict=True)]
    return parts[0] if len(parts) == 1 else tf.add_n(parts)


def _kernel_gradient(states, d_gates, dropout):
    parts = [
        tf.tensordot(s, d, [[0, 1], [0, 1]])
        for s, d in zip(_dropped(states, dropout), _split(d_gates, dropout), strict=True)
    ]
    return parts[0] if len(parts) == 1 else tf.concat(parts, axis=-1)


class _Products:
    """Multiplies rows with matrices, and keeps rows and results for `matrix_gradient`.

    Args:
        matrices: The matrices, in the dtype of the products.
        dtype: The dtype in which a product is returned.

    Attributes:
        results: The results of all calls, before the cast to `dtype`.
    """

    def __init__(self, matrices, dtype):
        self.dtype = dtype
        self.results = []
        self._multiply = {matrix.ref(): _product_of_rows(matrix) for matrix in matrices}
        self._calls: dict = {key: [] for key in self._multiply}  # rows of each call and the place of its result

    def __call__(self, rows, matrix, masks=()):
        rows = tf.cast(rows * masks[0] if masks else rows, matrix.dtype)
        self._calls[matrix.ref()].append((rows, len(self.results)))
        self.results.append(self._multiply[matrix.ref()](rows))
        return tf.cast(self.results[-1], self.dtype)

    def matrix_gradient(self, matrix, d_results):
        """The gradient of `matrix` from those of all `results`; `None` if it was not multiplied."""
        calls = self._calls[matrix.ref()]
        if not calls:
            return None
        rows = tf.concat([rows for rows, _ in calls], 0)
        return tf.matmul(rows, tf.concat([d_results[place] for _, place in calls], 0), transpose_a=True)


def _product_of_rows(matrix):
    """A function that multiplies rows by `matrix`. Only the rows receive a gradient."""
    back = by_transpose(matrix)
    return tf.custom_gradient(lambda rows: (tf.matmul(rows, matrix), back))
