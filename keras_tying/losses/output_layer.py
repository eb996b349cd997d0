"""Cross-entropy of an output layer without keeping its logits.

The scores of all words for all tokens of a batch are the largest tensor of a language model, and its
gradient is as large. Here a chunk of tokens is scored, its loss and its gradient are computed
together, and the chunk's scores are gone before the next chunk's exist.

With hidden states `h`, output embeddings `V` and bias `b`, `z = h V^T + b` and target `o`::

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
class Augmentation:
    """A second target beside the word itself: all words, by their embeddings' likeness to it.

    With the input embedding `u` of the target, all input embeddings `L` and scores `z`::

        objective = cross_entropy_weight * loss + alpha * KL(softmax(L u / tau) || softmax(z / tau))

    Attributes:
        tau: What both sides' scores are divided by.
        alpha: Weight of the divergence.
        cross_entropy_weight: Weight of the loss it is added to.
        target_gradient: Whether embeddings are also trained through the target distribution.
    """

    tau: float
    alpha: float
    cross_entropy_weight: float = 1.0
    target_gradient: bool = False


@dataclass(frozen=True)
class OutputLayer:
    """What turns hidden states into a loss, besides the targets.

    Attributes:
        embeddings: Output embeddings `[V, H]`.
        bias: Bias `[V]`, or `None`.
        soft_cap: Scores `z` become `soft_cap * tanh(z / soft_cap)`; `None` leaves them.
        temperature: What scores are divided by, after the cap.
        label_smoothing: Share of the target distribution that is uniform over all words.
        input_embeddings: Input embeddings `[V, H]`, which an augmentation compares words by.
        augmentation: Optional `Augmentation` of the loss.
    """

    embeddings: Any
    bias: Any = None
    soft_cap: float | None = None
    temperature: float = 1.0
    label_smoothing: float = 0.0
    input_embeddings: Any = None
    augmentation: Augmentation | None = None


@dispatch
def token_losses(hidden, targets, output):
    """Objective and negative log-likelihood `[N]`, through all logits at once."""
    logits = ops.matmul(hidden, ops.transpose(ops.cast(output.embeddings, hidden.dtype)))
    logits = ops.cast(logits, "float32")
    if output.bias is not None:
        logits = logits + ops.cast(output.bias, "float32")
    logits = scores_to_softmax(logits, output)
    objective, nll = losses_from_logits(logits, targets, output.label_smoothing)
    if output.augmentation is not None:
        objective = _augmented(objective, logits, targets, output)
    return objective, nll


def scores_to_softmax(scores, output):
    """Scores after the soft cap and the temperature."""
    if output.soft_cap is not None:
        scores = ops.tanh(scores / output.soft_cap) * output.soft_cap
    return scores if output.temperature == 1 else scores / output.temperature


def _augmented(objective, logits, targets, output):
    augmentation = output.augmentation
    rows = ops.cast(output.input_embeddings, logits.dtype)
    likeness = ops.matmul(ops.take(rows, targets, axis=0), ops.transpose(rows)) / augmentation.tau
    if not augmentation.target_gradient:
        likeness = ops.stop_gradient(likeness)
    wanted = ops.log_softmax(likeness, axis=-1)
    given = ops.log_softmax(logits / augmentation.tau, axis=-1)
    divergence = ops.sum(ops.exp(wanted) * (wanted - given), axis=-1)
    return augmentation.cross_entropy_weight * objective + augmentation.alpha * divergence


def losses_from_logits(logits, targets, label_smoothing=0.0):
    """Objective and negative log-likelihood `[...]` of `targets` `[...]` under `logits` `[..., V]`.

    The two differ by label smoothing, which belongs to the objective only.
    """
    normaliser = ops.logsumexp(logits, axis=-1)
    nll = normaliser - ops.take_along_axis(logits, ops.expand_dims(targets, -1), axis=-1)[..., 0]
    if not label_smoothing:
        return nll, nll
    uniform = normaliser - ops.mean(logits, axis=-1)
    return (1 - label_smoothing) * nll + label_smoothing * uniform, nll


@dispatch
def fused_cross_entropy(hidden, targets, weights, output):
    """Returns `sum(weights * objective)` and the negative log-likelihoods `[N]`."""
    objective, nll = portable(token_losses)(hidden, targets, output)
    return ops.sum(objective * weights), ops.stop_gradient(nll)
