"""Attention-based translation with untied, tied or three-way tied embeddings."""

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_tying.backend.compilation import compile_function
from keras_tying.checks import check_integer, check_number, check_rate
from keras_tying.ids import PAD_ID, check_ids
from keras_tying.layers import ConditionalGRU, Dropout, OneBiasGRU, TiedEmbedding
from keras_tying.layers.lookup import embedding_matrix
from keras_tying.losses import SequenceCrossEntropy
from keras_tying.models.beam_search import Draw, search
from keras_tying.models.changed_copies import ChangedCopies
from keras_tying.models.composed_model import check_inputs, check_unmasked, policy_of
from keras_tying.models.embedding_changes import tied, untied
from keras_tying.models.heads import head_of
from keras_tying.models.next_word_model import Example, NextWordModel, log_probabilities
from keras_tying.models.sampling import check_options
from keras_tying.models.serialization import layer_configs

TIED_ROLES = {"decoder": ("input", "output"), "three_way": ("source", "input", "output")}
"""By tying: the roles that share a matrix."""
UNTIED_ROLES = {"none": ("source", "output"), "decoder": ("source",)}
"""By tying: the roles that do not share the matrix of the decoder's input."""


class Encoded(NamedTuple):
    """Encoded source sentences: the `Memory` of the decoder and its initial state `[B, H]`."""

    memory: Any
    state: Any


class Translations(NamedTuple):
    """`N` translations of each sentence, best first.

    Attributes:
        words: Ids `int32 [B, N, L]`, padded with -1. Each translation ends with the end id, unless it was truncated.
            Where fewer than `N` translations are possible, the last ones have no words.
        scores: Log-probabilities over `length ** length_penalty`, `float32 [B, N]`; -1e9 without words.
    """

    words: np.ndarray
    scores: np.ndarray


