"""Skip-gram with negative sampling, untied or tied."""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_tying.backend import dispatch
from keras_tying.backend.replicas import replicas_in_step, sum_over_replicas
from keras_tying.checks import check_integer
from keras_tying.layers import TiedEmbedding
from keras_tying.layers.lookup import embedding_matrix
from keras_tying.models.changed_copies import ChangedCopies
from keras_tying.models.composed_model import ComposedModel, check_inputs, policy_of
from keras_tying.models.replicated import ReplicatedModel
from keras_tying.models.serialization import layer_configs

LOOKUPS = tuple(kind.call for kind in (keras.layers.Embedding, keras.layers.ReversibleEmbedding, TiedEmbedding))
"""What looks up rows of a matrix and does nothing else."""


@dispatch
def train_step(model, *arguments):
    """The training step of Keras, with its arguments."""
    return ReplicatedModel.train_step(model, *arguments)


class PairLosses(NamedTuple):
    """Output of a skip-gram model for a batch with negatives; see `SkipGram.targets`.

    Attributes:
        loss: The sum over pairs, a scalar.
        words: Contexts and negatives `[R, O]`.
        met: How often each word is a context of each centre, `[R, S, O]`.
        weights: How often each word is a context or a negative of each centre, `[R, S, O]`.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> model = kt.zoo.skip_gram(vocabulary_size=100, units=8)
    >>> batch = {"centres": np.array([[3], [14]]), "contexts": np.array([[15], [92]])}
    >>> losses = model({**batch, "negatives": np.array([[6, 5], [3, 5]]), "pairs": np.ones((2, 1, 1), bool)})
    >>> tuple(losses.loss.shape), tuple(losses.words.shape), tuple(losses.met.shape)
    ((), (2, 3), (2, 1, 3))
    """

    loss: Any
    words: Any
    met: Any
    weights: Any


