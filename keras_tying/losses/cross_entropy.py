"""Cross-entropy of word sequences, from logits or from hidden states.

The logits of all tokens of a batch are the largest tensor of a language model, and their gradient is as large. Fast
paths of `linear_cross_entropy` compute logits, loss and gradient for a chunk of tokens, and free the logits before the
next chunk.

With hidden states `h`, output embeddings `V`, bias `b`, logits `z = h V^T + b` and target `o`::

    loss      = log sum_k exp(z_k) - z_o
    dloss/dz  = softmax(z) - onehot(o)

Reference:
    Press and Wolf, Using the Output Embedding to Improve Language Models, section 3.
"""

from dataclasses import dataclass, replace
from typing import Any

import keras
from keras import ops

from keras_tying.backend import dispatch, portable
from keras_tying.backend.replicas import rows_of_batch, sum_over_replicas

REDUCTIONS = ("sum_over_steps", "mean")


@keras.saving.register_keras_serializable("keras_tying")
class SequenceCrossEntropy(keras.losses.Loss):
    """Negative log-likelihood of the next words, on the scale of published learning rates.

    As a Keras loss it takes logits. The models of keras_tying compiled with it train without keeping logits: loss and
    gradient are computed from hidden states, in chunks of tokens.

    Args:
        scale: `"sum_over_steps"` (default) sums over the `T` steps of a window and averages over the
            rows of the batch, as the published recipes for Penn Treebank do: their learning rate 1 and
            clipping norm 5 are for this scale. `"mean"` averages over tokens and is `T` times smaller.
        label_smoothing: Float in [0, 1), the share of the target that is uniform over all words.
        temperature: Positive float by which the logits are divided.
        ignore_id: Optional integer. Targets equal to it are left out of the sum and the mean.
        name: Optional name.

    Raises:
        ValueError: If an argument is outside its range.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> loss = kt.losses.SequenceCrossEntropy()
    >>> targets, logits = np.zeros((2, 5), "int32"), np.zeros((2, 5, 10), "float32")
    >>> round(float(loss(targets, logits)), 4)  # 5 steps, each ln 10
    11.5129

    Reference:
        Zaremba, Sutskever and Vinyals, Recurrent Neural Network Regularization, section 4.1.
    """

    def __init__(
        self,
        scale="sum_over_steps",
        label_smoothing=0.0,
        temperature=1.0,
        ignore_id=None,
        name="sequence_cross_entropy",
        **kwargs,
    ):
        super().__init__(name=name, **kwargs)
        if scale not in REDUCTIONS:
            raise ValueError(f"`scale` must be one of {REDUCTIONS}. Received: scale={scale!r}")
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"`label_smoothing` must be in [0, 1). Received: label_smoothing={label_smoothing}")
        if temperature <= 0:
            raise ValueError(f"`temperature` must be positive. Received: temperature={temperature}")
        self.scale = scale
        self.label_smoothing = label_smoothing
        self.temperature = temperature
        self.ignore_id = ignore_id

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Scalar loss of targets `[B, T]` under logits `[B, T, V]`."""
        objective, _ = losses_from_logits(
            ops.cast(y_pred, "float32") / self.temperature, ops.cast(y_true, "int32"), self.label_smoothing
        )
        return ops.sum(objective * self.token_weights(y_true, sample_weight))

    def token_weights(self, y_true, sample_weight=None):
        """Weight `[B, T]` of each target in the scalar loss. The losses of all replicas add up to the batch's loss."""
        weights = self._counted(y_true, sample_weight)
        if self.scale == "sum_over_steps":
            return weights / rows_of_batch(y_true)
        (total,) = sum_over_replicas([ops.sum(weights)])
        return weights / ops.maximum(total, 1)

    def from_hidden(self, y_true, hidden, output, sample_weight=None, training=True, seed=None):
        """The loss from hidden states, without keeping logits.

        Args:
            y_true: Targets `[B, T]`.
            hidden: Hidden states before the output embedding, `[B, T, H]`.
            output: The `OutputProjection` of the model. Temperature and label smoothing are those of this loss.
            sample_weight: Optional weights that broadcast to `[B, T]`.
            training: Whether a gradient is needed.
            seed: Seed generator, for losses that draw random numbers.

        Returns:
            The scalar loss, the negative log-likelihood of each token `[B, T]`, and the weight of each token in a
            mean `[B, T]`.
        """
        flat_targets = ops.cast(ops.reshape(y_true, (-1,)), "int32")
        flat_hidden = ops.reshape(hidden, (-1, hidden.shape[-1]))
        weights = ops.reshape(self.token_weights(y_true, sample_weight), (-1,))
        output = self._applied_to(output, hidden)
        if training:
            total, nll = linear_cross_entropy(flat_hidden, flat_targets, weights, output)
        else:
            objective, nll = linear_token_losses(flat_hidden, flat_targets, output)
            total = ops.sum(objective * weights)
        return total, ops.reshape(nll, ops.shape(y_true)), self._counted(y_true, sample_weight)

    def _applied_to(self, output, hidden):
        """The output projection with the temperature and label smoothing of this loss."""
        return replace(output, temperature=self.temperature, label_smoothing=self.label_smoothing)

    def _counted(self, y_true, sample_weight):
        counted = ops.ones(ops.shape(y_true), "float32")
        if self.ignore_id is not None:
            counted = ops.cast(ops.not_equal(y_true, self.ignore_id), "float32")
        if sample_weight is not None:
            sample_weight = ops.cast(sample_weight, "float32")
            if len(sample_weight.shape) < len(counted.shape):
                sample_weight = ops.expand_dims(sample_weight, -1)
            counted = counted * sample_weight
        return counted

    def get_config(self):
        return {
            **super().get_config(),
            "scale": self.scale,
            "label_smoothing": self.label_smoothing,
            "temperature": self.temperature,
            "ignore_id": self.ignore_id,
        }


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
