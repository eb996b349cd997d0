"""JAX: the recurrence of an LSTM or of a layer with other gates, with the gradient of each matrix as one product.

Automatic differentiation of a loop computes and adds the gradients of the weights at every backward step. Here the
backward loop stops at the results of the products with matrices, which the forward loop has saved. The gradient of a
matrix is one product after the loop, of the rows that all steps multiplied with it and the gradients of the results.
"""

from functools import partial

import jax
import jax.numpy as jnp

from keras_tying.backend import portable
from keras_tying.layers import lstm

UNROLLED_STEPS = 2
"""Steps of one turn of the loop."""


def run_loop(layer, sequences, initial_state, mask, training, masks):
    """As the portable `run_loop`; cuDNN runs what it can on a GPU."""
    special = layer.cap_input_gate or masks.hidden or masks.kernel is not None
    if not special and (layer.unroll or (jax.default_backend() == "gpu" and layer.use_cudnn in ("auto", True))):
        return portable(run_loop)(layer, sequences, initial_state, mask, training, masks)
    return lstm.scan_loop(layer, sequences, initial_state, mask, masks)


def recurrence(layer, prepared, states, weights, masks, live):
    """As the portable `recurrence`."""

    def step(prepared, states, weights, masks, live, product):
        hidden, cell = states
        new = layer.next_states(layer.gates(prepared, hidden, weights, masks, product), cell)
        return new if live is None else tuple(a + live * (b - a) for a, b in zip(states, new, strict=True))

    masks = lstm.Masks([], [*masks.hidden])
    return _recurrence(step, prepared, tuple(states), tuple(weights), masks, live)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _recurrence(step, prepared, states, weights, masks, live):
    hiddens, cells, _ = _forward(step, prepared, states, weights, masks, live)
    return hiddens, cells[-1]


def _forward(step, prepared, states, weights, masks, live):
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


def _saved(step, prepared, states, weights, masks, live):
    hiddens, cells, results = _forward(step, prepared, states, weights, masks, live)
    before = [jnp.concatenate([first[None], each[:-1]]) for first, each in zip(states, (hiddens, cells), strict=True)]
    return (hiddens, cells[-1]), (prepared, before, results, weights, masks, live)


def _gradients(step, saved, upstream):
    prepared, before, results, weights, masks, live = saved
    d_hiddens, d_cell = upstream
    vectors = [weight for weight in weights if weight is not None and weight.ndim == 1]
    matrices = []  # of the products of a step, in their order, with the dropout masks of their rows

    def step_back(d_states, inputs):
        prepared, before, results, live, d_hidden = inputs

        def again(prepared, before, results, vectors):
            known, given, rows = iter(results), iter(vectors), []
            matrices.clear()
            used = [next(given) if weight is not None and weight.ndim == 1 else weight for weight in weights]

            def product(values, matrix, masks=()):
                matrices.append((next(i for i, weight in enumerate(weights) if weight is matrix), masks))
                rows.append(values)
                return _known_product(values, matrix, tuple(masks), next(known))

            return step(prepared, before, used, masks, live, product), rows

        _, pull, rows = jax.vjp(again, prepared, before, results, vectors, has_aux=True)
        d_prepared, d_states, d_results, d_vectors = pull((d_states[0] + d_hidden, d_states[1]))
        return d_states, (d_prepared, rows, d_results, d_vectors)

    inputs = (prepared, tuple(before), results, live, d_hiddens)
    start = jnp.zeros_like(d_cell), d_cell
    d_states, parts = jax.lax.scan(step_back, start, inputs, reverse=True, unroll=UNROLLED_STEPS)
    d_prepared, rows, d_results, d_vectors = parts
    d_weights = [None if weight is None else jnp.zeros_like(weight) for weight in weights]
    for (place, masks_of_rows), values, d_result in zip(matrices, rows, d_results, strict=True):
        _, pull = jax.vjp(lambda matrix: lstm.product(values, matrix, masks_of_rows), weights[place])  # noqa: B023  # called at once
        d_weights[place] += pull(d_result)[0]
    d_vectors = iter(d_vectors)
    for place, weight in enumerate(weights):
        if weight is not None and weight.ndim == 1:
            d_weights[place] = next(d_vectors).sum(0)
    return d_prepared, d_states, tuple(d_weights), None, None


_recurrence.defvjp(_saved, _gradients)


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
