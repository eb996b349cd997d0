"""PyTorch: cross-entropy from hidden states, loss and gradient in one pass over chunks of tokens."""

from collections.abc import Iterable
from dataclasses import replace

import torch

from keras_tying.losses import fused_cross_entropy as portable

in_transform = torch._C._are_functorch_transforms_active  # PyTorch has no public name for it
"""Whether a transform of `torch.func` calls, which allows neither `out=` nor shapes that depend on values."""


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
    if torch.is_grad_enabled() and in_transform():
        objective, nll = portable.chunk_losses(hidden, targets, output)
        return objective * weights, nll.detach()
    trained = output.trained
    if not (torch.is_grad_enabled() and any(each.requires_grad for each in (hidden, *trained.values()))):
        objective, nll = token_losses(hidden, targets, output)
        return objective * weights, nll
    fixed = replace(output.settings, **output.fixed)
    return _WeightedLosses.apply(fixed, tuple(trained), hidden, targets, weights, *trained.values())


def _gradients(hidden, targets, weights, output):
    """Objectives and negative log-likelihoods `[N]`; gradients of hidden states, and float32 ones of `trained`."""
    output = replace(output, embeddings=output.embeddings.to(hidden.dtype))
    sums = {name: torch.zeros_like(each, dtype=torch.float32) for name, each in output.trained.items()}
    pieces, buffers = [], None
    for states, words, chunk_weights in _chunks((hidden, targets, weights), output):
        if buffers is None:  # all chunks use the same ones, because it is slow to allocate them for each chunk
            shape = len(states), len(output.embeddings)
            buffers = hidden.new_empty(shape), hidden.new_empty(shape, dtype=torch.float32)
        views = [each[: len(states)] for each in buffers]
        pieces.append(_chunk_gradients(states, words, chunk_weights, output, views, sums))
    return *map(torch.cat, zip(*pieces, strict=True)), sums


def _differentiable_gradients(hidden, targets, weights, output):
    """As `_gradients`, with operations that are differentiable."""
    chunks = _chunks((hidden, targets, weights), output)
    found = (portable.chunk_gradients(states, words, shares, output) for states, words, shares in chunks)
    losses, trained = zip(*found, strict=True)
    sums = {name: sum(each[name] for each in trained) for name in output.trained}
    return *map(torch.cat, zip(*losses, strict=True)), sums


def _chunk_gradients(hidden, targets, weights, output, buffers, sums):
    """As the portable `chunk_gradients`, but adds the gradients of the parameters to `sums`."""
    logits = torch.mm(hidden, output.embeddings.T, out=buffers[0]).float()
    if output.bias is not None:
        logits += output.bias.float()
    logits = portable.scaled_logits(logits, output)
    divergence = portable.divergence_of(logits, targets, output)
    log_probabilities = torch.log_softmax(logits, -1, out=buffers[1])
    objective, nll = portable.normalized_losses(log_probabilities, 0, targets, output.label_smoothing)
    d_logits = _logit_gradient(logits, log_probabilities, nll, targets, divergence, output).to(hidden.dtype)
    # The weights are multiplied with the narrow factors of the products, not with the logits.
    by_token = weights.to(hidden.dtype)[:, None]
    _add_product(sums["embeddings"], d_logits.T, hidden * by_token)
    if output.bias is not None:
        sums["bias"] += (by_token.T @ d_logits)[0]
    if "input_embeddings" in sums:
        sums["input_embeddings"] += portable.soft_target_gradient(divergence, targets, weights, output)
    return portable.with_soft_target(objective, divergence, output), nll, d_logits @ output.embeddings * by_token


def _logit_gradient(logits, log_probabilities, nll, targets, divergence, output):
    """As the portable `_logit_gradient`, in the memory of `log_probabilities`."""
    words, _ = portable.words_of(targets, logits.shape[-1])
    gradient = log_probabilities.exp_()
    gradient[torch.arange(len(words), device=words.device), words] = torch.exp(-nll) - (1 - output.label_smoothing)
    if output.label_smoothing:
        gradient -= output.label_smoothing / logits.shape[-1]
    if divergence is not None:
        soft = output.soft_target
        excess = torch.exp(divergence.log_prediction) - torch.exp(divergence.log_target)
        gradient.mul_(soft.cross_entropy_weight).add_(excess, alpha=soft.weight / soft.temperature)
    if output.temperature != 1:
        gradient /= output.temperature
    if output.logit_soft_cap is not None:
        gradient *= 1 - torch.square(logits * (output.temperature / output.logit_soft_cap))
    return gradient


def _add_product(total, left, right):
    """`total += left @ right`, without another matrix if all have one type."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right


def _chunks(arrays, output) -> Iterable[tuple]:
    """Chunks of arrays along their first axis."""
    length = portable.chunk_length(len(arrays[0]), output, arrays[0].dtype)
    return zip(*(each.split(length) for each in arrays), strict=True)


class _WeightedLosses(torch.autograd.Function):
    """Weighted objectives and negative log-likelihoods `[N]`.

    The forward pass computes the gradient of the sum of the objectives. If the backward pass comes from a multiple of
    the sum, it only scales it; PyTorch then gives it one number, expanded to `[N]`. If the backward pass is recorded,
    it computes the gradient again with operations that are differentiable; these keep all logits.
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
    def backward(ctx, upstream, _):
        hidden, targets, weights, *others = ctx.saved_tensors
        count = len(ctx.names)
        parameters, unit, gradients = others[:count], others[count], others[count + 1 :]
        recorded = torch.is_grad_enabled()  # the gradients will be differentiated, as `create_graph=True` asks
        if not recorded and len(upstream) and (upstream.stride() == (0,) or bool((upstream == upstream[0]).all())):
            unit = unit * upstream[0]
        elif len(upstream):
            output = replace(ctx.fixed, **dict(zip(ctx.names, parameters, strict=True)))
            shares, unit = portable.weight_shares(weights * upstream)
            compute = _differentiable_gradients if recorded else _gradients
            _, _, d_hidden, d_trained = compute(hidden, targets, shares, output)
            gradients = d_hidden, *(d_trained[name] for name in ctx.names)
        types = [hidden.dtype, *(each.dtype for each in parameters)]
        d_hidden, *d_trained = ((each.float() * unit).to(dtype) for each, dtype in zip(gradients, types, strict=True))
        return None, None, d_hidden, None, None, *d_trained
