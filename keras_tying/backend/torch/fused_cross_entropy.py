"""PyTorch: cross-entropy from hidden states, loss and gradient in one pass over chunks of tokens."""

from collections.abc import Iterable
from dataclasses import replace

import torch

from keras_tying.losses import fused_cross_entropy as portable


def token_losses(hidden, targets, output):
    """Objective and negative log-likelihood `[N]` of `targets` `[N]` given `hidden` `[N, H]`, without gradient."""
    with torch.no_grad():
        pieces = [portable.chunk_losses(states, words, output) for states, words in _chunks((hidden, targets), output)]
        return tuple(map(torch.cat, zip(*pieces, strict=True)))


def weighted_losses(hidden, targets, weights, output):
    """The objective of each token times its weight, `[N]`."""
    return _losses(hidden, targets, weights, output)[0]


def total_loss(hidden, targets, weights, output):
    """The weighted sum of objectives, and negative log-likelihoods `[N]`."""
    losses, nll = _losses(hidden, targets, weights, output)
    return losses.sum(), nll


def _losses(hidden, targets, weights, output):
    trained = output.trained
    if not (torch.is_grad_enabled() and any(each.requires_grad for each in (hidden, *trained.values()))):
        objective, nll = token_losses(hidden, targets, output)
        return objective * weights, nll
    fixed = replace(output.settings, **output.fixed)
    return _WeightedLosses.apply(fixed, tuple(trained), hidden, targets, weights, *trained.values())


def _gradients(hidden, targets, weights, output):
    """Objectives and negative log-likelihoods `[N]`; gradients of hidden states, and float32 ones of `trained`."""
    pieces, sums = [], None
    for states, words, chunk_weights in _chunks((hidden, targets, weights), output):
        piece, gradients = portable.chunk_gradients(states, words, chunk_weights, output)
        pieces.append(piece)
        if sums is None:
            sums = gradients
        else:
            for name, gradient in gradients.items():
                sums[name] += gradient
        del gradients
    return *map(torch.cat, zip(*pieces, strict=True)), sums


def _chunks(arrays, output) -> Iterable[tuple]:
    """Chunks of arrays along their first axis."""
    length = portable.chunk_length(len(arrays[0]), output)
    return zip(*(each.split(length) for each in arrays), strict=True)


class _WeightedLosses(torch.autograd.Function):
    """Weighted objectives and negative log-likelihoods `[N]`.

    The forward pass computes the gradient of the sum of the objectives. If the backward pass comes from a multiple of
    the sum, it only scales it; PyTorch then gives it one number, expanded to `[N]`.
    """

    @staticmethod
    def forward(ctx, fixed, names, hidden, targets, weights, *parameters):
        output = replace(fixed, **dict(zip(names, parameters, strict=True)))
        shares, unit = portable.weight_shares(weights)
        objective, nll, d_hidden, d_trained = _gradients(hidden, targets, shares, output)
        ctx.fixed, ctx.names = fixed, names
        gradients = d_hidden, *(d_trained[name] for name in names)
        ctx.save_for_backward(hidden, targets, weights, *parameters, unit, *gradients)
        ctx.mark_non_differentiable(nll)
        return objective * weights, nll

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, upstream, _):
        hidden, targets, weights, *others = ctx.saved_tensors
        count = len(ctx.names)
        parameters, unit, gradients = others[:count], others[count], others[count + 1 :]
        if len(upstream) and (upstream.stride() == (0,) or bool((upstream == upstream[0]).all())):
            unit = unit * upstream[0]
        elif len(upstream):
            output = replace(ctx.fixed, **dict(zip(ctx.names, parameters, strict=True)))
            shares, unit = portable.weight_shares(weights * upstream)
            _, _, d_hidden, d_trained = _gradients(hidden, targets, shares, output)
            gradients = d_hidden, *(d_trained[name] for name in ctx.names)
        types = [hidden.dtype, *(each.dtype for each in parameters)]
        d_hidden, *d_trained = ((each.float() * unit).to(dtype) for each, dtype in zip(gradients, types, strict=True))
        return None, None, d_hidden, None, None, *d_trained
