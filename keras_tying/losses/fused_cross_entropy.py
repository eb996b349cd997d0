"""Cross-entropy of words from hidden states and output embeddings, without keeping logits.

The logits of all tokens of a batch are the largest tensor of a language model, and their gradient is as large. Each
backend has a fast path that computes logits, loss and gradient for a chunk of tokens, and frees the logits before the
next chunk. Gradients are computed along with the losses, so no product is computed twice.

With hidden states `h`, output embeddings `V`, bias `b`, logits `z = h V^T + b` and target `o`::

    loss      = log sum_k exp(z_k) - z_o
    dloss/dz  = softmax(z) - onehot(o)

The functions of this module call a loss with label smoothing and soft target the objective. Negative log-likelihoods
are without both.

Reference:
    Press and Wolf, Using the Output Embedding to Improve Language Models, section 3.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import keras
from keras import ops

from keras_tying.backend import dispatch

LOGITS_PER_CHUNK = 2**25
"""Number of logits (tokens times words) of a chunk: 128 MiB in float32. For wide embeddings see `longest_chunk`."""

FLOAT16_TOKENS = 4096
"""Tokens of a chunk in float16. Its gradients are sums over tokens, and more than 65,504 is infinite there."""


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
        dtype: Type in which hidden states and embeddings are multiplied. `None` is that of the hidden states.

    Example:

    >>> import keras_tying as kt
    >>> model = kt.zoo.recurrent_language_model(100, units=8, tied=True)
    >>> output = model.output_projection
    >>> output.embeddings is model.embedding.embeddings, tuple(output.bias.shape)
    (True, (100,))
    """

    embeddings: Any = field(repr=False)  # else errors of Keras, which show the arguments, would print the matrix
    bias: Any = field(default=None, repr=False)
    logit_soft_cap: float | None = None
    temperature: float = 1.0
    label_smoothing: float = 0.0
    input_embeddings: Any = field(default=None, repr=False)
    soft_target: SoftTarget | None = None
    dtype: str | None = None

    def total_loss(self, hidden, targets, weights):
        """The function `total_loss` with these parameters."""
        return total_loss(hidden, targets, weights, self)

    def token_losses(self, hidden, targets):
        """The function `token_losses` with these parameters."""
        return token_losses(hidden, targets, self)

    @property
    def settings(self):
        """The settings alone, which a compiled function can depend on."""
        return replace(self, embeddings=None, bias=None, input_embeddings=None)

    @property
    def trained(self):
        """Tensors of the parameters that get a gradient, by name."""
        names = ["embeddings", *(["bias"] if self.bias is not None else [])]
        if self.soft_target is not None and self.soft_target.target_gradient:
            names.append("input_embeddings")
        return {name: ops.convert_to_tensor(getattr(self, name)) for name in names}

    @property
    def fixed(self):
        """Tensors of the other parameters, by name."""
        if self.soft_target is None or self.soft_target.target_gradient:
            return {}
        return {"input_embeddings": ops.stop_gradient(ops.convert_to_tensor(self.input_embeddings))}


@dispatch
def token_losses(hidden, targets, output):
    """Objective and negative log-likelihood of each token, without a gradient.

    Args:
        hidden: Hidden states `[N, H]`.
        targets: Word ids `[N]`.
        output: An `OutputProjection`.

    Returns:
        Objectives `[N]` and negative log-likelihoods `[N]`.
    """
    return chunk_losses(hidden, targets, output)


def chunk_losses(hidden, targets, output):
    """`token_losses` of a chunk of tokens."""
    logits = scaled_logits(_logits(hidden, output), output)
    objective, nll = losses_from_logits(logits, targets, output.label_smoothing)
    return with_soft_target(objective, divergence_of(logits, targets, output), output), nll


@dispatch
def weighted_losses(hidden, targets, weights, output):
    """The objective of each token times its weight, `[N]`. Arguments are those of `total_loss`."""
    return chunk_losses(hidden, targets, output)[0] * weights


@dispatch
def total_loss(hidden, targets, weights, output):
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
    objective, nll = chunk_losses(hidden, targets, output)
    return ops.sum(objective * weights), ops.stop_gradient(nll)