@keras.saving.register_keras_serializable("keras_tying")
class Translator(ChangedCopies, NextWordModel):
    """Bidirectional GRU encoder, conditional GRU decoder with attention, deep readout, output embedding.

    With the annotations `h_j`, the concatenated states of both directions, the decoder's state `s`, its context
    `c` and the vector `y` of the previous word::

        s_0 = tanh(mean_j(h_j) W + b)
        s_t, c_t = ConditionalGRU(y_{t-1}, s_{t-1}, h)
        r_t = tanh(s_t W_1 + b_1 + y_{t-1} W_2 + b_2 + c_t W_3 + b_3)
        logits = r_t V^T + b

    The readout `r` has the width of the target embedding, so `V` can be that embedding. The embedding layers decide
    what is tied:

    - nothing: `embedding=TiedEmbedding(..., tie_weights=False)` and a `source_embedding`;
    - the input and output embeddings of the decoder: `embedding=TiedEmbedding(...)` and a `source_embedding`;
    - these and the embedding of the encoder (three-way): `embedding=TiedEmbedding(...)` alone. Source and target then
      have one vocabulary.

    Args:
        embedding: The `TiedEmbedding` of target words. It also scores them.
        units: Integer `H`, of the decoder and of each direction of the encoder. Defaults to 1000.
        source_embedding: Layer that embeds source words; `None` (default) for three-way tying.
        dropout: Float in [0, 1), rate for word vectors, annotations and readout, with a new mask at every step.
            Defaults to 0.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: Dictionary of word ids, padded with -1: `"source"` `[B, S]`, sentences with the end id, and
            `"target"` `[B, T]`, the word before each target. -1 is also the word before the first.
        targets: Optional word ids `[B, T]`.
        sample_weight: Optional weights of the targets, which broadcast to `[B, T]`.
        training: Boolean, whether dropout is active. On PyTorch `loss` has a gradient only with `True`.

    Output shape:
        Logits `[B, T, V]`; with targets `Losses`.

    Raises:
        ValueError: If `dropout` is outside its range, `source_embedding` is `None` and `embedding` is not tied, an
            embedding has `mask_zero=True`, or `embedding` has a `call` of its own or an `activity_regularizer`.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> model = kt.models.Translator(kt.layers.TiedEmbedding(1000, 16), units=32)
    >>> inputs = {"source": np.array([[5, 6, 7, 2]]), "target": np.array([[-1, 8, 9]])}
    >>> tuple(model(inputs).shape), model.tying
    ((1, 3, 1000), 'three_way')

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, sections 3.1 and 4.3;
        Bahdanau, Cho and Bengio, Neural Machine Translation by Jointly Learning to Align and Translate.
    """

    def __init__(self, embedding, *, units=1000, source_embedding=None, dropout=0.0, **kwargs):
        if not isinstance(embedding, TiedEmbedding):
            raise ValueError(f"`embedding` must be a TiedEmbedding. Received: embedding={embedding!r}")
        head_of(embedding)
        super().__init__(**{"dtype": policy_of(embedding), **kwargs})
        if source_embedding is None and not embedding.tie_weights:
            raise ValueError(
                "Without `source_embedding` the model has three-way tying, which needs an `embedding` with "
                "tie_weights=True. Received: tie_weights=False"
            )
        check_integer("units", units)
        check_rate("dropout", dropout)
        check_unmasked(embedding=embedding, source_embedding=source_embedding or embedding)
        self.units = units
        self.dropout = dropout

        self.embedding = embedding
        self.source_embedding = source_embedding or embedding
        policy = self.dtype_policy
        self.forwards = OneBiasGRU(units, dtype=policy, name="forwards")
        self.backwards = OneBiasGRU(units, go_backwards=True, dtype=policy, name="backwards")
        self.first_state = keras.layers.Dense(units, "tanh", dtype=policy, name="first_state")
        self.decoder = ConditionalGRU(units, dtype=policy, name="decoder")
        self.readouts = [
            keras.layers.Dense(embedding.output_dim, dtype=policy, name=f"readout_{part}")
            for part in ("state", "word", "context")
        ]
        self.dropouts = {
            place: Dropout(dropout, dtype=policy, name=f"{place}_dropout")
            for place in ("source", "annotations", "target", "readout")
        }
        self.build()

    @property
    def source_vocabulary_size(self):
        """Source word types."""
        return self.source_embedding.input_dim

    @property
    def target_vocabulary_size(self):
        """Target word types `V`."""
        return self.embedding.input_dim

    @property
    def embedding_size(self):
        """Width `E` of the target embedding."""
        return self.embedding.output_dim

    @property
    def tying(self):
        """What is tied: `"none"`, `"decoder"` or `"three_way"`."""
        if self.source_embedding is self.embedding:
            return "three_way"
        return "decoder" if self.embedding.tie_weights else "none"

    @property
    def output_embedding(self):
        """The layer that scores words: `embedding`."""
        return self.embedding

    @property
    def auto_loss(self):
        """The loss that `compile` gives a model if none is named. Targets of -1 do not count."""
        return SequenceCrossEntropy(ignore_id=PAD_ID)

    @property
    def input_signature(self):
        """Word ids `source` `[B, S]` and `target` `[B, T]`."""
        return {name: keras.InputSpec(shape=(None, None), dtype="int32") for name in ("source", "target")}

    def build(self, input_shape=None):
        source_width, width, units = self.source_embedding.output_dim, self.embedding_size, self.units
        for embedding in (self.embedding, self.source_embedding):
            if not embedding.built:
                embedding.build((None, None))
        for direction in (self.forwards, self.backwards):
            direction.build((None, None, source_width))
            direction.built = True
        self.first_state.build((None, 2 * units))
        self.decoder.build((None, None, width), (None, None, 2 * units))
        for readout, size in zip(self.readouts, (units, width, 2 * units), strict=True):
            readout.build((None, None, size))
        for place, size in (
            ("source", source_width),
            ("annotations", 2 * units),
            ("target", width),
            ("readout", width),
        ):
            self.dropouts[place].build((None, None, size))
        self.built = True

    def call(self, inputs, targets=None, sample_weight=None, training=None):
        if isinstance(inputs, Example):
            inputs, targets, sample_weight = inputs
        return self.outputs_of(self.hidden_states(inputs, training), targets, sample_weight, training)

    def hidden_states(self, inputs, training=None):
        """Hidden states `[B, T, E]` before the output embedding, from word ids."""
        check_inputs(inputs, ("source", "target"))
        encoded = self.encode(inputs["source"], training)
        words = self._vectors(self.embedding, inputs["target"], "target", training)
        states, contexts, _ = self.decoder(words, encoded.memory, encoded.state)
        return self._readout(states, words, contexts, training)

    def encode(self, source, training=None):
        """The `Encoded` sentences of word ids `[B, S]`."""
        mask = ops.greater_equal(source, 0)
        words = self._vectors(self.source_embedding, source, "source", training)
        annotations = ops.concatenate([self.forwards(words, mask=mask), self.backwards(words, mask=mask)], -1)
        annotations = self.dropouts["annotations"](annotations, training=training)
        live = ops.expand_dims(ops.cast(mask, annotations.dtype), -1)
        mean = ops.sum(annotations * live, 1) / ops.maximum(ops.sum(live, 1), 1)
        return Encoded(self.decoder.memory(annotations, mask), self.first_state(mean))

    def step(self, words, states, memory):
        """One step for `N` hypotheses of each sentence.

        Args:
            words: The previous words, `[B, N]`; -1 before the first word.
            states: The previous states, `[B, N, H]`.
            memory: The `memory` of `encode`.

        Returns:
            Hidden states before the output embedding `[B, N, E]`, new states `[B, N, H]` and attention
            weights `[B, N, S]`.
        """
        vectors = self._vectors(self.embedding, words, "target", False)
        states, contexts, weights = self.decoder.step(vectors, memory, states)
        return self._readout(states, vectors, contexts, False), states, weights

    def _vectors(self, embedding, ids, place, training):
        live = ops.expand_dims(ops.cast(ops.greater_equal(ids, 0), self.compute_dtype), -1)
        vectors = embedding(ops.maximum(ids, 0)) * live
        return self.dropouts[place](vectors, training=training)

    def _readout(self, states, words, contexts, training):
        parts = (layer(part) for layer, part in zip(self.readouts, (states, words, contexts), strict=True))
        return self.dropouts["readout"](ops.tanh(sum(parts)), training=training)

    def embedding_matrices(self):
        """The embeddings `[V, E]` by role: `source` and `input`, `output` or `decoder`; or `tied` alone."""
        matrix = embedding_matrix(self.embedding)
        if self.tying == "three_way":
            return {"tied": matrix}
        source = {"source": embedding_matrix(self.source_embedding)}
        if self.tying == "decoder":
            return {**source, "decoder": matrix}
        return {**source, "input": matrix, "output": self.embedding.output_embeddings}

    def score(self, inputs, targets):
        """Log-probabilities of target words given the source and the previous words.

        Args:
            inputs: Inputs of `call`.
            targets: Word ids `[B, T]`, padded with -1.

        Returns:
            NumPy array `[B, T]`: the natural logarithm of the probability of each target, 0 for padding.

        Raises:
            ValueError: If an id is outside its vocabulary, or there is not a target for each of the previous words.
        """
        targets = check_ids(targets, self.target_vocabulary_size, padded=True)
        inputs = self._checked_inputs(inputs)
        if targets.shape != (shape := tuple(inputs["target"].shape)):
            raise ValueError(f"`targets` must have the shape of the input `target`, {shape}. Received: {targets.shape}")
        return log_probabilities(self, inputs, targets)

    def translate(self, source, end_id, beam_size=5, n_best=None, length_penalty=1.0, maximum_length=None):
        """Translates sentences by beam search; a beam of 1 is greedy.

        Args:
            source: Word ids `[B, S]`, sentences with the end id, padded with -1.
            end_id: Integer, the id that ends a translation.
            beam_size: Integer, hypotheses per sentence. Defaults to 5.
            n_best: Integer, translations per sentence, at most `beam_size`. Defaults to 1.
            length_penalty: Log-probabilities are divided by the length to this power. Defaults to 1.
            maximum_length: Optional integer, maximum number of words per translation. The maximum is never more than
                twice the length of the source plus 10.

        Returns:
            `Translations` with `n_best` translations per sentence.

        Raises:
            ValueError: If an argument is outside its range.
        """
        n_best = 1 if n_best is None else n_best
        check_integer("beam_size", beam_size)
        check_integer("n_best", n_best)
        if n_best > beam_size:
            raise ValueError(f"`n_best` must be at most `beam_size`. Received: beam_size={beam_size}, n_best={n_best}")
        check_number("length_penalty", length_penalty)
        source = self._checked_source(source, end_id, maximum_length)
        words, scores = search(self, source, word_limits(source, maximum_length), beam_size, length_penalty, end_id)
        return Translations(words[:, :n_best], scores[:, :n_best])

    def sample(self, source, end_id, number=1, temperature=1.0, top_k=None, top_p=None, maximum_length=None, seed=None):
        """Draws random translations.

        Args:
            source: Word ids `[B, S]`, sentences with the end id, padded with -1.
            end_id: Integer, the id that ends a translation.
            number: Integer, translations per sentence. Defaults to 1.
            temperature: Float at least 0 by which scores are divided; 0 always takes the likeliest word.
            top_k: Optional integer: draw from the `top_k` likeliest words only.
            top_p: Optional float in (0, 1]: draw from the smallest set of likeliest words that has this probability.
            maximum_length: See `translate`.
            seed: Optional integer for repeatable results.

        Returns:
            `Translations`, whose scores are mean log-probabilities per word.

        Raises:
            ValueError: If an argument is outside its range.
        """
        check_options(temperature, top_k, top_p, seed)
        check_integer("number", number)
        source = self._checked_source(source, end_id, maximum_length)
        limits = word_limits(source, maximum_length)
        size = self.target_vocabulary_size
        draw = Draw(
            np.random.default_rng(seed).random((len(source), number, limits.max(initial=1)), np.float32),
            np.float32(temperature),
            np.int32(min(top_k or size, size)),
            np.float32(1.0 if top_p is None else top_p),
        )
        return Translations(*search(self, source, limits, number, 1.0, end_id, draw))

    def _checked_source(self, source, end_id, maximum_length):
        """`source` as word ids `int32 [B, S]`, or ValueError for an argument out of range."""
        source = check_ids(source, self.source_vocabulary_size, padded=True)
        if source.ndim != 2 or source.shape[1] == 0:
            raise ValueError(
                f"`source` must be word ids [B, S], padded with -1, with S at least 1. Received: shape={source.shape}"
            )
        check_integer("end_id", end_id, least=0)
        check_ids([end_id], self.target_vocabulary_size)
        if maximum_length is not None:
            check_integer("maximum_length", maximum_length)
        return source

    def _checked_inputs(self, inputs):
        """Inputs of `call` as tensors, or ValueError for other inputs."""
        sizes = {"source": self.source_vocabulary_size, "target": self.target_vocabulary_size}
        check_inputs(inputs, sizes)
        checked = {name: check_ids(inputs[name], size, padded=True) for name, size in sizes.items()}
        for name, ids in checked.items():
            if ids.ndim != 2 or ids.shape[1] == 0:
                raise ValueError(f"`{name}` must be word ids, at least one per row. Received: shape={ids.shape}")
        rows = {name: len(ids) for name, ids in checked.items()}
        if len(set(rows.values())) > 1:
            raise ValueError(f"`inputs` must have as many sources as targets. Received: numbers of rows {rows}")
        return {name: ops.convert_to_tensor(ids) for name, ids in checked.items()}

    def attend(self, inputs):
        """Attention weights `[B, T, S]` of each target word, for inputs of `call`.

        Raises:
            ValueError: If an id is outside its vocabulary.
        """
        inputs = self._checked_inputs(inputs)
        attend = self.compiled_once("attend", lambda: compile_function(self, self._attend))
        return ops.convert_to_numpy(attend(inputs))

    def _attend(self, inputs):
        encoded = self.encode(inputs["source"], False)
        words = self._vectors(self.embedding, inputs["target"], "target", False)
        return self.decoder(words, encoded.memory, encoded.state)[2]

    def tied_copy(self, matrix, *, tying="decoder"):
        """A copy in which more is tied, as `resized` gives one. The output bias stays.

        Args:
            matrix: The matrix that all tied roles get: `"input"` or `"output"` of the decoder, with three-way tying
                `"source"` too, or the `"mean"` of their matrices. The moments of the optimizer are those of this
                matrix.
            tying: `"decoder"` (default) or `"three_way"`, for which source and target have one vocabulary.

        Raises:
            ValueError: If the model has this tying already, is quantized, or has LoRA, there is no such matrix, or the
                matrices differ in size; else as for `resized`.

        Example:

        >>> import keras_tying as kt
        >>> model = kt.zoo.dl4mt_small(100, 100, tying="decoder", embedding_size=8, units=8)
        >>> model.tied_copy("mean", tying="three_way").tying
        'three_way'
        """
        if tying not in TIED_ROLES:
            raise ValueError(f"`tying` must be one of {list(TIED_ROLES)}. Received: tying={tying!r}")
        if tying == "decoder" and self.tying == "three_way":
            raise ValueError("To tie the decoder only, call untied_copy(tying='decoder'). Received: a three-way model")
        return tied(self, matrix, TIED_ROLES[tying])

    def untied_copy(self, *, tying="none"):
        """A copy in which less is tied, as `resized` gives one. It computes the same until it is trained.

        Each matrix gets the moments of the one that it was tied with.

        Args:
            tying: `"none"` (default) or `"decoder"`.

        Raises:
            ValueError: If no more is tied in the model, or it is quantized, or has LoRA; else as for `resized`.

        Example:

        >>> import keras_tying as kt
        >>> model = kt.zoo.dl4mt_small(100, 100, tying="three_way", embedding_size=8, units=8)
        >>> model.untied_copy().tying, model.untied_copy(tying="decoder").tying
        ('none', 'decoder')
        """
        if tying not in UNTIED_ROLES:
            raise ValueError(f"`tying` must be one of {list(UNTIED_ROLES)}. Received: tying={tying!r}")
        return untied(self, UNTIED_ROLES[tying])

    def get_config(self):
        source_embedding = None if self.tying == "three_way" else self.source_embedding
        return {
            **super().get_config(),
            **layer_configs(embedding=self.embedding, source_embedding=source_embedding),
            "units": self.units,
            "dropout": self.dropout,
        }


def word_limits(source, maximum_length=None):
    """Maximum number of words per translation `[B]`: twice the source's length plus 10, at most `maximum_length`."""
    limits = 2 * (np.asarray(source) > PAD_ID).sum(axis=1) + 10
    return np.minimum(limits, maximum_length or limits.max(initial=1)).astype(np.int32)
