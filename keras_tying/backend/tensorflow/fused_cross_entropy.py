"""TensorFlow: cross-entropy from hidden states, loss and gradient in one pass over chunks of tokens."""

from dataclasses import replace
from typing import NamedTuple

import tensorflow as tf

from keras_tying.losses import fused_cross_entropy as portable

SMALLEST_PROBABILITY = 1e-30
"""Below this value float32 loses digits, and the log-probability is computed from the logits."""


def token_losses(hidden, targets, output):
    """Objective and negative log-likelihood `[N]` of `targets` `[N]` given `hidden` `[N, H]`, in chunks."""
    parameters = _Parameters.of(hidden, output)

    def chunk_losses(states, targets):
        logits = _logits(states, parameters, output)
        objective, nll = _losses(logits, tf.nn.softmax(logits), targets, output)
        return portable.with_soft_target(objective, _divergence(logits, targets, parameters, output), output), nll

    return _over_chunks(chunk_losses, (hidden, targets), output)


def total_loss(hidden, targets, weights, output):
    """The weighted sum of objectives. The forward pass also computes the gradient; the backward pass only scales it."""
    parameters = _Parameters.of(hidden, output)

    @tf.custom_gradient
    def total(hidden, *trained):
        shares, unit = portable.weight_shares(weights)
        objective, nll, *gradients = _gradients(hidden, targets, shares, parameters, trained, output)
        loss = tf.reduce_sum(objective * weights)
        return (loss, nll), lambda upstream, _: _scaled(gradients, upstream * unit, [hidden, *trained])

    total, nll = total(hidden, *output.trained.values())
    return total, tf.stop_gradient(nll)


def weighted_losses(hidden, targets, weights, output):
    """The objective of each token times its weight, `[N]`.

    If the gradient comes from a multiple of their sum, the one that the forward pass has computed is scaled. Else, and
    for second derivatives, it is computed again.
    """
    parameters, of_output, fixed = _Parameters.of(hidden, output), output.trained, output.fixed

    def again(upstream, hidden, *trained):
        given = _Parameters.of(hidden, replace(output, **fixed, **dict(zip(of_output, trained, strict=True))))
        shares, unit = portable.weight_shares(weights * upstream)
        _, _, *gradients = _gradients(hidden, targets, shares, given, trained, output)
        return _scaled(gradients, unit, [hidden, *trained])

    @tf.custom_gradient
    def losses(*tensors):
        hidden, *trained = tensors
        shares, unit = portable.weight_shares(weights)
        objective, _, *gradients = _gradients(hidden, targets, shares, parameters, trained, output)

        @tf.custom_gradient
        def gradient(*sources):
            upstream = sources[0]
            found = tf.cond(
                tf.reduce_max(upstream) == tf.reduce_min(upstream),
                lambda: _scaled(gradients, tf.reduce_max(upstream) * unit, tensors),
                lambda: again(*sources),
            )

            def second(*upstream):
                with tf.GradientTape() as tape:
                    tape.watch(sources)
                    found = again(*sources)
                return tape.gradient(found, sources, upstream, tf.UnconnectedGradients.ZERO)

            return found, second

        return objective * weights, lambda upstream: gradient(upstream, *tensors)

    return losses(hidden, *of_output.values())