@keras.saving.register_keras_serializable("keras_tying")
class SkipGram(ChangedCopies, ComposedModel):
    """Skip-gram with negative sampling: a word predicts its context words among randomly drawn words.

    With the input embedding `u` of a centre word, the output embedding `v` of a context word and the output
    embeddings `v_n` of `k` negatives `n`, the loss of a pair is

        -log sigmoid(v . u) - sum over n of log sigmoid(-v_n . u)

    without the negatives that are equal to the context word. When tied, `v` and `u` are rows of one matrix. The
    loss of a batch is the sum over its pairs. So the learning rate has the scale of word2vec, in which every pair
    is a separate update.

    The pairs of a span of text share `N` negatives. Each negative has the weight `k / N` in each pair, which has the
    same expectation as `k` negatives per pair, and the scores are one matrix product. For plain (centre, context)
    pairs, each with its own negatives, use `centres`, `contexts` and `pairs` with `S = C = 1`.

    With plain `keras.optimizers.SGD`, TensorFlow updates only the rows of words in the batch. With any other
    optimizer or backend, the gradient has the size of the matrices.

    Args:
        embedding: Layer of the input embedding `[V, H]`, for example a `TiedEmbedding` without bias.
        context_embedding: Layer of the output embedding `[V, H]`. `None` (default) is the tied model, in which
            `embedding` has both roles.
        negatives: Integer `k`, negatives per pair. Defaults to 5.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: Dictionary of arrays, see `keras_tying.data.SkipGramBatches`: `centres` `[R, S]` and
            `contexts` `[R, C]`; for training also `negatives` `[R, N]` and `pairs` `[R, S, C]`.

    Output shape:
        Scores `v . u` of the contexts, `[R, S, C]`; with negatives and pairs `PairLosses`. `predict` always returns
        scores.

    Attributes:
        input_updates: Number of pairs that have updated each word as a centre, `[V]`.
        output_updates: Number of pairs that have updated each word as a context or negative, `[V]`.

    Raises:
        ValueError: If `negatives` is below 1, the embeddings differ in size, or one has two matrices.

    Example:

    >>> import keras, numpy as np, keras_tying as kt
    >>> model = kt.models.SkipGram(kt.layers.TiedEmbedding(1000, 50, use_bias=False))
    >>> model.compile(keras.optimizers.SGD(0.025))
    >>> batch = {"centres": np.array([[3], [14]]), "contexts": np.array([[15], [92]])}
    >>> tuple(model(batch).shape)
    (2, 1, 1)
    >>> batch |= {"negatives": np.array([[6, 5], [3, 5]]), "pairs": np.ones((2, 1, 1), bool)}
    >>> float(model(batch).loss) > 0
    True

    Reference:
        Mikolov et al., Distributed Representations of Words and Phrases and their Compositionality,
        equation 4; Press and Wolf, Using the Output Embedding to Improve Language Models, section 4.1.
    """

    def __init__(self, embedding, *, context_embedding=None, negatives=5, **kwargs):
        for name, layer in {"embedding": embedding, "context_embedding": context_embedding or embedding}.items():
            if not isinstance(layer, keras.layers.Embedding):
                raise ValueError(f"`{name}` must be an Embedding layer. Received: {name}={layer!r}")
            if not getattr(layer, "tie_weights", True):
                raise ValueError(
                    f"`{name}` must be an embedding with one matrix; for an untied model give `context_embedding`. "
                    f"Received: {layer.name!r} with tie_weights=False"
                )
        super().__init__(**{"dtype": policy_of(embedding), **kwargs})
        check_integer("negatives", negatives)
        self.embedding = embedding
        self.context_embedding = context_embedding or embedding
        sizes = [(layer.input_dim, layer.output_dim) for layer in (self.embedding, self.context_embedding)]
        if sizes[0] != sizes[1]:
            raise ValueError(f"Both embeddings must have the same size. Received: {sizes[0]} and {sizes[1]}")
        self.negatives = negatives
        self.pair_loss = keras.metrics.Mean(name="pair_loss")
        self.build()

    def compile(self, optimizer="rmsprop", loss="auto", loss_weights=None, *args, **kwargs):
        """Configures training; arguments are those of `keras.Model.compile`.

        Args:
            optimizer: An optimizer or its name.
            loss: `"auto"` (default), the loss of negative sampling that `call` computes.
            loss_weights: Must be `None`.
            *args: Further arguments.
            **kwargs: Further arguments.

        Raises:
            ValueError: If another loss or a weight of the loss is given.
        """
        if loss not in ("auto", None):
            raise ValueError(f'SkipGram computes its own loss: use loss="auto". Received: loss={loss!r}')
        if loss_weights is not None:
            raise ValueError(
                "`loss_weights` has no effect on the loss of SkipGram: use another learning rate. "
                f"Received: loss_weights={loss_weights!r}"
            )
        super().compile(optimizer, None, None, *args, **kwargs)

    @property
    def vocabulary_size(self):
        """Word types `V`."""
        return self.embedding.input_dim

    @property
    def hidden_size(self):
        """Width `H` of the embeddings."""
        return self.embedding.output_dim

    @property
    def only_looks_up(self):
        """Whether the embeddings are those of Keras or a `TiedEmbedding`, and no penalty depends on their outputs."""
        layers = self.embedding, self.context_embedding
        return all(type(each).call in LOOKUPS and each.activity_regularizer is None for each in layers)

    @property
    def tied(self):
        """Whether input and output embeddings are one variable."""
        return self.context_embedding is self.embedding

    @property
    def input_signature(self):
        """Centres and contexts of any number."""
        return {name: keras.InputSpec(shape=(None, None), dtype="int32") for name in ("centres", "contexts")}

    def build(self, input_shape=None):
        for embedding in (self.embedding, self.context_embedding):
            if not embedding.built:
                embedding.build((None, None))
        counts = {"shape": (self.vocabulary_size,), "initializer": "zeros", "trainable": False, "dtype": "float32"}
        counts["aggregation"] = "only_first_replica"
        self.input_updates = self.add_weight(name="input_updates", **counts)
        self.output_updates = self.add_weight(name="output_updates", **counts)
        self.built = True

    def call(self, inputs):
        check_inputs(inputs, ("centres", "contexts"))
        if "negatives" not in inputs or "pairs" not in inputs:
            return self.scores(inputs["centres"], inputs["contexts"])
        words, met, weights = self.targets(inputs)
        scores = ops.cast(self.scores(inputs["centres"], words), "float32")
        return PairLosses(ops.sum(weights * ops.softplus(scores) - met * scores), words, met, weights)

    def scores(self, centres, others):
        """Scores `v . u`, `[R, S, O]`, of words `[R, O]` as contexts of centres `[R, S]`."""
        return ops.matmul(self.embedding(centres), ops.swapaxes(self.context_embedding(others), -1, -2))

    def targets(self, inputs):
        """The contexts and negatives of a batch with their weights in the loss.

        Returns:
            The words `[R, C + N]`, how often each word is a context of each centre `[R, S, C + N]`, and how often
            each word is a context or a negative of each centre `[R, S, C + N]`.
        """
        contexts, negatives = (ops.cast(inputs[name], "int32") for name in ("contexts", "negatives"))
        pairs = ops.cast(inputs["pairs"], "float32")
        differ = ops.cast(contexts[:, :, None] != negatives[:, None, :], "float32")  # [R, C, N]
        drawn = ops.matmul(pairs, differ) * (self.negatives / ops.cast(ops.shape(negatives)[-1], "float32"))
        met = ops.concatenate([pairs, ops.zeros_like(drawn)], -1)
        return ops.concatenate([contexts, negatives], -1), met, ops.concatenate([pairs, drawn], -1)

    def embedding_matrices(self):
        """The embeddings `[V, H]` by role: `input` and `output`, or `tied`."""
        if self.tied:
            return {"tied": embedding_matrix(self.embedding)}
        return {"input": embedding_matrix(self.embedding), "output": embedding_matrix(self.context_embedding)}

    def train_step(self, *arguments):
        _check_unweighted(keras.utils.unpack_x_y_sample_weight(arguments[-1])[2])
        return train_step(self, *arguments)

    def predict_step(self, *arguments):
        *state, data = arguments
        inputs, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        return super().predict_step(*state, ({name: inputs[name] for name in ("centres", "contexts")},))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if not isinstance(y_pred, PairLosses):
            raise ValueError(f"Training and evaluation need `negatives` and `pairs`. Received: {sorted(x)}")
        _check_unweighted(sample_weight)
        if training:
            self.count_updates(x["centres"], y_pred.words, y_pred.met, y_pred.weights)
        penalties = sum(ops.cast(each, y_pred.loss.dtype) for each in self.losses)
        return y_pred.loss + penalties / replicas_in_step()

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        self.update_metrics(y_pred.loss, y_pred.met)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def update_metrics(self, loss, met):
        """Adds the loss of a batch to the mean loss per pair."""
        number = ops.maximum(ops.sum(met), 1.0)
        self.pair_loss.update_state(loss / number, number)

    def count_updates(self, centres, words, met, weights):
        """Counts the pairs that update each word. `words`, `met` and `weights` are the output of `targets`."""

        def by_word(ids, values):
            ids = ops.cast(ops.reshape(ids, (-1,)), "int32")
            return ops.segment_sum(ops.reshape(values, (-1,)), ids, self.vocabulary_size)

        updates = by_word(centres, ops.sum(met, axis=-1)), by_word(words, ops.sum(weights, axis=-2))
        inputs, outputs = sum_over_replicas(list(updates))
        self.input_updates.assign_add(inputs)
        self.output_updates.assign_add(outputs)

    def get_config(self):
        return {
            **super().get_config(),
            **layer_configs(embedding=self.embedding, context_embedding=None if self.tied else self.context_embedding),
            "negatives": self.negatives,
        }


def _check_unweighted(sample_weight):
    if sample_weight is not None:
        raise ValueError("SkipGram has no sample weights: leave pairs out with `pairs`. Received: sample_weight")
