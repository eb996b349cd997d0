"""Attention-based translation whose output embedding may be one of its input embeddings, or both."""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_tying.backend.compilation import compile_function
from keras_tying.ids import check_ids
from keras_tying.layers import GRU, ConditionalGRU, Dropout, TiedEmbedding
from keras_tying.losses import SequenceCrossEntropy
from keras_tying.models import translating
from keras_tying.models.fused_output import FusedOutputModel

TYINGS = ("none", "decoder", "three_way")
PADDING = -1
"""The id that fills up sentences, and stands for the word before the first: its vector is zero."""


class Encoded(NamedTuple):
    """Source sentences as the decoder sees them: its `Memory`, and its state before the first word `[B, H]`."""

    memory: Any
    state: Any


@keras.saving.register_keras_serializable("keras_tying")
class Translator(FusedOutputModel):
    """Bidirectional GRU encoder, conditional GRU decoder with attention, deep readout, output embedding.

    With annotations `h_j` from the two directions side by side, the decoder's state `s`, the context
    `c` it attends to and the previous word's vector `y`::

        s_0 = tanh(mean_j(h_j) W + b)
        s_t, c_t = ConditionalGRU(y_{t-1}, s_{t-1}, h)
        r_t = tanh(s_t W_1 + b_1 + y_{t-1} W_2 + b_2 + c_t W_3 + b_3)
        logits = r_t V^T + b

    The readout `r` has the size of the embeddings: that is why `V` can be the decoder's input embedding
    (`tying="decoder"`) and, where source and target share one vocabulary, the encoder's as well
    (`"three_way"`).

    Args:
        source_vocabulary_size: Integer.
        target_vocabulary_size: Integer `V`; with `"three_way"` the same.
        tying: `"none"`, `"decoder"` (default) or `"three_way"`.
        embedding_size: Integer `E`. Defaults to 500.
        units: Integer `H`, of the decoder and of each direction of the encoder. Defaults to 1000.
        dropout: Float in [0, 1): on word vectors, annotations and readout, drawn anew at every step.
            Defaults to 0, as published.
        initializer_range: Embeddings are drawn from uniform(-range, range). Defaults to 0.1. Other
            matrices: Glorot's uniform and, on the recurrences, orthogonal ones.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: Dictionary of word ids: `"source"` `[B, S]`, each sentence closed by its end, and
            `"target"` `[B, T]`, the word before each one to predict. -1 fills up, and is the word
            before the first.

    Output shape:
        Logits `[B, T, V]`.

    Raises:
        ValueError: If an argument is outside its range, or three-way tying is asked for two vocabularies.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> model = kt.models.Translator(1000, 1000, "three_way", embedding_size=16, units=32)
    >>> inputs = {"source": np.array([[5, 6, 7, 2]]), "target": np.array([[-1, 8, 9]])}
    >>> tuple(model(inputs).shape)
    (1, 3, 1000)

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, sections 3.1 and 4.3;
        Bahdanau, Cho and Bengio, Neural Machine Translation by Jointly Learning to Align and Translate.
    """

    def __init__(
        self,
        source_vocabulary_size,
        target_vocabulary_size,
        tying="decoder",
        embedding_size=500,
        units=1000,
        dropout=0.0,
        initializer_range=0.1,
        **kwargs,
    ):
        super().__init__(initializer_range, **kwargs)
        if tying not in TYINGS:
            raise ValueError(f"`tying` must be one of {TYINGS}. Received: tying={tying!r}")
        if tying == "three_way" and source_vocabulary_size != target_vocabulary_size:
            raise ValueError(
                "Three-way tying needs one vocabulary for source and target. Received: "
                f"source_vocabulary_size={source_vocabulary_size}, target_vocabulary_size={target_vocabulary_size}"
            )
        if not 0 <= dropout < 1:
            raise ValueError(f"`dropout` must be in [0, 1). Received: dropout={dropout}")
        self.source_vocabulary_size = source_vocabulary_size
        self.target_vocabulary_size = target_vocabulary_size
        self.tying = tying
        self.embedding_size = embedding_size
        self.units = units
        self.dropout = dropout

        self.embedding = self._embedding(target_vocabulary_size, "embedding", tie_weights=tying != "none")
        self.source_embedding = self.embedding
        if tying != "three_way":
            self.source_embedding = self._embedding(source_vocabulary_size, "source_embedding", use_bias=False)
        policy = self.dtype_policy
        self.forwards = GRU(units, dtype=policy, name="forwards")
        self.backwards = GRU(units, go_backwards=True, dtype=policy, name="backwards")
        self.first_state = keras.layers.Dense(units, "tanh", dtype=policy, name="first_state")
        self.decoder = ConditionalGRU(units, dtype=policy, name="decoder")
        self.readouts = [
            keras.layers.Dense(embedding_size, dtype=policy, name=f"readout_{part}")
            for part in ("state", "word", "context")
        ]
        self.dropouts = {
            place: Dropout(dropout, dtype=policy, name=f"{place}_dropout")
            for place in ("source", "annotations", "target", "readout")
        }
        self.build()

    def _embedding(self, size, name, **arguments):
        return TiedEmbedding(
            size,
            self.embedding_size,
            embeddings_initializer=self._uniform(),
            dtype=self.dtype_policy,
            name=name,
            **arguments,
        )

    @property
    def output_embedding(self):
        """The layer that scores words: the one that embeds target words."""
        return self.embedding

    def build(self, input_shape=None):
        width, units = self.embedding_size, self.units
        for embedding in (self.embedding, self.source_embedding):
            embedding.build()
        for direction in (self.forwards, self.backwards):
            direction.build((None, None, width))
            direction.built = True
        self.first_state.build((None, 2 * units))
        self.decoder.build((None, None, width), (None, None, 2 * units))
        for readout, size in zip(self.readouts, (units, width, 2 * units), strict=True):
            readout.build((None, None, size))
        self.built = True

    # Computation

    def call(self, inputs, training=None):
        return self.outputs_of(self.hidden_states(inputs, training))

    def hidden_states(self, inputs, training=None):
        """Word ids to what the output embedding is multiplied with, `[B, T, E]`."""
        encoded = self.encode(inputs["source"], training)
        words = self._vectors(self.embedding, inputs["target"], "target", training)
        states, contexts, _ = self.decoder(words, encoded.memory, encoded.state)
        return self._readout(states, words, contexts, training)

    def encode(self, source, training=None):
        """`Encoded` sentences, from word ids `[B, S]`."""
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
            words: The word before, `[B, N]`; -1 before the first.
            states: The decoder's states, `[B, N, H]`.
            memory: From `encode`.

        Returns:
            What the output embedding is multiplied with, `[B, N, E]`, new states `[B, N, H]` and attention
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
        """The embeddings `[V, E]` by role: `source`, `input` and `output` as far as they are apart."""
        matrices = {"three_way": {"tied": self.embedding}, "decoder": {"decoder": self.embedding}}
        found = {role: layer.embeddings for role, layer in matrices.get(self.tying, {"input": self.embedding}).items()}
        if self.tying == "none":
            found["output"] = self.embedding.output_embeddings
        return found if self.tying == "three_way" else {"source": self.source_embedding.embeddings, **found}

    # Inference

    def score(self, inputs, targets):
        """Scores target words against source and what came before them.

        Args:
            inputs: What `call` takes.
            targets: Word ids `[B, T]`, filled up with -1.

        Returns:
            NumPy array `[B, T]`: the natural logarithm of each target's probability, 0 where filled up.

        Raises:
            ValueError: If an id is outside its vocabulary.
        """
        for ids, size in (
            (inputs["source"], self.source_vocabulary_size),
            (inputs["target"], self.target_vocabulary_size),
            (targets, self.target_vocabulary_size),
        ):
            check_ids(ops.maximum(ids, 0), size)
        score = self.compiled_once("score", lambda: compile_function(self, self._score))
        inputs = {name: ops.convert_to_tensor(ids) for name, ids in inputs.items()}
        return ops.convert_to_numpy(score(inputs, ops.convert_to_tensor(targets)))

    def _score(self, inputs, targets):
        hidden = self.hidden_states(inputs, training=False)
        words = ops.maximum(targets, 0)
        _, nll, _ = SequenceCrossEntropy().from_hidden(words, hidden, self.output_projection, training=False)
        return ops.where(targets < 0, 0.0, -nll)

    def translate(self, source, end_id, beam_size=5, n_best=None, length_penalty=1.0, longest=None):
        """Translates sentences, by beam search or, with a beam of 1, greedily.

        Args:
            source: Word ids `[B, S]`, each sentence closed by its end, filled up with -1.
            end_id: Integer, the id that ends a translation.
            beam_size: Integer, hypotheses a sentence. Defaults to 5.
            n_best: Integer, translations a sentence, at most `beam_size`. Defaults to 1.
            length_penalty: Log-probabilities are divided by the length to this power. Defaults to 1.
            longest: Optional integer, words of a translation at most. Twice those of the source and
                ten more is another limit.

        Returns:
            `words` `int32 [B, n_best, L]`, best first, filled up with -1, and `scores` `float32 [B, n_best]`.
        """
        return translating.translate(self, source, end_id, beam_size, n_best, length_penalty, longest)

    def sample(self, source, end_id, number=1, temperature=1.0, top_k=None, top_p=None, longest=None, seed=None):
        """Draws translations.

        Args:
            source: What `translate` takes.
            end_id: Integer, the id that ends a translation.
            number: Integer, translations a sentence. Defaults to 1.
            temperature: Scores are divided by it; 0 takes the likeliest word each time.
            top_k: Optional integer: only the `top_k` likeliest words may follow.
            top_p: Optional float in (0, 1]: only the fewest words that together have this probability.
            longest: As in `translate`.
            seed: Optional integer that makes the result repeatable.

        Returns:
            What `translate` returns, with mean log-probabilities of a word for scores.
        """
        return translating.sample(self, source, end_id, number, temperature, top_k, top_p, longest, seed)

    def attend(self, inputs):
        """Attention weights `[B, T, S]` of each target word, inputs as `call` takes them."""
        attend = self.compiled_once("attend", lambda: compile_function(self, self._attend))
        return ops.convert_to_numpy(attend({name: ops.convert_to_tensor(ids) for name, ids in inputs.items()}))

    def _attend(self, inputs):
        encoded = self.encode(inputs["source"], False)
        words = self._vectors(self.embedding, inputs["target"], "target", False)
        return self.decoder(words, encoded.memory, encoded.state)[2]

    def get_config(self):
        return {
            **super().get_config(),
            "source_vocabulary_size": self.source_vocabulary_size,
            "target_vocabulary_size": self.target_vocabulary_size,
            "tying": self.tying,
            "embedding_size": self.embedding_size,
            "units": self.units,
            "dropout": self.dropout,
            "initializer_range": self.initializer_range,
        }
