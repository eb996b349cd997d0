"""PyTorch: the tail of an adaptive softmax, for the tokens of its band only."""

import torch

from keras_tying import backend
from keras_tying.backend.torch.fused_cross_entropy import in_transform
from keras_tying.losses import adaptive_cross_entropy as portable


def tail_total_loss(inside, hidden, targets, weights, output):
    """`total_loss` of the tokens `inside`, `[N]`; negative log-likelihoods `[N]`, 0 for the others."""
    if in_transform():
        return backend.portable(tail_total_loss)(inside, hidden, targets, weights, output)
    total, nll = portable.total_loss(hidden[inside], targets[inside], weights[inside], output)
    return total, _spread(nll, inside)


def tail_token_losses(inside, hidden, targets, output):
    """Negative log-likelihoods `[N]` of the tokens `inside`, 0 for the others."""
    if in_transform():
        return backend.portable(tail_token_losses)(inside, hidden, targets, output)
    _, nll = portable.token_losses(hidden[inside], targets[inside], output)
    return _spread(nll, inside)


def _spread(values, inside):
    return torch.zeros(len(inside), dtype=values.dtype, device=values.device).masked_scatter(inside, values)
