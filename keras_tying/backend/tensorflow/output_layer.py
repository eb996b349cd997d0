"""TensorFlow: loss and gradient of the output layer in one pass over chunks of tokens."""

import tensorflow as tf

from keras_tying.backend.tensorflow.augmentation import Divergence, normaliser

SCORES_PER_CHUNK = 2**25
"""Scores (tokens times words) alive at once: 128 MiB in float32. With gradients, half of what the embeddings take if
that is more: each chunk adds a matrix to their gradient, so large ones should not need many."""

LEAST_PROBABILITY = 1e-30
"""Smaller ones lose digits; the logarithm is then computed from the scores."""


def token_losses(hidden, targets, output):
    """Objective and negative log-likelihood `[N]` of `targets` `[N]` given `hidden` `[N, H]`, in chunks."""
    embeddings, bias, rows = _operands(hidden, output)

    def chunk_losses(states, words):
        scores = _scores(states, embeddings, bias, output)
        objective, nll = _losses(scores, tf.nn.softmax(scores), words, output)
        return _augmented(objective, _divergence(scores, words, rows, output), output), nll

    return _over_chunks(chunk_losses, (hidden, targets), embeddings)


def fused_cross_entropy(hidden, targets, weights, output):
    """Returns the scalar `sum(weights * objective)` and the negative log-likelihoods `[N]`.

    The sum is differentiable in `hidden` `[N, H]`, the output embeddings, the bias and, where an augmentation
    asks for it, the input embeddings; its gradient is computed beside it, so the backward pass only
    scales. The other results and arguments carry none.
    """
    embeddings, bias, rows = _operands(hidden, output)
    target_gradient = output.augmentation is not None and output.augmentation.target_gradient
    others = (() if bias is None else (bias,)) + ((rows,) if target_gradient else ())

    @tf.custom_gradient
    def cross_entropy(hidden, embeddings, *others):
        def chunk_gradients(states, words, chunk_weights):
            scores = _scores(states, embeddings, bias, output)
            probabilities = tf.nn.softmax(scores)
            objective, nll = _losses(scores, probabilities, words, output)
            divergence = _divergence(scores, words, rows, output)
            objective = _augmented(objective, divergence, output)
            with tf.control_dependencies([nll]):  # then the probabilities' memory can become their gradient's
                d_scores = _score_gradient(scores, probabilities, divergence, words, output)
            # The weights meet the narrow sides of the products, not the scores.
            d_scores, by_token = tf.cast(d_scores, states.dtype), tf.cast(chunk_weights, states.dtype)[:, None]
            d_parameters = [tf.matmul(d_scores, states * by_token, transpose_a=True)]
            if bias is not None:
                d_parameters.append(tf.matmul(d_scores, by_token, transpose_a=True)[:, 0])
            if target_gradient:
                d_parameters.append(divergence.in_rows(output.augmentation.alpha * chunk_weights))
            return objective, nll, tf.matmul(d_scores, embeddings) * by_token, *d_parameters

        objective, nll, d_hidden, *d_parameters = _over_chunks(
            chunk_gradients, (hidden, targets, weights), embeddings, sums=(embeddings, *others)
        )

        def gradient(d_total, _):
            scale = tf.cast(d_total, hidden.dtype)
            return tuple(scale * d for d in (d_hidden, *d_parameters))

        return (tf.reduce_sum(objective * weights), nll), gradient

    total, nll = cross_entropy(hidden, embeddings, *others)
    return total, tf.stop_gradient(nll)


def _operands(hidden, output):
    embeddings = tf.cast(tf.convert_to_tensor(output.embeddings), hidden.dtype)
    bias = None if output.bias is None else tf.cast(tf.convert_to_tensor(output.bias), hidden.dtype)
    rows = None
    if output.augmentation is not None:
        rows = tf.cast(tf.convert_to_tensor(output.input_embeddings), hidden.dtype)
        rows = rows if output.augmentation.target_gradient else tf.stop_gradient(rows)
    return embeddings, bias, rows


def _scores(states, embeddings, bias, output):
    """What the softmax sees, float32 `[N, V]`."""
    scores = tf.matmul(states, embeddings, transpose_b=True)
    if bias is not None:
        scores = tf.nn.bias_add(scores, bias)
    scores = tf.cast(scores, tf.float32)
    if output.soft_cap is not None:
        scores = tf.tanh(scores / output.soft_cap) * output.soft_cap
    return scores if output.temperature == 1 else scores / output.temperature


