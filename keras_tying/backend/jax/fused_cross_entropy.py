"""JAX: cross-entropy from hidden states, loss and gradient in one pass over chunks of tokens."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp

from keras_tying.losses import fused_cross_entropy as portable

SKIPPED_PARTS = 8
"""Least number of chunks where some can be skipped: on average half a chunk is computed in vain."""


def token_losses(hidden, targets, output):
    """Objective and negative log-likelihood `[N]` of `targets` `[N]` given `hidden` `[N, H]`."""
    return _token_losses(output.settings, hidden, targets, {**output.trained, **output.fixed})


def weighted_losses(hidden, targets, weights, output):
    """The objective of each token times its weight, `[N]`."""
    return _weighted_losses(output.settings, hidden, targets, weights, output.trained, output.fixed)


def total_loss(hidden, targets, weights, output):
    """The weighted sum of objectives, and negative log-likelihoods `[N]`."""
    total, nll = _total_loss(output.settings, hidden, targets, weights, output.trained, output.fixed)
    return total, jax.lax.stop_gradient(nll)


def token_losses_of_first(hidden, targets, output, number):
    """Negative log-likelihoods `[N]`. Only those of the first `number` tokens are needed."""
    return _token_losses(output.settings, hidden, targets, {**output.trained, **output.fixed}, number)[1]


def loss_of_first(hidden, targets, weights, output, number):
    """`total_loss` of tokens `[N]` of which only the first `number` have a weight."""
    return _total_loss(output.settings, hidden, targets, weights, output.trained, output.fixed, number)


@partial(jax.jit, static_argnums=0)
def _token_losses(settings, hidden, targets, parameters, number=None):
    output = replace(settings, **parameters)

    def of_chunk(hidden, targets):
        return portable.chunk_losses(hidden, targets, output), {}

    losses, _ = _over_chunks(of_chunk, (hidden, targets), output, number)
    return losses


@partial(jax.jit, static_argnums=0)
def _gradients(settings, hidden, targets, weights, trained, fixed, number=None):
    """Objectives and negative log-likelihoods `[N]`; gradients of hidden states, and float32 ones of `trained`."""
    output = replace(settings, **trained, **fixed)
    (objective, nll, d_hidden), d_trained = _over_chunks(
        partial(portable.chunk_gradients, output=output), (hidden, targets, weights), output, number
    )
    return objective, nll, d_hidden, d_trained


def _over_chunks(function, arrays, output, number=None):
    """Applies `function` to chunks of `arrays`; its arrays are concatenated, and its gradients summed.

    If only the first `number` tokens count, chunks without any of them are skipped, and what they would give is 0.
    """
    tokens = arrays[0].shape[0]
    if not isinstance(tokens, int):  # while Keras finds out shapes
        return function(*arrays)
    length = portable.chunk_length(tokens, output, arrays[0].dtype, 1 if number is None else SKIPPED_PARTS)
    if length >= tokens:
        return function(*arrays)
    chunks = -(-tokens // length)
    arrays = [jnp.pad(each, [(0, chunks * length - tokens), *[(0, 0)] * (each.ndim - 1)]) for each in arrays]
    arrays = [each.reshape(chunks, length, *each.shape[1:]) for each in arrays]
    shapes = jax.eval_shape(function, *(each[0] for each in arrays))
    nothing, zeros = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)

    def add_chunk(sums, chunk):
        found, gradients = function(*chunk)
        return jax.tree.map(jnp.add, sums, gradients), found

    def add_or_skip(sums, numbered):
        start, chunk = numbered
        return jax.lax.cond(start < number, add_chunk, lambda sums, _: (sums, nothing), sums, chunk)

    if number is None:
        sums, found = jax.lax.scan(add_chunk, zeros, arrays)
    else:
        sums, found = jax.lax.scan(add_or_skip, zeros, (jnp.arange(chunks) * length, arrays))
    return jax.tree.map(lambda each: each.reshape(chunks * length, *each.shape[2:])[:tokens], found), sums


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _total_loss(settings, hidden, targets, weights, trained, fixed, number=None):
    objective, nll = _token_losses(settings, hidden, targets, {**trained, **fixed}, number)
    return jnp.sum(objective * weights), nll


def _total_loss_forward(settings, hidden, targets, weights, trained, fixed, number=None):
    shares, unit = portable.weight_shares(weights)
    objective, nll, *gradients = _gradients(settings, hidden, targets, shares, trained, fixed, number)
    return (jnp.sum(objective * weights), nll), (gradients, unit, trained)


def _total_loss_backward(settings, residuals, upstream):
    gradients, unit, trained = residuals
    d_hidden, d_trained = _scaled(gradients, upstream[0] * unit, trained)
    return d_hidden, None, None, d_trained, None, None


_total_loss.defvjp(_total_loss_forward, _total_loss_backward)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _weighted_losses(settings, hidden, targets, weights, trained, fixed):
    objective, _ = _token_losses(settings, hidden, targets, {**trained, **fixed})
    return objective * weights


def _weighted_losses_forward(settings, hidden, targets, weights, trained, fixed):
    shares, unit = portable.weight_shares(weights)
    objective, _, *gradients = _gradients(settings, hidden, targets, shares, trained, fixed)
    return objective * weights, ((hidden, targets, weights, trained, fixed), gradients, unit)


@partial(jax.jit, static_argnums=0)  # without it, each call outside of `jit` compiles the branches again
def _weighted_losses_backward(settings, residuals, upstream):
    d_hidden, d_trained = _gradient_of_weighted(settings, upstream, *residuals)
    return d_hidden, None, None, d_trained, None


_weighted_losses.defvjp(_weighted_losses_forward, _weighted_losses_backward)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _gradient_of_weighted(settings, upstream, arrays, gradients, unit):
    """Gradients of hidden states and trained parameters.

    If the losses have one upstream, those that the forward pass has computed are scaled. Else, and for second
    derivatives, they are computed again.
    """
    largest, trained = jnp.max(upstream, initial=-jnp.inf), arrays[3]
    return jax.lax.cond(
        largest == jnp.min(upstream, initial=jnp.inf),
        lambda: _scaled(gradients, largest * unit, trained),
        lambda: _gradient_again(settings, upstream, arrays),
    )


@_gradient_of_weighted.defjvp
def _second_of_weighted(settings, primals, tangents):
    upstream, (hidden, targets, weights, trained, fixed), _, _ = primals
    d_upstream, (d_hidden, _, _, d_trained, _), _, _ = tangents

    def again(upstream, hidden, trained):
        return _gradient_again(settings, upstream, (hidden, targets, weights, trained, fixed))

    _, changes = jax.jvp(again, (upstream, hidden, trained), (d_upstream, d_hidden, d_trained))
    return _gradient_of_weighted(settings, *primals), changes


def _gradient_again(settings, upstream, arrays):
    hidden, targets, weights, trained, fixed = arrays
    shares, unit = portable.weight_shares(weights * upstream)
    return _scaled(_gradients(settings, hidden, targets, shares, trained, fixed)[2:], unit, trained)


def _scaled(gradients, scale, trained):
    """Gradients times a float32 number, in the types of hidden states and parameters."""
    d_hidden, d_trained = jax.tree.map(lambda each: each.astype(jnp.float32) * scale, gradients)
    d_trained = {name: d_trained[name].astype(array.dtype) for name, array in trained.items()}
    return d_hidden.astype(gradients[0].dtype), d_trained