def _gradients(hidden, targets, weights, parameters, trained, output):
    """Objectives and negative log-likelihoods `[N]`; gradients of hidden states, and float32 ones of `trained`."""

    def chunk_gradients(states, targets, chunk_weights):
        logits = _logits(states, parameters, output)
        probabilities = tf.nn.softmax(logits)
        objective, nll = _losses(logits, probabilities, targets, output)
        divergence = _divergence(logits, targets, parameters, output)
        objective = portable.with_soft_target(objective, divergence, output)
        with tf.control_dependencies([nll]):  # so that the gradient can reuse the memory of the probabilities
            d_logits = _logit_gradient(logits, probabilities, divergence, targets, output, states.dtype)
        # The weights are multiplied with the narrow factors of the products, not with the logits.
        by_token = tf.where(_are_words(targets, logits), chunk_weights, float("nan"))
        by_token = tf.cast(by_token, states.dtype)[:, None]
        d_trained = [tf.matmul(d_logits, states * by_token, transpose_a=True)]
        if parameters.bias is not None:
            d_trained.append(tf.matmul(d_logits, by_token, transpose_a=True)[:, 0])
        if len(trained) > len(d_trained):
            d_trained.append(divergence.embedding_gradient(chunk_weights, states, parameters, output))
        d_hidden = tf.matmul(d_logits, parameters.embeddings)[:, : states.shape[1]] * by_token
        return objective, nll, d_hidden, *(tf.cast(each, tf.float32) for each in d_trained)

    return _over_chunks(chunk_gradients, (hidden, targets, weights), output, sums=trained)


def _scaled(gradients, scale, tensors):
    """Gradients of `tensors` times a float32 number, each in the dtype of its tensor."""
    scaled = (tf.cast(each, tf.float32) * scale for each in gradients)
    return [tf.cast(each, tensor.dtype) for each, tensor in zip(scaled, tensors, strict=True)]


class _Parameters(NamedTuple):
    """The parameters of an `OutputProjection` in the dtype of the hidden states.

    On a CPU in lower precision, where a product and a bias take twice the time of the product, the bias is also the
    last column of the embeddings.
    """

    embeddings: tf.Tensor
    bias: tf.Tensor | None
    input_embeddings: tf.Tensor | None

    @classmethod
    def of(cls, hidden, output):
        given = {**output.trained, **output.fixed}
        found = cls(*(tf.cast(given[name], hidden.dtype) if name in given else None for name in cls._fields))
        if found.bias is None or hidden.dtype.size >= 4 or tf.config.list_logical_devices("GPU"):
            return found
        return found._replace(embeddings=tf.concat([found.embeddings, found.bias[:, None]], 1))


def _logits(states, parameters, output):
    """The input of the softmax, float32 `[N, V]`."""
    return portable.scaled_logits(_scores(states, parameters), output)


def _scores(states, parameters, counts=None):
    """Scores of words, float32 `[N, V]`: the products of states and embeddings, and the bias times `counts` `[N]`."""
    joined = parameters.embeddings.shape[1] > states.shape[1]
    if joined:
        last = tf.ones_like(states[:, :1]) if counts is None else tf.cast(counts[:, None], states.dtype)
        states = tf.concat([states, last], 1)
    scores = tf.matmul(states, parameters.embeddings, transpose_b=True)
    if parameters.bias is not None and not joined:
        bias = parameters.bias
        scores = tf.nn.bias_add(scores, bias) if counts is None else scores + counts[:, None] * bias
    return tf.cast(scores, tf.float32)


def _losses(logits, probabilities, targets, output):
    """Objective with label smoothing, and negative log-likelihood, `[N]`.

    A target outside the vocabulary is an error of `tf.gather` on a CPU. On a GPU, which does not check, it gives NaN.
    """
    nll = tf.where(_are_words(targets, logits), _negative_log(logits, probabilities, targets), float("nan"))
    if not output.label_smoothing:
        return nll, nll
    uniform = nll + tf.gather(logits, targets, batch_dims=1) - tf.reduce_mean(logits, -1)
    return (1 - output.label_smoothing) * nll + output.label_smoothing * uniform, nll


def _negative_log(logits, probabilities, words):
    """The negative logarithms `[N]` of the probabilities of words, from the softmax of the logits or from these."""
    probability = tf.gather(probabilities, words, batch_dims=1)
    return tf.cond(
        tf.reduce_all(probability > SMALLEST_PROBABILITY),
        lambda: -tf.math.log(probability),
        lambda: log_normalizer(logits, probabilities) - tf.gather(logits, words, batch_dims=1),
    )


