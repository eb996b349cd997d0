"""A language model as a SavedModel that takes and gives text."""

from pathlib import Path

import keras
import tensorflow as tf

from keras_tying.data import Vocabulary
from keras_tying.export.saving import check_exportable, save_signatures, trace
from keras_tying.export.text import TextInGraph
from keras_tying.losses.linear_cross_entropy import linear_token_losses
from keras_tying.models.sampling import candidate_scores


def export_language_model(
    model: keras.Model, vocabulary: Vocabulary, path: str | Path, tokenization: str = "spaces"
) -> None:
    """Writes a SavedModel that needs TensorFlow alone.

    Signatures, `B` sentences at a time, any `B`:

    - `serving_default` and `score`: `sentences` `string [B]` to `tokens` `int64 [B]` (the words and the
      sentence's end), `log_probability` `float32 [B]` (natural logarithm) and `perplexity` `float32 [B]`.
    - `next_word`: `prefix` `string [B]` and `k` `int32 []` to `words` `string [B, k]` and `probabilities`
      `float32 [B, k]`, likeliest first.
    - `generate`: `prefix` `string [B]`, `length` `int32 []`, `temperature` `float32 []` (0: the likeliest
      word each time), `top_k` `int32 []` (0: no limit), `top_p` `float32 []` (1: no limit) and `seed`
      `int32 []` to `text` `string [B]`, the words that continue each prefix.

    Every sentence starts afresh, as after the end of another. Words outside the vocabulary are read
    and scored as `<unk>`. An empty sentence is the end of a sentence alone.

    Args:
        model: A trained `LanguageModel`.
        vocabulary: Its words.
        path: Folder to make, for TensorFlow Serving `.../NAME/1`; replaced if it is there.
        tokenization: How sentences become tokens, see `keras_tying.data.tokenize`.

    Raises:
        ValueError: If model and vocabulary differ in size.
        RuntimeError: If Keras runs on another backend than TensorFlow.
    """
    check_exportable(model, vocabulary)
    served = ServedLanguageModel(model, TextInGraph(vocabulary, tokenization))
    save_signatures(model, (served.text,), served.endpoints(), path)


class ServedLanguageModel:
    """The functions behind the signatures; see `export_language_model`."""

    def __init__(self, model: keras.Model, text: TextInGraph):
        self.model = model
        self.text = text

    def endpoints(self) -> dict:
        """Traced functions by the name of their signature."""
        strings = tf.TensorSpec([None], tf.string)
        integer, number = tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.float32)
        return trace(
            {
                "serving_default": (self.score, (strings,)),
                "score": (self.score, (strings,)),
                "next_word": (self.next_word, (strings, integer)),
                "generate": (self.generate, (strings, integer, number, integer, number, integer)),
            }
        )

    def score(self, sentences):
        inputs, targets, lengths = self.text.with_ends(sentences)
        hidden, _ = self.model.hidden_states(inputs, training=False)
        flat = tf.reshape(hidden, [-1, hidden.shape[-1]])
        _, nll = linear_token_losses(flat, tf.reshape(targets, [-1]), self.model.output_projection)
        real = tf.sequence_mask(lengths, tf.shape(targets)[1], tf.float32)
        log_probability = -tf.reduce_sum(tf.reshape(nll, tf.shape(targets)) * real, axis=1)
        return {
            "tokens": lengths,
            "log_probability": log_probability,
            "perplexity": tf.exp(-log_probability / tf.cast(lengths, tf.float32)),
        }

    def next_word(self, prefix, k):
        tf.debugging.assert_positive(k, "k must be at least 1")
        scores, _, _ = self._read(prefix)
        best = tf.math.top_k(tf.nn.softmax(scores), tf.minimum(k, self.model.vocabulary_size))
        return {"words": self.text.decode(best.indices), "probabilities": best.values}

    def generate(self, prefix, length, temperature, top_k, top_p, seed):
        tf.debugging.assert_non_negative(length, "length must be at least 0")
        tf.debugging.assert_non_negative(temperature, "temperature must be at least 0")
        scores, read, lengths = self._read(prefix, length)
        top_k = tf.where(top_k > 0, top_k, self.model.vocabulary_size)

        def step(t, scores, read, text):
            candidates = candidate_scores(scores, temperature, top_k, top_p)
            drawn = tf.random.stateless_categorical(candidates, 1, [seed, t], dtype=tf.int32)[:, 0]
            word = self.text.decode(drawn)
            text = tf.where(t == 0, word, tf.strings.join([text, word], separator=" "))
            return t + 1, *self._go_on(drawn, read, tf.cast(lengths, tf.int32) + t), text

        *_, text = tf.while_loop(lambda t, *_: t < length, step, (0, scores, read, tf.fill([tf.shape(scores)[0]], "")))
        return {"text": text}

    def _read(self, prefix, room=0):
        """Reads prefixes.

        Args:
            prefix: Texts `[B]`.
            room: How many words will follow.

        Returns:
            Scores `[B, V]` of what follows each prefix, what `_go_on` needs of them (the states, or all words where the
            model must read them again), and how many words were read `[B]`.
        """
        inputs, _, lengths = self.text.with_ends(prefix)
        if not self.model.reads_word_by_word:
            text = tf.pad(inputs, [[0, 0], [0, room]])
            return self._scores_at(text, tf.cast(lengths, tf.int32) - 1), [text], lengths
        rows = tf.shape(inputs)[0]
        states = self.model.zero_states(rows)
        scores = tf.zeros([rows, self.model.vocabulary_size])

        def step(t, scores, states):
            hidden, new_states = self.model.hidden_states(inputs[:, t : t + 1], states, training=False)
            reading = (tf.cast(t, tf.int64) < lengths)[:, None]
            last = (tf.cast(t, tf.int64) == lengths - 1)[:, None]
            states = [tf.where(reading, new, old) for new, old in zip(new_states, states, strict=True)]
            return t + 1, tf.where(last, self._scores(hidden[:, 0]), scores), states

        _, scores, states = tf.while_loop(lambda t, *_: t < tf.shape(inputs)[1], step, (0, scores, states))
        return scores, states, lengths

    def _go_on(self, words, read, places):
        """Reads one more word per text, `words` `[B]` at `places` `[B]`; returns scores and what was read."""
        if self.model.reads_word_by_word:
            hidden, states = self.model.hidden_states(words[:, None], read, training=False)
            return self._scores(hidden[:, 0]), states
        at = tf.stack([tf.range(tf.size(places)), places], axis=1)
        text = tf.tensor_scatter_nd_update(read[0], at, words)
        return self._scores_at(text, places), [text]

    def _scores_at(self, text, places):
        """Scores `[B, V]` after the words at `places` `[B]` of texts `[B, L]`; no word behind them matters."""
        hidden, _ = self.model.hidden_states(text, training=False)
        return self._scores(tf.gather(hidden, places, batch_dims=1))

    def _scores(self, hidden):
        return tf.cast(self.model.scores(hidden), tf.float32)
