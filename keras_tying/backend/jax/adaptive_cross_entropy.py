"""JAX: the tail of an adaptive softmax. The tokens of its band are sorted to the front, and chunks of others skipped.

A compiled function has one shape, so the tokens of a band, whose number depends on the targets, cannot be gathered.
"""

import jax
import jax.numpy as jnp

from keras_tying.backend.jax import fused_cross_entropy as fused


def tail_total_loss(inside, hidden, targets, weights, output):
    """`total_loss` of the tokens `inside`, `[N]`; negative log-likelihoods `[N]`, 0 for the others."""
    order, number = _insiders_first(inside)
    arrays = hidden[order], jnp.where(inside, targets, 0)[order], jnp.where(inside, weights, 0)[order]
    total, nll = fused.loss_of_first(*arrays, output, number)
    return total, jax.lax.stop_gradient(_in_place(nll, order, inside))


def tail_token_losses(inside, hidden, targets, output):
    """Negative log-likelihoods `[N]` of the tokens `inside`, 0 for the others."""
    order, number = _insiders_first(inside)
    nll = fused.token_losses_of_first(hidden[order], jnp.where(inside, targets, 0)[order], output, number)
    return _in_place(nll, order, inside)


def _insiders_first(inside):
    """An order of the tokens, those inside first, and their number."""
    return jnp.argsort(~inside), jnp.sum(inside)


def _in_place(values, order, inside):
    """Values in the order of the tokens; 0 for those outside that share a chunk with some inside."""
    return jnp.where(inside, jnp.zeros_like(values).at[order].set(values), 0)