def _cross_entropy(target, logits, probabilities, words):
    """`-sum target log probabilities`, `[N]`. The log-sum-exp of the logits is that of one word, which costs least."""
    normalizer = tf.gather(logits, words, batch_dims=1) + _negative_log(logits, probabilities, words)
    return normalizer - tf.reduce_sum(target * logits, -1)


def _are_words(targets, logits):
    return (targets >= 0) & (targets < tf.shape(logits)[1])


def _divergence(logits, targets, parameters, output):
    """The `Divergence` from the soft target, or `None` without a soft target."""
    if output.soft_target is None:
        return None
    return Divergence(logits, targets, parameters.input_embeddings, output.soft_target.temperature)


def _logit_gradient(logits, probabilities, divergence, targets, output, dtype):
    """Gradients of the objectives in the logits before soft cap and temperature, `[N, V]` in `dtype`."""
    soft_target = output.soft_target
    share = 1.0 if soft_target is None else soft_target.cross_entropy_weight
    gradient = probabilities
    if output.label_smoothing:
        gradient -= output.label_smoothing / tf.cast(tf.shape(logits)[1], tf.float32)
    if divergence is not None:
        excess = divergence.logit_gradient * (soft_target.weight / soft_target.temperature)
        gradient = excess + (gradient if share == 1 else share * gradient)
    places = tf.stack([tf.range(tf.shape(targets)[0], dtype=targets.dtype), targets], -1)
    at_targets = tf.gather(gradient, targets, batch_dims=1) - share * (1 - output.label_smoothing)
    if output.temperature == 1 and output.logit_soft_cap is None:
        gradient = tf.cast(gradient, dtype)  # `tensor_scatter_nd_update` makes a copy, in lower precision a smaller one
    gradient = tf.tensor_scatter_nd_update(gradient, places, tf.cast(at_targets, gradient.dtype))
    if output.temperature != 1:
        gradient /= output.temperature
    if output.logit_soft_cap is not None:
        gradient *= 1 - tf.square(logits * (output.temperature / output.logit_soft_cap))
    return tf.cast(gradient, dtype)


def _over_chunks(function, arrays, output, sums=()):
    """Applies `function` to chunks of `arrays` along their first axis.

    The last outputs of `function`, shaped like `sums`, are float32 and summed. The other outputs are concatenated.
    """
    longest = portable.longest_chunk(output, arrays[0].dtype.name)
    if arrays[0].shape[0] is None:
        one_chunk = tf.shape(arrays[0])[0] <= longest
        return tf.cond(one_chunk, lambda: function(*arrays), lambda: _chunk_by_chunk(function, arrays, longest, sums))
    return function(*arrays) if arrays[0].shape[0] <= longest else _chunk_by_chunk(function, arrays, longest, sums)


