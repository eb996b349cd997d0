"""JAX: recurrences of an LSTM and of layers with other gates; the gradient of a matrix is one product after the loop.

Automatic differentiation of a loop computes and adds the gradient of the weights at every backward step. Here a
backward step of an LSTM computes only the gradients of gates and states. The gradient of the recurrent matrix is one
product after the loop, that of the input matrix one product outside of it.

With other gates, the forward loop saves the results of its products with matrices, and the backward loop computes the
gradients of these results. After the loop, one product per matrix gives the gradient of the matrix.
"""

from functools import partial

import jax
import jax.numpy as jnp

from keras_tying.backend import portable
from keras_tying.layers import lstm

UNROLLED_STEPS = 2
"""Steps of one turn of the loop."""


def lstm_loop(layer, sequences, initial_state, mask, training, masks):
    """As the portable `lstm_loop`; cuDNN runs what it can on a GPU, which is float32 only."""
    special = layer.cap_input_gate or masks.hidden or masks.kernel is not None
    cudnn = jax.default_backend() == "gpu" and layer.use_cudnn in ("auto", True) and sequences.dtype == jnp.float32
    if not special and (layer.unroll or cudnn):
        return portable(lstm_loop)(layer, sequences, initial_state, mask, training, masks)
    return lstm.scan_loop(layer, sequences, initial_state, mask, masks)


def recurrence(layer, prepared, states, weights, masks, live):
    """As the portable `recurrence`."""
    if type(layer).gates is not lstm.LSTM.gates:
        return _with_any_gates(layer, prepared, states, weights, masks, live)
    return _recurrence(layer.next_states, prepared, tuple(states), weights[1], tuple(masks.hidden), live)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _recurrence(next_states, prepared, states, kernel, masks, live):
    hiddens, cells, _ = _forward(next_states, prepared, states, kernel, masks, live)
    return hiddens, cells[-1]


def _forward(next_states, prepared, states, kernel, masks, live):
    """Hidden states, cell states and gates before their nonlinearities, after each step."""

    def step(states, inputs):
        prepared, live = inputs
        gates = prepared + lstm.product(states[0], kernel, masks)
        new = _live(next_states(gates, states[1]), states, live)
        return new, (*new, gates)

    _, saved = jax.lax.scan(step, states, (prepared, live), unroll=UNROLLED_STEPS)
    return saved


def _live(new, states, live):
    """The new states, or those before a masked step."""
    return new if live is None else tuple(jnp.where(live > 0, b, a) for a, b in zip(states, new, strict=True))


def _before(states, after):
    """States `[T, B, H]` before each step, from those before the first step and those after each step."""
    return tuple(jnp.concatenate([first[None], each[:-1]]) for first, each in zip(states, after, strict=True))


def _saved(next_states, prepared, states, kernel, masks, live):
    hiddens, cells, gates = _forward(next_states, prepared, states, kernel, masks, live)
    return (hiddens, cells[-1]), (gates, _before(states, (hiddens, cells)), kernel, masks, live)


def _gradients(next_states, saved, upstream):
    gates, (hiddens, cells), kernel, masks, live = saved
    d_hiddens, d_cell = upstream

    def step_back(d_states, inputs):
        gates, hidden, cell, live, d_output = inputs
        d_hidden, d_cell = d_states

        def step(gates, hidden, cell):
            return _live(next_states(gates, cell), (hidden, cell), live)

        _, pull = jax.vjp(step, gates, hidden, cell)
        d_gates, d_hidden, d_cell = pull((d_hidden + d_output, d_cell))
        _, pull = jax.vjp(lambda hidden: lstm.product(hidden, kernel, masks), hidden)
        return (d_hidden + pull(d_gates)[0], d_cell), d_gates

    inputs = (gates, hiddens, cells, live, d_hiddens)
    start = jnp.zeros_like(d_cell), d_cell
    d_states, d_gates = jax.lax.scan(step_back, start, inputs, reverse=True, unroll=UNROLLED_STEPS)
    _, pull = jax.vjp(lambda kernel: lstm.product(hiddens, kernel, masks), kernel)
    return d_gates, d_states, *pull(d_gates), None, None


