"""TensorFlow: divergence of a softmax from a soft target, with its gradients."""

import tensorflow as tf


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
        information = tf.reduce_sum(self.targets * self.similarity, -1) - log_normalizer(self.similarity, self.targets)
        likelihoods = tf.reduce_sum(target * self.logits, -1) - log_normalizer(self.logits, prediction)
        self.values = tf.gather(information, self.word_of_token) - likelihoods
        self.logit_gradient = prediction - target

    def embedding_gradient(self, weights):
        """Gradient of `sum(weights * values)` in the input embeddings, `[V, H]`, through `y~` only."""
        words = tf.shape(self.words)[0]
        d_targets = tf.math.unsorted_segment_sum(weights, self.word_of_token, words)[:, None] * self.similarity
        d_targets -= tf.math.unsorted_segment_sum(weights[:, None] * self.logits, self.word_of_token, words)
        d_similarity = self.targets * (d_targets - tf.reduce_sum(self.targets * d_targets, -1, keepdims=True))
        d_similarity = tf.cast(d_similarity * (1 / self.temperature), self.embeddings.dtype)
        gradient = tf.matmul(d_similarity, tf.gather(self.embeddings, self.words), transpose_a=True)
        return tf.tensor_scatter_nd_add(gradient, self.words[:, None], tf.matmul(d_similarity, self.embeddings))


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