def _chunk_by_chunk(function, arrays, longest, sums):
    """Chunks have one length, as XLA needs it; the arrays are padded with zeros, also the weights."""
    tokens = tf.shape(arrays[0])[0]
    chunks = tf.maximum(-(-tokens // longest), 1)
    length = -(-tokens // chunks)
    padded = [tf.pad(each, [(0, chunks * length - tokens), *[(0, 0)] * (each.shape.rank - 1)]) for each in arrays]
    widths = [[], [], arrays[0].shape[1:].as_list()][: 3 if sums else 2]
    dtypes = [tf.float32, tf.float32, arrays[0].dtype][: len(widths)]
    joined = [tf.TensorArray(dtype, chunks) for dtype in dtypes]

    def chunk_of(array, i):
        width = array.shape[1:].as_list()
        return tf.slice(array, [i * length, *[0] * len(width)], [length, *width])

    def body(i, joined, totals):
        outputs = function(*(chunk_of(array, i) for array in padded))
        pieces, parts = outputs[: len(joined)], outputs[len(joined) :]
        joined = [array.write(i, piece) for array, piece in zip(joined, pieces, strict=True)]
        return i + 1, joined, [total + part for total, part in zip(totals, parts, strict=True)]

    # `tf.zeros` would become a constant, which stays in memory.
    zeros = [tf.raw_ops.Empty(shape=tf.shape(each), dtype=tf.float32, init=True) for each in sums]
    _, joined, totals = tf.while_loop(
        lambda i, *_: i < chunks,
        body,
        (0, joined, zeros),
        parallel_iterations=1,  # one chunk's logits at a time
    )
    flat = (tf.reshape(array.stack(), [-1, *width])[:tokens] for array, width in zip(joined, widths, strict=True))
    return *(tf.ensure_shape(each, [arrays[0].shape[0], *each.shape[1:]]) for each in flat), *totals


class Divergence:
    """`KL(y~ || y^)` of each token of a chunk. `y~` is computed once for each distinct word.

    Args:
        logits: The input of the softmax, float32 `[N, V]`.
        words: Targets `[N]`.
        embeddings: Input embeddings `[V, H]`.
        temperature: The temperature of both distributions.

    Attributes:
        values: The divergences `[N]`.
        logit_gradient: `y^ - y~` `[N, V]`: `temperature` times the gradient of the divergences in the logits.
    """

    def __init__(self, logits, words, embeddings, temperature):
        self.embeddings, self.temperature = embeddings, temperature
        self.words, self.word_of_token = _distinct(words)
        similarity = tf.matmul(tf.gather(embeddings, self.words) * (1 / temperature), embeddings, transpose_b=True)
        self.similarity = tf.cast(similarity, tf.float32)
        self.targets = tf.nn.softmax(self.similarity)
        self.logits = logits * (1 / temperature)
        prediction, target = tf.nn.softmax(self.logits), tf.gather(self.targets, self.word_of_token)
        entropy = _cross_entropy(self.targets, self.similarity, self.targets, self.words)
        self.values = _cross_entropy(target, self.logits, prediction, words) - tf.gather(entropy, self.word_of_token)
        self.logit_gradient = prediction - target

    def embedding_gradient(self, weights, states, parameters, output):
        """Gradient of the objectives times `weights` in the input embeddings, `[V, H]`, through `y~` only."""
        d_targets = self._sums(weights)[:, None] * self.similarity
        d_targets -= self._sums_of_logits(weights, states, parameters, output)
        d_similarity = self.targets * (d_targets - tf.reduce_sum(self.targets * d_targets, -1, keepdims=True))
        scale = output.soft_target.weight / self.temperature
        d_similarity = tf.cast(d_similarity * scale, self.embeddings.dtype)
        gradient = tf.matmul(d_similarity, tf.gather(self.embeddings, self.words), transpose_a=True)
        return tf.tensor_scatter_nd_add(gradient, self.words[:, None], tf.matmul(d_similarity, self.embeddings))

    def _sums_of_logits(self, weights, states, parameters, output):
        """Sums of the weighted logits of the tokens of each distinct word, divided by the temperature, `[D, V]`."""
        if output.logit_soft_cap is not None or output.temperature != 1:
            return self._sums(weights[:, None] * self.logits)
        weights *= 1 / self.temperature  # sums of logits are the scores of sums of states
        sums = self._sums(weights[:, None] * tf.cast(states, tf.float32))
        return _scores(tf.cast(sums, states.dtype), parameters, tf.cast(self._sums(weights), states.dtype))

    def _sums(self, values):
        """Sums of the values of the tokens of each distinct word."""
        return tf.math.unsorted_segment_sum(values, self.word_of_token, tf.shape(self.words)[0])


def log_normalizer(logits, probabilities):
    """`log sum exp` of `logits` `[N, V]` with known softmax `probabilities`, from the likeliest word.

    The probability of that word is at least `1 / V`, so its logarithm is exact. Two maxima are cheaper than the
    exponentials of a log-sum-exp.
    """
    return tf.reduce_max(logits, -1) - tf.math.log(tf.reduce_max(probabilities, -1))


def _distinct(words):
    """The distinct words, and the index of each word among them. On GPUs, for XLA, all words count as distinct."""
    if tf.config.list_logical_devices("GPU"):
        return words, tf.range(tf.shape(words)[0])
    return tf.unique(words)