_recurrence.defvjp(_saved, _gradients)


def _with_any_gates(layer, prepared, states, weights, masks, live):
    def step(prepared, states, weights, masks, live, product):
        hidden, cell = states
        new = layer.next_states(layer.gates(prepared, hidden, weights, masks, product), cell)
        return _live(new, states, live)

    masks = lstm.Masks([], [*masks.hidden])  # steps use no others
    return _any_recurrence(step, prepared, tuple(states), tuple(weights), masks, live)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _any_recurrence(step, prepared, states, weights, masks, live):
    hiddens, cells, _ = _any_forward(step, prepared, states, weights, masks, live)
    return hiddens, cells[-1]


def _any_forward(step, prepared, states, weights, masks, live):
    """Hidden and cell states after each step, and the results of its products."""

    def forward(states, inputs):
        prepared, live = inputs
        results = []

        def product(*arguments):
            results.append(lstm.product(*arguments))
            return results[-1]

        new = step(prepared, states, weights, masks, live, product)
        return new, (*new, results)

    _, saved = jax.lax.scan(forward, states, (prepared, live), unroll=UNROLLED_STEPS)
    return saved


def _any_saved(step, prepared, states, weights, masks, live):
    hiddens, cells, results = _any_forward(step, prepared, states, weights, masks, live)
    before = _before(states, (hiddens, cells))
    return (hiddens, cells[-1]), (prepared, before, results, weights, masks, live)


def _any_gradients(step, saved, upstream):
    prepared, before, results, weights, masks, live = saved
    d_hiddens, d_cell = upstream
    vectors = [weight if weight is not None and weight.ndim == 1 else None for weight in weights]
    multiplied: list = []  # for each product of a step, the place of its matrix in `weights`, and its dropout masks

    def step_back(d_states, inputs):
        prepared, before, results, live, d_hidden = inputs

        def again(prepared, before, results, vectors):
            known, rows = iter(results), []
            multiplied.clear()

            def product(values, matrix, masks=()):
                multiplied.append((next(i for i, weight in enumerate(weights) if weight is matrix), masks))
                rows.append(values)
                return _known_product(values, matrix, tuple(masks), next(known))

            used = [matrix if vector is None else vector for matrix, vector in zip(weights, vectors, strict=True)]
            return step(prepared, before, used, masks, live, product), rows

        _, pull, rows = jax.vjp(again, prepared, before, results, vectors, has_aux=True)
        d_prepared, d_states, d_results, d_vectors = pull((d_states[0] + d_hidden, d_states[1]))
        return d_states, (d_prepared, rows, d_results, d_vectors)

    inputs = (prepared, before, results, live, d_hiddens)
    start = jnp.zeros_like(d_cell), d_cell
    d_states, parts = jax.lax.scan(step_back, start, inputs, reverse=True, unroll=UNROLLED_STEPS)
    d_prepared, rows, d_results, d_vectors = parts
    d_weights = [
        None if weight is None else jnp.zeros_like(weight) if d_vector is None else d_vector.sum(0)
        for weight, d_vector in zip(weights, d_vectors, strict=True)
    ]
    for (place, masks), *product in zip(multiplied, rows, d_results, strict=True):
        d_weights[place] += _matrix_gradient(weights[place], masks, *product)
    return d_prepared, d_states, tuple(d_weights), None, None


def _matrix_gradient(matrix, masks, values, d_result):
    """The gradient of a matrix that the values of all steps are multiplied with."""
    _, pull = jax.vjp(lambda matrix: lstm.product(values, matrix, masks), matrix)
    return pull(d_result)[0]


_any_recurrence.defvjp(_any_saved, _any_gradients)


@jax.custom_vjp
def _known_product(values, matrix, masks, result):
    """A product whose result is known. It has gradients in `values` and `result`, and none in `matrix`."""
    return result


def _known_product_saved(values, matrix, masks, result):
    return result, (values, matrix, masks)


def _known_product_gradient(saved, d_result):
    values, matrix, masks = saved
    _, pull = jax.vjp(lambda values: lstm.product(values, matrix, masks), values)
    return *pull(d_result), None, None, d_result


_known_product.defvjp(_known_product_saved, _known_product_gradient)
