"""Feed-forward language models with context from the source sentence."""

import keras
import numpy as np
from keras import ops

from keras_tying.checks import check_integer
from keras_tying.ids import PAD_ID, check_ids
from keras_tying.layers import SectionMeans, TiedEmbedding
from keras_tying.layers.lookup import embedding_matrix
from keras_tying.models.changed_copies import ChangedCopies
from keras_tying.models.composed_model import check_inputs, check_unmasked, policy_of
from keras_tying.models.heads import head_of
from keras_tying.models.next_word_model import Example, NextWordModel, apply_layers, log_probabilities
from keras_tying.models.serialization import layer_configs


@keras.saving.register_keras_serializable("keras_tying")
class JointLanguageModel(ChangedCopies, NextWordModel):
    """Predicts the next target word from the previous words and source words: NNLM, NNJM, NNJM-Global.

    `x` is the concatenation of the vectors of the source window, the global source context and the target history
    (oldest word first). With hidden layers `f`, output embedding `U` and its bias `b`, the scores of all words are
    `U f(x) + b`. When tied, `U` is the input embedding of target words, and a `Dense` layer without bias at the end
    of the hidden layers projects to its width.

    `keras_tying.zoo.nnlm`, `nnjm` and `nnjm_global` build the published models.

    Args:
        embedding: Layer that embeds target words, for example `keras.layers.Embedding`; tied, a `TiedEmbedding`.
        hidden_layers: List of layers, from the concatenated vectors `[B, I]` to the hidden states `[B, H]` before the
            output embedding.
        order: Integer `n`: the history has `n - 1` words. Defaults to 4.
        source_embedding: Layer that embeds source words; `None` (default) for a model without source context.
        window: Integer, number of source words around the affiliated word, which is included: odd, or 0 (default)
            for no window.
        global_context: Optional list of layers that compute a vector `[B, C]` from the source sentence: a
            `SectionMeans` and any layers after it.
        sentence_length: Integer: with a global context, sentences are padded or cut to it. Defaults to 100.
        output_embedding: `TiedEmbedding` that scores target words. With `None` (default) `embedding` scores them; the
            model is tied, unless that has `tie_weights=False`.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: Dictionary of word ids: `"history"` `[B, n - 1]`, with a window `"window"` `[B, window]`,
            with a global context `"sentence"` `[B, sentence_length]`, padded with -1.
        targets: Optional word ids `[B]`.
        sample_weight: Optional weights `[B]` of the targets.
        training: Boolean, whether dropout is active. On PyTorch `loss` has a gradient only with `True`.

    Output shape:
        Logits `[B, V]`; with targets `Losses`.

    Raises:
        ValueError: If arguments contradict each other, an embedding has `mask_zero=True`, or the output embedding has a
            `call` of its own or an `activity_regularizer`.

    Example:

    >>> import keras, numpy as np, keras_tying as kt
    >>> model = kt.models.JointLanguageModel(
    ...     kt.layers.TiedEmbedding(10_000, 96),
    ...     [keras.layers.Dense(128, "tanh"), keras.layers.Dense(96, use_bias=False)],
    ...     source_embedding=keras.layers.Embedding(10_000, 96),
    ...     window=7,
    ... )
    >>> inputs = {"history": np.zeros((2, 3), "int32"), "window": np.zeros((2, 7), "int32")}
    >>> tuple(model(inputs).shape)
    (2, 10000)

    Reference:
        Zhang and Qi, Neural Network Joint Language Model: An Investigation and an Extension with Global
        Source Context; Devlin et al., Fast and Robust Neural Network Joint Models for Statistical
        Machine Translation.
    """

    def __init__(
        self,
        embedding,
        hidden_layers,
        *,
        order=4,
        source_embedding=None,
        window=0,
        global_context=None,
        sentence_length=100,
        output_embedding=None,
        **kwargs,
    ):
        if not isinstance(embedding, keras.layers.Embedding):
            raise ValueError(f"`embedding` must be an Embedding layer. Received: embedding={embedding!r}")
        super().__init__(**{"dtype": policy_of(embedding), **kwargs})
        check_integer("window", window, least=0)
        if window and window % 2 == 0:
            raise ValueError(f"`window` must be odd, or 0 for no source window. Received: window={window}")
        check_integer("order", order, least=2)
        check_integer("sentence_length", sentence_length)
        if (source_embedding is None) == bool(window or global_context):
            raise ValueError(
                "A model has a source embedding if and only if it has a window or a global context. Received: "
                f"source_embedding={source_embedding!r}, window={window}, global_context={global_context!r}"
            )
        check_unmasked(embedding=embedding, source_embedding=source_embedding or embedding)
        if global_context and not isinstance(global_context[0], SectionMeans):
            raise ValueError(
                "`global_context` must be a list of layers that begins with a SectionMeans. "
                f"Received: global_context={global_context!r}"
            )
        if not isinstance(output_embedding or embedding, TiedEmbedding):
            raise ValueError(
                "The output embedding must be a TiedEmbedding: `output_embedding`, or `embedding` if that is None. "
                f"Received: embedding={embedding!r}, output_embedding={output_embedding!r}"
            )
        if output_embedding is not None and output_embedding is source_embedding and output_embedding is not embedding:
            raise ValueError(
                "`output_embedding` must be `embedding` or a layer of its own. Received: the embedding of source "
                f"words, {output_embedding!r}"
            )
        head_of(output_embedding or embedding)
        self.order = order
        self.window = window
        self.sentence_length = sentence_length
        self.embedding = embedding
        self.source_embedding = source_embedding
        self.global_context = list(global_context or [])
        self.hidden_layers = list(hidden_layers)
        self.output_embedding = output_embedding or embedding
        if self.output_embedding.input_dim != self.target_vocabulary_size:
            raise ValueError(
                "Both embeddings of target words must have one vocabulary. Received: "
                f"{embedding.input_dim} and {output_embedding.input_dim} words"
            )
        self.build()

    @property
    def target_vocabulary_size(self):
        """Target word types `V`."""
        return self.embedding.input_dim

    @property
    def source_vocabulary_size(self):
        """Source word types; 0 for a model without source context."""
        return 0 if self.source_embedding is None else self.source_embedding.input_dim

    @property
    def embedding_size(self):
        """Width of word vectors."""
        return self.embedding.output_dim

    @property
    def tied(self):
        """Whether the output embedding is the input embedding of target words."""
        return self.output_embedding is self.embedding and self.embedding.tie_weights

    @property
    def input_signature(self):
        """Word ids `history`, and `window` and `sentence` if the model has them."""
        lengths = {"history": self.order - 1}
        lengths |= {"window": self.window} if self.window else {}
        lengths |= {"sentence": self.sentence_length} if self.global_context else {}
        return {name: keras.InputSpec(shape=(None, length), dtype="int32") for name, length in lengths.items()}

    def build(self, input_shape=None):
        for embedding in filter(None, (self.embedding, self.source_embedding, self.output_embedding)):
            if not embedding.built:
                embedding.build()
        inputs = {name: keras.KerasTensor(spec.shape, spec.dtype) for name, spec in self.input_signature.items()}
        hidden = self.hidden_states(inputs)
        if hidden.shape[-1] != self.output_embedding.output_dim:
            raise ValueError(
                "`hidden_layers` must end with the width of the output embedding, "
                f"{self.output_embedding.output_dim}; add a Dense layer of that size. "
                f"Received: a last layer of width {hidden.shape[-1]}"
            )
        if self.output_embedding is not self.embedding:
            self.scores(hidden)  # so that `summary` knows the shape of the output
        self.built = True

    def call(self, inputs, targets=None, sample_weight=None, training=None):
        if isinstance(inputs, Example):
            inputs, targets, sample_weight = inputs
        return self.outputs_of(self.hidden_states(inputs, training), targets, sample_weight, training)

    def hidden_states(self, inputs, training=None):
        """Hidden states `[B, H]` before the output embedding, from word ids."""
        check_inputs(inputs, self.input_signature)
        source = self._source_features(inputs, training)
        hidden = ops.concatenate([*source, self._concatenated(self.embedding(inputs["history"]), self.order - 1)], -1)
        return apply_layers(self.hidden_layers, hidden, training=training)

    def _source_features(self, inputs, training):
        """List of the vectors of window and global context that the model has, each `[B, width]`."""
        if not self.global_context:
            return [self._concatenated(self.source_embedding(inputs["window"]), self.window)] if self.window else []
        sentence = ops.cast(inputs["sentence"], "int32")
        lengths = ops.sum(ops.cast(sentence > PAD_ID, "int32"), axis=-1)
        # Padded with the end of the sentence, which a fixed split includes in its means.
        end = ops.take_along_axis(sentence, ops.expand_dims(ops.maximum(lengths - 1, 0), -1), axis=-1)
        sentence = ops.where(sentence > PAD_ID, sentence, ops.maximum(end, 0))
        if not self.window:
            return [self._context(self.source_embedding(sentence), sentence, lengths, training)]
        # One lookup for both, because its gradient has the size of the vocabulary.
        vectors = self.source_embedding(ops.concatenate([ops.cast(inputs["window"], "int32"), sentence], axis=-1))
        window, sentence_vectors = vectors[:, : self.window], vectors[:, self.window :]
        return [self._concatenated(window, self.window), self._context(sentence_vectors, sentence, lengths, training)]

    def _context(self, vectors, sentence, lengths, training):
        section_means, *layers = self.global_context
        return apply_layers(layers, section_means(vectors, sentence, lengths), training=training)

    def _concatenated(self, vectors, words):
        return ops.reshape(vectors, (-1, words * vectors.shape[2]))

    def embedding_matrices(self):
        """The embeddings `[V, d]` by role: `source` if there is one, and `input` and `output`, or `tied`."""
        source = {} if self.source_embedding is None else {"source": embedding_matrix(self.source_embedding)}
        matrix = embedding_matrix(self.embedding)
        if self.tied:
            return {**source, "tied": matrix}
        return {**source, "input": matrix, "output": self.output_embedding.output_embeddings}

    @property
    def word_vectors(self):
        """Input word vectors as NumPy arrays: `"target"` `[V, d]` and, with a source embedding, `"source"`."""
        vectors = {"target": ops.convert_to_numpy(embedding_matrix(self.embedding))}
        if self.source_embedding is not None:
            vectors["source"] = ops.convert_to_numpy(embedding_matrix(self.source_embedding))
        return vectors

    def bootstrap(self, source=None, target=None):
        """Sets the input embeddings to given word vectors, for example `other.bootstrap(**nnjm.word_vectors)`.

        Args:
            source: Optional vectors `[source_vocabulary_size, embedding_size]`. Words whose row contains NaN keep
                their vectors.
            target: The same for target words.

        Raises:
            ValueError: If the shape of vectors is not that of the embedding, an embedding is quantized or has LoRA, or
                the model has no source words. No vectors are set then.
        """
        if source is not None and self.source_embedding is None:
            raise ValueError(
                "`source` needs a model with source words: give `target` only. Received: source vectors for a model "
                "without window and global context"
            )
        layers = {"source": (source, self.source_embedding), "target": (target, self.embedding)}
        given = {name: each for name, each in layers.items() if each[0] is not None}
        for name, (vectors, layer) in given.items():
            if layer.quantization_mode is not None or layer.lora_enabled:
                raise ValueError(
                    f"`bootstrap` sets the variable of an embedding: call it before `quantize` and `enable_lora`. "
                    f"Received: layer {layer.name!r} with quantization_mode={layer.quantization_mode!r}, "
                    f"lora_enabled={layer.lora_enabled}"
                )
            expected = tuple(layer.embeddings.shape)
            if np.shape(vectors) != expected:
                raise ValueError(f"`{name}` must have shape {expected}. Received: shape {np.shape(vectors)}")
        for vectors, layer in given.values():
            known = ~np.isnan(vectors).any(axis=1, keepdims=True)
            layer.embeddings.assign(np.where(known, vectors, ops.convert_to_numpy(layer.embeddings)))

    def score(self, inputs, targets):
        """Log-probabilities of words given their context.

        Args:
            inputs: Inputs of `call`.
            targets: Word ids `[B]`.

        Returns:
            NumPy array `[B]`: the natural logarithm of the probability of each target.

        Raises:
            ValueError: If an input is missing or an id is outside its vocabulary.
        """
        check_inputs(inputs, self.input_signature)
        sizes = {"history": self.target_vocabulary_size, "window": self.source_vocabulary_size}
        sizes["sentence"] = self.source_vocabulary_size
        inputs = {
            name: ops.convert_to_tensor(check_ids(inputs[name], sizes[name], padded=name == "sentence"))
            for name in self.input_signature
        }
        targets = check_ids(targets, self.target_vocabulary_size)
        return log_probabilities(self, inputs, targets)

    def get_config(self):
        return {
            **super().get_config(),
            **layer_configs(
                embedding=self.embedding,
                hidden_layers=self.hidden_layers,
                source_embedding=self.source_embedding,
                global_context=self.global_context,
                output_embedding=None if self.output_embedding is self.embedding else self.output_embedding,
            ),
            "order": self.order,
            "window": self.window,
            "sentence_length": self.sentence_length,
        }