def losses_from_logits(logits, targets, label_smoothing=0.0):
    """Objective and negative log-likelihood `[...]` of `targets` `[...]` under `logits` `[..., V]`.

    Both are NaN for targets outside `[0, V)`.
    """
    return normalized_losses(logits, ops.logsumexp(logits, axis=-1), targets, label_smoothing)


def normalized_losses(logits, normaliser, targets, label_smoothing):
    """`losses_from_logits` with the log-sum-exp of the logits, which is 0 for log-probabilities."""
    words, valid = words_of(targets, logits.shape[-1])
    nll = normaliser - ops.take_along_axis(logits, ops.expand_dims(words, -1), axis=-1)[..., 0]
    nll = ops.where(valid, nll, float("nan"))
    if not label_smoothing:
        return nll, nll
    uniform = normaliser - ops.mean(logits, axis=-1)
    return (1 - label_smoothing) * nll + label_smoothing * uniform, nll


def int32_ids(targets):
    """Word ids as int32. Those beyond its range, which are no words, stay outside of the vocabulary."""
    targets = ops.convert_to_tensor(targets)
    if keras.backend.standardize_dtype(targets.dtype) == "int64":
        targets = ops.clip(targets, -(2**31), 2**31 - 1)
    return ops.cast(targets, "int32")


def words_of(targets, vocabulary_size):
    """Targets with word 0 in place of ids outside `[0, V)`, and whether each was inside."""
    valid = ops.logical_and(targets >= 0, targets < vocabulary_size)
    return ops.where(valid, targets, 0), valid


def _logits(hidden, output):
    """Logits `[N, V]` in float32, before soft cap and temperature."""
    logits = ops.matmul(hidden, ops.transpose(ops.cast(output.embeddings, hidden.dtype)))
    logits = ops.cast(logits, "float32")
    return logits if output.bias is None else logits + ops.cast(output.bias, "float32")


def scaled_logits(logits, output):
    """Logits after the soft cap and the temperature of an `OutputProjection`."""
    if output.logit_soft_cap is not None:
        logits = ops.tanh(logits / output.logit_soft_cap) * output.logit_soft_cap
    return logits if output.temperature == 1 else logits / output.temperature


@dataclass(frozen=True)
class Divergence:
    """`KL(y~ || y^)` of the tokens of a chunk.

    Attributes:
        values: The divergences `[N]`.
        log_target: Logarithm of `y~`, `[N, V]`.
        log_prediction: Logarithm of `y^`, `[N, V]`.
    """

    values: Any
    log_target: Any
    log_prediction: Any


def divergence_of(logits, targets, output):
    """The `Divergence` from the soft target, or `None` without one. `logits` are scaled."""
    soft = output.soft_target
    if soft is None:
        return None
    embeddings, (words, _) = ops.cast(output.input_embeddings, logits.dtype), words_of(targets, logits.shape[-1])
    similarity = ops.matmul(ops.take(embeddings, words, axis=0), ops.transpose(embeddings)) / soft.temperature
    if not soft.target_gradient:
        similarity = ops.stop_gradient(similarity)
    target = ops.log_softmax(similarity, axis=-1)
    prediction = ops.log_softmax(logits / soft.temperature, axis=-1)
    return Divergence(ops.sum(ops.exp(target) * (target - prediction), axis=-1), target, prediction)


def with_soft_target(objective, divergence, output):
    """The objective `[N]` including the soft target."""
    if divergence is None:
        return objective
    return output.soft_target.cross_entropy_weight * objective + output.soft_target.weight * divergence.values


