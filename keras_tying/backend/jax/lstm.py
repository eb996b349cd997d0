"""JAX: the recurrence of an LSTM, with the gradient of its recurrent matrix as one product after the loop.

Automatic differentiation of a loop computes and adds the gradient of the weights at every backward step. Here a
backward step computes only the gradients of gates and states. The gradient of the recurrent matrix is one product after
the loop, that of the input matrix one product outside of it.
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
    """As the portable `recurrence`, if the gates are those of an LSTM."""
    if type(layer).gates is not lstm.LSTM.gates:
        return portable(recurrence)(layer, prepared, states, weights, masks, live)
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
    return new if live is None else tuple(a + live * (b - a) for a, b in zip(states, new, strict=True))


def _saved(next_states, prepared, states, kernel, masks, live):
    hiddens, cells, gates = _forward(next_states, prepared, states, kernel, masks, live)
    before = [jnp.concatenate([first[None], each[:-1]]) for first, each in zip(states, (hiddens, cells), strict=True)]
    return (hiddens, cells[-1]), (gates, before, kernel, masks, live)


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
