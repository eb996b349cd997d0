"""Cross-entropy of the logits of a linear layer, computed without keeping the logits.

The logits of all tokens of a batch are the largest tensor of a language model, and their gradient is as large. Fast
paths compute logits, loss and gradient for a chunk of tokens, and free the logits before the next chunk.

With hidden states `h`, output embeddings `V`, bias `b`, logits `z = h V^T + b` and target `o`::

    loss      = log sum_k exp(z_k) - z_o
    dloss/dz  = softmax(z) - onehot(o)

Reference:
    Press and Wolf, Using the Output Embedding to Improve Language Models, section 3.
"""

from dataclasses import dataclass
from typing import Any

from keras import ops

from keras_tying.backend import dispatch, portable


@dataclass(frozen=True)
class SoftTarget:
    """A target distribution over all words, from the similarity of their embeddings to that of the target word.

    With the input embedding `u` of the target word, all input embeddings `L` and logits `z`::

        objective = cross_entropy_weight * loss + weight * KL(softmax(L u / temperature) || softmax(z / temperature))

    Attributes:
        temperature: Divisor of similarities and logits.
        weight: Weight of the divergence.
        cross_entropy_weight: Weight of the cross-entropy.
        target_gradient: Whether the gradient also flows through the target distribution.
    """

    temperature: float
    weight: float
    cross_entropy_weight: float = 1.0
    target_gradient: bool = False


@dataclass(frozen=True)
class OutputProjection:
    """The parameters that turn hidden states into logits, and the settings of the loss.

    Attributes:
        embeddings: Output embeddings `[V, H]`.
        bias: Bias `[V]`, or `None`.
        logit_soft_cap: Logits `z` become `logit_soft_cap * tanh(z / logit_soft_cap)`. `None` sets no cap.
        temperature: Divisor of the logits, after the cap.
        label_smoothing: Share of the target distribution that is uniform over all words.
        input_embeddings: Input embeddings `[V, H]`, for the soft target.
        soft_target: Optional `SoftTarget`.
    """

    embeddings: Any
    bias: Any = None
    logit_soft_cap: float | None = None
    temperature: float = 1.0
    label_smoothing: float = 0.0
    input_embeddings: Any = None
    soft_target: SoftTarget | None = None


@dispatch
def linear_token_losses(hidden, targets, output):
    """Objective and negative log-likelihood of each token.

    Args:
        hidden: Hidden states `[N, H]`.
        targets: Word ids `[N]`.
        output: An `OutputProjection`.

    Returns:
        Objectives `[N]`, which include label smoothing and soft target, and negative log-likelihoods `[N]`.
    """
    logits = ops.matmul(hidden, ops.transpose(ops.cast(output.embeddings, hidden.dtype)))
    logits = ops.cast(logits, "float32")
    if output.bias is not None:
        logits = logits + ops.cast(output.bias, "float32")
    logits = scaled_logits(logits, output)
    objective, nll = losses_from_logits(logits, targets, output.label_smoothing)
    if output.soft_target is not None:
        objective = _with_soft_target(objective, logits, targets, output)
    return objective, nll


def scaled_logits(logits, output):
    """Logits after the soft cap and the temperature of an `OutputProjection`."""
    if output.logit_soft_cap is not None:
        logits = ops.tanh(logits / output.logit_soft_cap) * output.logit_soft_cap
    return logits if output.temperature == 1 else logits / output.temperature


def _with_soft_target(objective, logits, targets, output):
    soft = output.soft_target
    embeddings = ops.cast(output.input_embeddings, logits.dtype)
    similarity = ops.matmul(ops.take(embeddings, targets, axis=0), ops.transpose(embeddings)) / soft.temperature
    if not soft.target_gradient:
        similarity = ops.stop_gradient(similarity)
    target = ops.log_softmax(similarity, axis=-1)
    prediction = ops.log_softmax(logits / soft.temperature, axis=-1)
    divergence = ops.sum(ops.exp(target) * (target - prediction), axis=-1)
    return soft.cross_entropy_weight * objective + soft.weight * divergence


def losses_from_logits(logits, targets, label_smoothing=0.0):
    """Objective and negative log-likelihood `[...]` of `targets` `[...]` under `logits` `[..., V]`.

    Only the objective includes label smoothing.
    """
    normaliser = ops.logsumexp(logits, axis=-1)
    nll = normaliser - ops.take_along_axis(logits, ops.expand_dims(targets, -1), axis=-1)[..., 0]
    if not label_smoothing:
        return nll, nll
    uniform = normaliser - ops.mean(logits, axis=-1)
    return (1 - label_smoothing) * nll + label_smoothing * uniform, nll


@dispatch
def linear_cross_entropy(hidden, targets, weights, output):
    """Weighted sum of the objectives of all tokens.

    The sum is differentiable in `hidden`, the output embeddings, the bias and, with
    `soft_target.target_gradient`, the input embeddings.

    Args:
        hidden: Hidden states `[N, H]`.
        targets: Word ids `[N]`.
        weights: Weight of each token `[N]`, without gradient.
        output: An `OutputProjection`.

    Returns:
        The scalar `sum(weights * objective)`, and negative log-likelihoods `[N]` without gradient.
    """
    objective, nll = portable(linear_token_losses)(hidden, targets, output)
    return ops.sum(objective * weights), ops.stop_gradient(nll)