def chunk_gradients(hidden, targets, weights, output):
    """Losses of a chunk of tokens, and the gradients of their weighted sum.

    Args:
        hidden: Hidden states `[N, H]`.
        targets: Word ids `[N]`.
        weights: Weight of each token `[N]`.
        output: An `OutputProjection`.

    Returns:
        `(objectives [N], negative log-likelihoods [N], gradient of hidden states [N, H])`, and the float32 gradients of
        the trained parameters by name.
    """
    logits = scaled_logits(_logits(hidden, output), output)
    normaliser = ops.logsumexp(logits, axis=-1)
    objective, nll = normalized_losses(logits, normaliser, targets, output.label_smoothing)
    divergence = divergence_of(logits, targets, output)
    d_logits = ops.cast(_logit_gradient(logits, normaliser, nll, targets, divergence, output), hidden.dtype)
    # The weights are multiplied with the narrow factors of the products, not with the logits.
    by_token = ops.cast(weights, hidden.dtype)[:, None]
    gradients = {"embeddings": ops.cast(ops.matmul(ops.transpose(d_logits), hidden * by_token), "float32")}
    if output.bias is not None:
        gradients["bias"] = ops.cast(ops.matmul(ops.transpose(by_token), d_logits), "float32")[0]
    if output.soft_target is not None and output.soft_target.target_gradient:
        gradients["input_embeddings"] = soft_target_gradient(divergence, targets, weights, output)
    d_hidden = ops.matmul(d_logits, ops.cast(output.embeddings, hidden.dtype)) * by_token
    return (with_soft_target(objective, divergence, output), nll, d_hidden), gradients


def weight_shares(weights):
    """Weights `[N]` divided by the largest one, which then multiplies the gradients, and that one, float32.

    The weights of a mean over many tokens are too small for float16. The largest one counts as a constant in second
    derivatives, and is 1 if all weights are 0: their product then has the gradient of the weights.
    """
    largest = ops.stop_gradient(ops.max(ops.abs(weights), initial=0))
    largest = ops.where(ops.equal(largest, 0), ops.ones_like(largest), largest)
    return weights / largest, largest


def _logit_gradient(logits, normaliser, nll, targets, divergence, output):
    """Gradients `[N, V]` of the objectives in the logits before soft cap and temperature."""
    soft = output.soft_target
    share = 1.0 if soft is None else soft.cross_entropy_weight
    gradient = ops.exp(logits - normaliser[:, None])
    at_target = ops.exp(-nll) - (1 - output.label_smoothing)
    if output.label_smoothing:
        gradient = gradient - output.label_smoothing / logits.shape[-1]
        at_target = at_target - output.label_smoothing / logits.shape[-1]
    words, _ = words_of(targets, logits.shape[-1])
    places = ops.stack([ops.arange(ops.shape(words)[0], dtype=words.dtype), words], axis=-1)
    gradient = ops.scatter_update(gradient, places, at_target)
    if soft is not None:
        excess = ops.exp(divergence.log_prediction) - ops.exp(divergence.log_target)
        gradient = share * gradient + (soft.weight / soft.temperature) * excess
    if output.temperature != 1:
        gradient = gradient / output.temperature
    if output.logit_soft_cap is not None:
        gradient = gradient * (1 - ops.square(logits * (output.temperature / output.logit_soft_cap)))
    return gradient


def soft_target_gradient(divergence, targets, weights, output):
    """Gradient `[V, H]` of the weighted divergences in the input embeddings, through `y~`."""
    soft, embeddings = output.soft_target, ops.cast(output.input_embeddings, "float32")
    target = ops.exp(divergence.log_target)
    excess = divergence.log_target - divergence.log_prediction - divergence.values[:, None]
    d_similarity = target * excess * (weights * (soft.weight / soft.temperature))[:, None]
    words, _ = words_of(targets, divergence.log_target.shape[-1])
    of_words = ops.matmul(ops.transpose(d_similarity), ops.take(embeddings, words, axis=0))
    return of_words + ops.segment_sum(ops.matmul(d_similarity, embeddings), words, embeddings.shape[0])


def longest_chunk(output, dtype):
    """Tokens of the longest chunk of hidden states of a dtype, which is a string.

    It has at least as many logits as the embeddings have elements, because each chunk adds a matrix of their size to
    their gradient.
    """
    words, width = output.embeddings.shape
    longest = LOGITS_PER_CHUNK // words
    return max(1, min(longest, FLOAT16_TOKENS) if dtype == "float16" else longest, width)


def chunk_length(tokens, output, dtype, parts=1):
    """Tokens of a chunk of hidden states of a dtype, for chunks of about the same length.

    There are at least `parts` chunks, unless they would be too short for the width of the embeddings.
    """
    shortest = max(1, output.embeddings.shape[1] // 2)
    longest = longest_chunk(output, keras.backend.standardize_dtype(dtype))
    chunks = max(1, -(-tokens // longest), min(parts, tokens // shortest))
    return max(1, -(-tokens // chunks))
