"""TensorFlow: the divergence from a target made of embeddings, and its gradients, for a chunk of scores."""

import tensorflow as tf


class Divergence:
    """`KL(y~ || y^)` of each token of a chunk; `y~` is computed once for each distinct word.

    Args:
        scores: What the softmax sees, float32 `[N, V]`.
        words: Targets `[N]`.
        rows: Input embeddings `[V, H]`.
        tau: The temperature of both distributions.

    Attributes:
        values: The divergences `[N]`.
        in_scores: `y^ - y~` `[N, V]`: `tau` times their gradient in the scores.
    """

    def __init__(self, scores, words, rows, tau):
        self.rows, self.tau = rows, tau
        self.distinct, self.places = _distinct(words)
        likeness = tf.matmul(tf.gather(rows, self.distinct) * (1 / tau), rows, transpose_b=True)
        self.likeness = tf.cast(likeness, tf.float32)
        self.wanted = tf.nn.softmax(self.likeness)
        self.cooled = scores * (1 / tau)
        given, wanted = tf.nn.softmax(self.cooled), tf.gather(self.wanted, self.places)
        information = tf.reduce_sum(self.wanted * self.likeness, -1) - normaliser(self.likeness, self.wanted)
        likelihoods = tf.reduce_sum(wanted * self.cooled, -1) - normaliser(self.cooled, given)
        self.values = tf.gather(information, self.places) - likelihoods
        self.in_scores = given - wanted

    def in_rows(self, weights):
        """Gradient of `sum(weights * values)` in the input embeddings, through `y~` alone: `[V, H]`."""
        words = tf.shape(self.distinct)[0]
        apart = tf.math.unsorted_segment_sum(weights, self.places, words)[:, None] * self.likeness
        apart -= tf.math.unsorted_segment_sum(weights[:, None] * self.cooled, self.places, words)
        in_likeness = self.wanted * (apart - tf.reduce_sum(self.wanted * apart, -1, keepdims=True))
        in_likeness = tf.cast(in_likeness * (1 / self.tau), self.rows.dtype)
        gradient = tf.matmul(in_likeness, tf.gather(self.rows, self.distinct), transpose_a=True)
        return tf.tensor_scatter_nd_add(gradient, self.distinct[:, None], tf.matmul(in_likeness, self.rows))


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
