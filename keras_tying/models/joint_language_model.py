"""A feed-forward language model that also sees the sentence being translated."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_tying.backend.compilation import compile_function
from keras_tying.ids import check_ids
from keras_tying.layers import SectionMeans, TiedEmbedding
from keras_tying.losses import SequenceCrossEntropy
from keras_tying.models.fused_output import FusedOutputModel

ACTIVATIONS = ("tanh", "relu", "leaky_relu")


@keras.saving.register_keras_serializable("keras_tying")
class JointLanguageModel(FusedOutputModel):
    """The next target word from the words before it and source words: NNLM, NNJM, NNJM-Global.

    The vectors of the source window, of the target history (oldest first) and of the global source
    context, side by side, are `x`; with `f` the activation, `h = f(W x + b)`, more such layers may
    follow, and the scores are `U h + b'`. When tied, `U = L P`: `L` holds the target words' input
    vectors and `P` is a projection to their width.

    The global context is the mean of the whole source sentence's word vectors, or the means of its
    sections, through a layer `f(G m + c)` of its own if `global_units` is given.

    Args:
        target_vocabulary_size: Integer `V`.
        source_vocabulary_size: Integer; 0 (default) for a model that sees no source.
        window: Integer, source words around the affiliated one, itself counted: odd, or 0 (default)
            for none, which leaves the NNLM.
        order: Integer `n`: the history has `n - 1` words. Defaults to 4.
        embedding_size: Integer, width of word vectors. Defaults to 96.
        hidden_units: Sizes of the hidden layers, one or more. Defaults to `(128,)`.
        activation: `"tanh"` (default), `"relu"` or `"leaky_relu"` of slope 0.01.
        tied: Boolean, whether the output embedding is the target words' input embedding, through a
            projection without bias. Defaults to `False`, as published.
        global_context: Boolean, whether the whole source sentence is an input. Defaults to `False`.
        sections: Integer, sections of the sentence. Defaults to 1.
        split: `"adaptive"` (default) or `"fixed"`: sections of the sentence, or of the sentence filled
            up with its end to `sentence_length`.
        sentence_length: Integer: sentences are filled up or cut to it. Defaults to 100.
        stop_words: Integer: so many most frequent source words have no weight. Defaults to 0.
        global_units: Optional integer, size of the layer of the global context's own.
        trainable_embeddings: Boolean, `False` keeps input word vectors as they are, for example as
            `bootstrap` set them. Defaults to `True`.
        initializer_range: Every weight and bias is drawn from uniform(-range, range). Defaults to 0.05.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: Dictionary of word ids: `"history"` `[B, n - 1]`, with a window `"window"` `[B, window]`,
            with global context `"sentence"` `[B, sentence_length]`, filled up with -1.

    Output shape:
        Logits `[B, V]`.

    Raises:
        ValueError: If arguments contradict each other.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> model = kt.models.JointLanguageModel(10_000, 10_000, window=7)
    >>> model.count_params()  # 2 * 10,000 * 96 vectors, 960 * 128 + 128 and 10,000 * 128 + 10,000
    3333008
    >>> inputs = {"history": np.zeros((2, 3), "int32"), "window": np.zeros((2, 7), "int32")}
    >>> tuple(model(inputs).shape)
    (2, 10000)

    Reference:
        Zhang and Qi, Neural Network Joint Language Model: An Investigation and an Extension with Global
        Source Context; Devlin et al., Fast and Robust Neural Network Joint Models for Statistical
        Machine Translation.
    """

    source_embedding: Any
    section_means: Any
    global_layer: Any
    projection: Any

    def __init__(
        self,
        target_vocabulary_size,
        source_vocabulary_size=0,
        window=0,
        order=4,
        embedding_size=96,
        hidden_units=(128,),
        activation="tanh",
        tied=False,
        global_context=False,
        sections=1,
        split="adaptive",
        sentence_length=100,
        stop_words=0,
        global_units=None,
        trainable_embeddings=True,
        initializer_range=0.05,
        **kwargs,
    ):
        super().__init__(initializer_range, **kwargs)
        if window < 0 or (window and window % 2 == 0):
            raise ValueError(f"`window` must be odd, or 0 for no source window. Received: window={window}")
        if order < 2:
            raise ValueError(f"`order` must be at least 2: a history of one word. Received: order={order}")
        if not hidden_units:
            raise ValueError(f"`hidden_units` needs at least one size. Received: hidden_units={hidden_units!r}")
        if activation not in ACTIVATIONS:
            raise ValueError(f"`activation` must be one of {ACTIVATIONS}. Received: activation={activation!r}")
        if bool(source_vocabulary_size) != bool(window or global_context):
            raise ValueError(
                "A model has source words if and only if it has a window or global context. Received: "
                f"source_vocabulary_size={source_vocabulary_size}, window={window}, global_context={global_context}"
            )
        if not global_context and (sections != 1 or stop_words or global_units):
            raise ValueError(
                "`sections`, `stop_words` and `global_units` need `global_context=True`. Received: "
                f"sections={sections}, stop_words={stop_words}, global_units={global_units}"
            )
        self.target_vocabulary_size = target_vocabulary_size
        self.source_vocabulary_size = source_vocabulary_size
        self.window = window
        self.order = order
        self.embedding_size = embedding_size
        self.hidden_units = tuple(hidden_units)
        self.activation = activation
        self.tied = tied
        self.global_context = global_context
        self.sections = sections
        self.split = split
        self.sentence_length = sentence_length
        self.stop_words = stop_words
        self.global_units = global_units
        self.trainable_embeddings = trainable_embeddings

        self.embedding = self._embedding(target_vocabulary_size, embedding_size, tied, "embedding")
        self.embedding.trainable = trainable_embeddings
        self.source_embedding = None
        if source_vocabulary_size:
            self.source_embedding = self._embedding(source_vocabulary_size, embedding_size, False, "source_embedding")
            self.source_embedding.trainable = trainable_embeddings
        self.section_means = self.global_layer = None
        if global_context:
            self.section_means = SectionMeans(
                sections, split, stop_words, dtype=self.dtype_policy, name="section_means"
            )
        if global_units:
            self.global_layer = self._dense(global_units, "global_layer")
        self.hidden_layers = [self._dense(units, f"hidden_{i}") for i, units in enumerate(self.hidden_units)]
        self.projection = None
        if tied:
            self.projection = self._dense(embedding_size, "projection", use_bias=False)
            self.output_embedding = self.embedding
        else:
            self.output_embedding = self._embedding(
                target_vocabulary_size, self.hidden_units[-1], True, "output_embedding"
            )
        self.build()

    def _embedding(self, size, width, scores_words, name):
        """An embedding; of one that only looks words up, no gradient but that of the rows looked up is computed."""
        initializer, bias_initializer = self._uniform(), self._uniform()  # two seeds, so that later ones stay theirs
        common = {"embeddings_initializer": initializer, "dtype": self.dtype_policy, "name": name}
        if scores_words:
            return TiedEmbedding(size, width, bias_initializer=bias_initializer, **common)
        return keras.layers.Embedding(size, width, **common)

    def _dense(self, units, name, use_bias=True):
        return keras.layers.Dense(
            units,
            use_bias=use_bias,
            kernel_initializer=self._uniform(),
            bias_initializer=self._uniform(),
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, input_shape=None):
        for embedding in filter(None, (self.embedding, self.source_embedding, self.output_embedding)):
            embedding.build()
        width = (self.window + self.order - 1) * self.embedding_size
        if self.global_context:
            context = self.sections * self.embedding_size
            if self.global_layer is not None:
                self.global_layer.build((None, context))
            width += self.global_units or context
        for layer in self.hidden_layers:
            layer.build((None, width))
            width = layer.units
        if self.projection is not None:
            self.projection.build((None, width))
        self.built = True

    # Computation

    def call(self, inputs, training=None):
        return self.outputs_of(self.hidden_states(inputs))

    def hidden_states(self, inputs):
        """Word ids to what the output embedding is multiplied with, `[B, H]`."""
        hidden = ops.concatenate([*self._source_features(inputs), self._flat(self.embedding(inputs["history"]))], -1)
        for layer in self.hidden_layers:
            hidden = self._activate(layer(hidden))
        return hidden if self.projection is None else self.projection(hidden)

    def _source_features(self, inputs):
        """Window and global context, each `[B, width]`, as far as the model has them."""
        if not self.global_context:
            return [self._flat(self.source_embedding(inputs["window"]))] if self.window else []
        sentence = ops.cast(inputs["sentence"], "int32")
        lengths = ops.sum(ops.cast(sentence >= 0, "int32"), axis=-1)
        # Filled up with its last word, its end: what a fixed split averages in, and no other looks at.
        end = ops.take_along_axis(sentence, ops.expand_dims(ops.maximum(lengths - 1, 0), -1), axis=-1)
        sentence = ops.where(sentence >= 0, sentence, ops.maximum(end, 0))
        if not self.window:
            return [self._context(self.source_embedding(sentence), sentence, lengths)]
        # One lookup for both: its gradient is as large as the vocabulary.
        vectors = self.source_embedding(ops.concatenate([ops.cast(inputs["window"], "int32"), sentence], axis=-1))
        window, sentence_vectors = vectors[:, : self.window], vectors[:, self.window :]
        return [self._flat(window), self._context(sentence_vectors, sentence, lengths)]

    def _context(self, vectors, sentence, lengths):
        context = self.section_means(vectors, sentence, lengths)
        return context if self.global_layer is None else self._activate(self.global_layer(context))

    def _flat(self, vectors):
        return ops.reshape(vectors, (-1, vectors.shape[1] * vectors.shape[2]))

    def _activate(self, values):
        if self.activation == "leaky_relu":
            return ops.leaky_relu(values, 0.01)
        return ops.tanh(values) if self.activation == "tanh" else ops.relu(values)

    # Bootstrapping

    @property
    def word_vectors(self):
        """Input word vectors as NumPy arrays: `"target"` `[V, d]` and, if there is one, `"source"`."""
        vectors = {"target": ops.convert_to_numpy(self.embedding.embeddings)}
        if self.source_embedding is not None:
            vectors["source"] = ops.convert_to_numpy(self.source_embedding.embeddings)
        return vectors

    def bootstrap(self, source=None, target=None):
        """Starts from word vectors that are known, as `other.bootstrap(**nnjm.word_vectors)` does.

        Args:
            source: Optional vectors `[source_vocabulary_size, embedding_size]`. A row with a NaN leaves
                the word as it is.
            target: The same for target words.

        Raises:
            ValueError: If the vectors are not of the model's vocabulary and width.
        """
        for name, vectors, layer in (
            ("source", source, self.source_embedding),
            ("target", target, self.embedding),
        ):
            if vectors is None or layer is None:
                continue
            expected = tuple(layer.embeddings.shape)
            if np.shape(vectors) != expected:
                raise ValueError(f"`{name}` must have shape {expected}. Received: shape {np.shape(vectors)}")
            known = ~np.isnan(vectors).any(axis=1, keepdims=True)
            layer.embeddings.assign(np.where(known, vectors, ops.convert_to_numpy(layer.embeddings)))

    # Inference

    def score(self, inputs, targets):
        """Scores words against their context.

        Args:
            inputs: What `call` takes.
            targets: Word ids `[B]`.

        Returns:
            NumPy array `[B]`: the natural logarithm of each target's probability.

        Raises:
            ValueError: If an id is outside its vocabulary.
        """
        for name, ids in inputs.items():
            source = name != "history"
            ids = np.maximum(ids, 0) if name == "sentence" else ids
            check_ids(ids, self.source_vocabulary_size if source else self.target_vocabulary_size)
        check_ids(targets, self.target_vocabulary_size)
        score = self.compiled_once("score", lambda: compile_function(self, self._score))
        inputs = {name: ops.convert_to_tensor(ids) for name, ids in inputs.items()}
        return ops.convert_to_numpy(score(inputs, ops.convert_to_tensor(targets)))

    def _score(self, inputs, targets):
        hidden = self.hidden_states(inputs)
        _, nll, _ = SequenceCrossEntropy().from_hidden(targets, hidden, self.output_projection, training=False)
        return -nll

    def get_config(self):
        return {
            **super().get_config(),
            "target_vocabulary_size": self.target_vocabulary_size,
            "source_vocabulary_size": self.source_vocabulary_size,
            "window": self.window,
            "order": self.order,
            "embedding_size": self.embedding_size,
            "hidden_units": self.hidden_units,
            "activation": self.activation,
            "tied": self.tied,
            "global_context": self.global_context,
            "sections": self.sections,
            "split": self.split,
            "sentence_length": self.sentence_length,
            "stop_words": self.stop_words,
            "global_units": self.global_units,
            "trainable_embeddings": self.trainable_embeddings,
            "initializer_range": self.initializer_range,
        }
