"""Skip-gram with negative sampling, untied or tied."""

import keras
from keras import ops

from keras_tying.backend import dispatch
from keras_tying.backend.replicas import sum_over_replicas
from keras_tying.layers import TiedEmbedding
from keras_tying.models.replicated import ReplicatedModel


@dispatch
def train_step(model, *arguments):
    """A step of training on a batch: the step of Keras, with its arguments."""
    return ReplicatedModel.train_step(model, *arguments)


@keras.saving.register_keras_serializable("keras_tying")
class SkipGram(ReplicatedModel):
    """Skip-gram: a word's input embedding predicts the words around it against words drawn at random.

    With the input embedding `u` of a centre word, the output embedding `v` of a context word and those
    of `k` negatives `n`, the loss of a pair is

        -log sigmoid(v . u) - sum over n of log sigmoid(-v_n . u)

    where a negative that is the context word itself is left out. When tied, `v` and `u` are rows of
    one matrix. The loss of a batch is the sum over its pairs, so that the learning rate means what it
    means in word2vec, where every pair is an update of its own.

    The pairs of a span of text share `N` negatives. Each counts `k / N` times for each pair, which is in
    expectation what `k` negatives of its own would be; the scores are one matrix product. `centres`, `contexts`
    and `pairs` with `S = C = 1` are plain (centre, context) pairs, each with negatives of its own.

    Compiled with plain `keras.optimizers.SGD`, TensorFlow updates only the rows that occur in a batch;
    any other optimizer or backend computes the gradient of the whole matrices.

    Args:
        vocabulary_size: Integer `V`.
        units: Integer `H`, the size of the embeddings.
        tied: Boolean, whether input and output embeddings are one variable. Defaults to `False`.
        negatives: Integer `k`, negatives a pair. Defaults to 5.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: Dictionary as `keras_tying.data.SkipGramBatches` gives: `centres` `[R, S]`,
            `contexts` `[R, C]`, and for training `negatives` `[R, N]` and `pairs` `[R, S, C]`.

    Output shape:
        Scores `v . u` of the contexts, `[R, S, C]`.

    Attributes:
        input_updates: How many pairs have updated each word in the role of the centre, `[V]`.
        output_updates: How many pairs have updated each word as context or negative, `[V]`.

    Example:

    >>> import keras, numpy as np, keras_tying as kt
    >>> model = kt.models.SkipGram(1000, 50, tied=True)
    >>> model.compile(keras.optimizers.SGD(0.025))
    >>> centres, contexts = np.array([3, 14]), np.array([15, 92])
    >>> pairs = {"centres": centres.reshape(2, 1), "contexts": contexts.reshape(2, 1)}
    >>> tuple(model(pairs).shape)
    (2, 1, 1)

    Reference:
        Mikolov et al., Distributed Representations of Words and Phrases and their Compositionality,
        equation 4; Press and Wolf, Using the Output Embedding to Improve Language Models, section 4.1.
    """

    def __init__(self, vocabulary_size, units, tied=False, negatives=5, **kwargs):
        super().__init__(**kwargs)
        for name, value in (("vocabulary_size", vocabulary_size), ("units", units), ("negatives", negatives)):
            if value < 1:
                raise ValueError(f"`{name}` must be at least 1. Received: {name}={value}")
        self.vocabulary_size = vocabulary_size
        self.units = units
        self.tied = tied
        self.negatives = negatives
        self.embedding = self._embedding(keras.initializers.RandomUniform(-0.5 / units, 0.5 / units), "embedding")
        self.context_embedding = self.embedding if tied else self._embedding("zeros", "context_embedding")
        self.pair_loss = keras.metrics.Mean(name="pair_loss")
        self.build()

    def _embedding(self, initializer, name):
        return TiedEmbedding(
            self.vocabulary_size,
            self.units,
            use_bias=False,
            embeddings_initializer=initializer,
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, input_shape=None):
        self.embedding.build()
        self.context_embedding.build()
        counts = {"shape": (self.vocabulary_size,), "initializer": "zeros", "trainable": False, "dtype": "float32"}
        counts["aggregation"] = "only_first_replica"
        self.input_updates = self.add_weight(name="input_updates", **counts)
        self.output_updates = self.add_weight(name="output_updates", **counts)
        self.built = True

    # Computation

    def call(self, inputs):
        return self.scores(inputs["centres"], inputs["contexts"])

    def scores(self, centres, others):
        """Scores `v . u` of words `[R, O]` beside centres `[R, S]`, `[R, S, O]`."""
        return ops.matmul(self.embedding(centres), ops.swapaxes(self.context_embedding(others), -1, -2))

    def targets(self, inputs):
        """What a batch's loss is the sum of, for contexts and negatives side by side.

        Returns:
            The words `[R, C + N]`, and beside each centre, `[R, S, C + N]` each: how often the word was met as a
            context, and how often in all, as a context or as a negative.
        """
        contexts, negatives = inputs["contexts"], inputs["negatives"]
        pairs = ops.cast(inputs["pairs"], "float32")
        differ = ops.cast(contexts[:, :, None] != negatives[:, None, :], "float32")  # [R, C, N]
        drawn = ops.matmul(pairs, differ) * (self.negatives / negatives.shape[-1])
        met = ops.concatenate([pairs, ops.zeros_like(drawn)], -1)
        return ops.concatenate([contexts, negatives], -1), met, ops.concatenate([pairs, drawn], -1)

    def embedding_matrices(self):
        """The embeddings `[V, H]` by role: `input` and `output`, or `tied`."""
        if self.tied:
            return {"tied": self.embedding.embeddings}
        return {"input": self.embedding.embeddings, "output": self.context_embedding.embeddings}

    # Training

    def train_step(self, *arguments):
        return train_step(self, *arguments)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        words, met, weights = self.targets(x)
        scores = ops.cast(self.scores(x["centres"], words), "float32")
        loss = ops.sum(weights * ops.softplus(scores) - met * scores)
        self.update_metrics(loss, met)
        if training:
            self.count_updates(x["centres"], words, met, weights)
        return loss

    def update_metrics(self, loss, met):
        """Adds a batch's loss to the mean loss of a pair."""
        number = ops.maximum(ops.sum(met), 1.0)
        self.pair_loss.update_state(loss / number, number)

    def count_updates(self, centres, words, met, weights):
        """Counts the pairs that update each word; arguments as `targets` gives them."""

        def by_word(ids, values):
            return ops.segment_sum(ops.reshape(values, (-1,)), ops.reshape(ids, (-1,)), self.vocabulary_size)

        updates = by_word(centres, ops.sum(met, axis=-1)), by_word(words, ops.sum(weights, axis=-2))
        inputs, outputs = sum_over_replicas(list(updates))
        self.input_updates.assign_add(inputs)
        self.output_updates.assign_add(outputs)

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "units": self.units,
            "tied": self.tied,
            "negatives": self.negatives,
        }
