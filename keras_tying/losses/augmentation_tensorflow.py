"""TensorFlow: the divergence from a target made of embeddings, and its gradient, for a chunk of scores."""

import tensorflow as tf


def divergence(scores, words, rows, tau):
    """`KL(y~ || y^)` of a chunk and its gradient in the scores, up to a factor.

    Args:
        scores: What the softmax sees, float32 `[N, V]`.
        words: Targets `[N]`.
        rows: Input embeddings `[V, H]`.
        tau: The temperature of both distributions.

    Returns:
        The divergences `[N]`, and `y^ - y~` `[N, V]`: `tau` times their gradient.
    """
    distinct, places = _distinct(words)
    likeness = tf.matmul(tf.gather(rows, distinct) * (1 / tau), rows, transpose_b=True)
    likeness = tf.cast(likeness, tf.float32)
    wanted = tf.nn.softmax(likeness)
    information = tf.reduce_sum(wanted * likeness, -1) - normaliser(likeness, wanted)
    cooled = scores * (1 / tau)
    given = tf.nn.softmax(cooled)
    wanted = tf.gather(wanted, places)
    divergences = tf.gather(information, places) - tf.reduce_sum(wanted * cooled, -1) + normaliser(cooled, given)
    return divergences, given - wanted


def normaliser(scores, probabilities):
    """`log sum exp` of `scores` `[N, V]` whose softmax is known, read off the likeliest word.

    Its probability is at least `1 / V`, so the logarithm is safe, and it costs two maxima where a
    log-sum-exp would take the exponentials a second time.
    """
    return tf.reduce_max(scores, -1) - tf.math.log(tf.reduce_max(probabilities, -1))


def _distinct(words):
    """The words without repetition, and where among them each is; as they are where XLA compiles, on GPUs."""
    if tf.config.list_logical_devices("GPU"):
        return words, tf.range(tf.shape(words)[0])
    return tf.unique(words)