def _losses(scores, probabilities, words, output):
    """Objective and negative log-likelihood `[N]`; they differ by label smoothing."""
    probability = tf.gather(probabilities, words, batch_dims=1)
    nll = tf.cond(
        tf.reduce_all(probability > LEAST_PROBABILITY),
        lambda: -tf.math.log(probability),
        lambda: normaliser(scores, probabilities) - tf.gather(scores, words, batch_dims=1),
    )
    if not output.label_smoothing:
        return nll, nll
    uniform = nll + tf.gather(scores, words, batch_dims=1) - tf.reduce_mean(scores, -1)
    return (1 - output.label_smoothing) * nll + output.label_smoothing * uniform, nll


def _divergence(scores, words, rows, output):
    """That of the augmentation, if there is one."""
    return None if output.augmentation is None else Divergence(scores, words, rows, output.augmentation.tau)


def _augmented(objective, divergence, output):
    """The objective `[N]` with its augmentation."""
    if divergence is None:
        return objective
    return output.augmentation.cross_entropy_weight * objective + output.augmentation.alpha * divergence.values


def _score_gradient(scores, probabilities, divergence, words, output):
    """Gradients of the objectives in the scores before temperature and cap, `[N, V]`."""
    augmentation = output.augmentation
    share = 1.0 if augmentation is None else augmentation.cross_entropy_weight
    gradient = probabilities
    if output.label_smoothing:
        gradient -= output.label_smoothing / tf.cast(tf.shape(scores)[1], tf.float32)
    if divergence is not None:
        excess = divergence.in_scores * (augmentation.alpha / augmentation.tau)
        gradient = excess + (gradient if share == 1 else share * gradient)
    places = tf.stack([tf.range(tf.shape(words)[0], dtype=words.dtype), words], -1)
    at_words = tf.fill([tf.shape(words)[0]], share * (1 - output.label_smoothing))
    gradient = tf.tensor_scatter_nd_sub(gradient, places, at_words)
    if output.temperature != 1:
        gradient /= output.temperature
    if output.soft_cap is not None:
        gradient *= 1 - tf.square(scores * (output.temperature / output.soft_cap))
    return gradient


def _over_chunks(function, arrays, embeddings, sums=()):
    """Applies `function` to chunks of `arrays` along their first axis.

    The last outputs of `function`, shaped like `sums`, are added up; those before are concatenated.
    """
    vocabulary_size, width = embeddings.shape
    chunk = max(1, SCORES_PER_CHUNK // vocabulary_size, width // 2 if sums else 0)
    if arrays[0].shape[0] is None:
        one_chunk = tf.shape(arrays[0])[0] <= chunk
        return tf.cond(one_chunk, lambda: function(*arrays), lambda: _chunk_by_chunk(function, arrays, chunk, sums))
    return function(*arrays) if arrays[0].shape[0] <= chunk else _chunk_by_chunk(function, arrays, chunk, sums)


def _chunk_by_chunk(function, arrays, chunk, sums):
    length = tf.shape(arrays[0])[0]
    chunks = tf.maximum(-(-length // chunk), 1)
    shapes = [arrays[1].shape, arrays[1].shape, arrays[0].shape][: 3 if sums else 2]
    dtypes = [tf.float32, tf.float32, arrays[0].dtype][: len(shapes)]
    joined = [tf.TensorArray(dtype, chunks, infer_shape=False) for dtype in dtypes]

    def body(i, joined, totals):
        outputs = function(*(array[i * chunk : (i + 1) * chunk] for array in arrays))
        pieces, parts = outputs[: len(joined)], outputs[len(joined) :]
        joined = [array.write(i, piece) for array, piece in zip(joined, pieces, strict=True)]
        return i + 1, joined, [total + part for total, part in zip(totals, parts, strict=True)]

    _, joined, totals = tf.while_loop(
        lambda i, *_: i < chunks,
        body,
        (0, joined, [tf.zeros_like(total) for total in sums]),
        parallel_iterations=1,  # one chunk's scores at a time
    )
    return *(tf.ensure_shape(array.concat(), shape) for array, shape in zip(joined, shapes, strict=True)), *totals
