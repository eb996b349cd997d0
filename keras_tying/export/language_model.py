"""Export of language models."""

from pathlib import Path

import keras
import tensorflow as tf

from keras_tying.data import Vocabulary
from keras_tying.export.rows import column, first_of_each_row, for_rows, largest, option
from keras_tying.export.saving import check_exportable, checked, module_of, trace, write_saved_model
from keras_tying.export.text import TextInGraph
from keras_tying.models.sampling import candidate_scores


def export_language_model(
    model: keras.Model, vocabulary: Vocabulary, path: str | Path, tokenization: str = "words"
) -> None:
    """Writes a language model as a SavedModel that needs only TensorFlow.

    The signatures accept any batch size `B`:

    - `serving_default` and `score` take `sentences` `string [B]`. They return `tokens` `int64 [B]` (the number of
      words, including the end of the sentence), `log_probability` `float32 [B]` (natural logarithm) and `perplexity`
      `float32 [B]`.
    - `next_word` takes `prefix` `string [B]` and `k` `int32`. It returns `words` `string [B, k]` and `probabilities`
      `float32 [B, k]`, most probable first.
    - `generate` takes `prefix` `string [B]`, `length` `int32`, `temperature` `float32` (0: always the most probable
      word), `top_k` `int32` (0: no limit), `top_p` `float32` (1: no limit) and `seed` `int32`. It returns `text`
      `string [B]`, the generated continuation of each prefix.

    `k` and the options of `generate` are each a number for all rows, or a number of each row `[B]`. With a `k` of each
    row, `words` are `[B, K]` for the largest `k`; those beyond a row's own are empty, with probability 0. With a `seed`
    of each row, the text of a row does not depend on the other rows. TensorFlow Serving joins requests in batches only
    if all inputs have rows.

    Each sentence is scored from a zero state, as after the end of a sentence. Words outside the vocabulary are
    replaced by `<unk>`. An empty sentence consists of its end only. The word with id 0 is an error in a model with
    `mask_zero=True`.

    Args:
        model: A trained `LanguageModel`.
        vocabulary: Vocabulary of the model.
        path: Folder of the SavedModel, for TensorFlow Serving `.../NAME/1`. An existing one is replaced.
        tokenization: Name of the tokenization of the training text, see `keras_tying.data.tokenize`.

    Raises:
        ValueError: If model and vocabulary differ in size.
        RuntimeError: If the backend of Keras is not TensorFlow.
        FileExistsError: If `path` holds something other than a SavedModel.

    Example:

    >>> import tensorflow as tf, keras_tying as kt
    >>> words = kt.data.Vocabulary(["the", "cat", "sat", "<unk>", "<eos>"])
    >>> model = kt.zoo.recurrent_language_model(5, units=4)
    >>> kt.export.export_language_model(model, words, "exported/lm/1")  # doctest: +SKIP
    >>> sorted(tf.saved_model.load("exported/lm/1").signatures)  # doctest: +SKIP
    ['generate', 'next_word', 'score', 'serving_default']
    """
    check_exportable(model, vocabulary)
    write_saved_model(ServedLanguageModel(model, TextInGraph(vocabulary, tokenization)), path)


class ServedLanguageModel:
    """Functions of the signatures; see `export_language_model`."""

    def __init__(self, model: keras.Model, text: TextInGraph):
        self.model = model
        self.text = text

    def endpoints(self) -> dict:
        """Traced functions, by the name of the signature."""
        strings, integer, real = tf.TensorSpec([None], tf.string), option(tf.int32), option(tf.float32)
        return trace(
            {
                "serving_default": (self.score, (strings,)),
                "score": (self.score, (strings,)),
                "next_word": (self.next_word, (strings, integer)),
                "generate": (self.generate, (strings, integer, real, integer, real, integer)),
            }
        )

    def module(self) -> tf.Module:
        """The weights and tables that the functions use."""
        return module_of(self.model, self.text)

    def score(self, sentences):
        inputs, targets, lengths = self._words_of(sentences)
        hidden, _ = self.model.hidden_states(inputs, training=False)
        nll = self.model.token_losses(hidden, targets)
        real = tf.sequence_mask(lengths, tf.shape(targets)[1], tf.float32)
        log_probability = -tf.reduce_sum(nll * real, axis=1)
        return {
            "tokens": lengths,
            "log_probability": log_probability,
            "perplexity": tf.exp(-log_probability / tf.cast(lengths, tf.float32)),
        }

    def next_word(self, prefix, k):
        k = checked(for_rows(k, prefix, "k"), k >= 1, "k must be at least 1")
        inputs, _, lengths = self._words_of(prefix)
        logits = self._logits_at(inputs, tf.cast(lengths, tf.int32) - 1)
        best = tf.math.top_k(tf.nn.softmax(logits), tf.minimum(largest(k), self.model.vocabulary_size))
        return {
            "words": first_of_each_row(self.text.decode(best.indices), k, ""),
            "probabilities": first_of_each_row(best.values, k, 0.0),
        }

    def generate(self, prefix, length, temperature, top_k, top_p, seed):
        options = {"length": length, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
        length, temperature, top_k, top_p, seed = (for_rows(each, prefix, name) for name, each in options.items())
        length = checked(length, length >= 0, "length must be at least 0")
        temperature = checked(
            temperature,
            (temperature >= 0) & tf.math.is_finite(temperature),
            "temperature must be a finite number of at least 0",
        )
        top_k = checked(top_k, top_k >= 0, "top_k must be at least 1, or 0 for no limit")
        top_p = checked(top_p, (top_p > 0) & (top_p <= 1), "top_p must be above 0 and at most 1")
        longest = largest(length, least=0)
        logits, state, lengths = self._read(prefix, longest)
        limits = column(temperature), column(tf.where(top_k > 0, top_k, self.model.vocabulary_size)), column(top_p)

        def step(t, logits, state, text):
            drawn = draw(candidate_scores(logits, *limits), seed, t)
            word = self.text.decode(drawn)
            longer = tf.where(t == 0, word, tf.strings.join([text, word], separator=" "))
            text = tf.where(t < tf.reshape(length, [-1]), longer, text)
            return t + 1, *self._read_next(drawn, state, tf.cast(lengths, tf.int32) + t), text

        nothing = tf.fill([tf.shape(logits)[0]], "")
        *_, text = tf.while_loop(lambda t, *_: t < longest, step, (0, logits, state, nothing))
        return {"text": text}

    def _words_of(self, texts):
        """Inputs, targets and lengths of texts; none of the words may be padding in the model."""
        inputs, targets, lengths = self.text.with_ends(texts)
        if self.model.embedding.mask_zero:
            message = "a text must not contain the word with id 0, which is padding in this model (mask_zero=True)"
            inputs = checked(inputs, inputs != 0, message)
        return inputs, targets, lengths

    def _read(self, prefix, room):
        """Runs the model on prefixes.

        Args:
            prefix: Texts, `string [B]`.
            room: Number of words that will be generated.

        Returns:
            The logits `[B, V]` of the next word, the state for `_read_next` and the number of words `[B]` of each
            prefix. If the model cannot read word by word, the state is the ids of the text.
        """
        inputs, _, lengths = self._words_of(prefix)
        if not self.model.reads_word_by_word:
            text = tf.pad(inputs, [[0, 0], [0, room]])
            return self._logits_at(text, tf.cast(lengths, tf.int32) - 1), [text], lengths
        rows = tf.shape(inputs)[0]
        states = self.model.zero_states(rows)
        hidden = tf.zeros([rows, self.model.hidden_size])

        def step(t, hidden, states):
            new_hidden, new_states = self.model.hidden_states(inputs[:, t : t + 1], states, training=False)
            reading = (tf.cast(t, tf.int64) < lengths)[:, None]
            states = [tf.where(reading, new, old) for new, old in zip(new_states, states, strict=True)]
            return t + 1, tf.where(reading, tf.cast(new_hidden[:, 0], tf.float32), hidden), states

        _, hidden, states = tf.while_loop(lambda t, *_: t < tf.shape(inputs)[1], step, (0, hidden, states))
        return self._logits(hidden), states, lengths

    def _read_next(self, words, state, positions):
        """Reads one more word per text, `words` `[B]` at `positions` `[B]`; returns the logits and the state."""
        if self.model.reads_word_by_word:
            hidden, state = self.model.hidden_states(words[:, None], state, training=False)
            return self._logits(hidden[:, 0]), state
        indices = tf.stack([tf.range(tf.size(positions)), positions], axis=1)
        text = tf.tensor_scatter_nd_update(state[0], indices, words)
        return self._logits_at(text, positions), [text]

    def _logits_at(self, text, positions):
        """Logits `[B, V]` after the words at `positions` `[B]` of texts `[B, L]`; later words are ignored."""
        hidden, _ = self.model.hidden_states(text, training=False)
        return self._logits(tf.gather(hidden, positions, batch_dims=1))

    def _logits(self, hidden):
        return tf.cast(self.model.next_word_scores(hidden), tf.float32)


def draw(scores: tf.Tensor, seed: tf.Tensor, t: tf.Tensor) -> tf.Tensor:
    """Draws a word of each row.

    Args:
        scores: Scores of the words, `[B, V]`.
        seed: A number for all rows, or one of each row `[B]`: then each row draws as it would alone.
        t: The place of the word in the generated text.

    Returns:
        Ids, `int32 [B]`.
    """

    def draw_row(row):
        return tf.random.stateless_categorical(row[0][None], 1, [row[1], t], dtype=tf.int32)[0, 0]

    return tf.cond(
        tf.rank(seed) == 0,
        lambda: tf.random.stateless_categorical(scores, 1, [tf.reshape(seed, []), t], dtype=tf.int32)[:, 0],
        lambda: tf.map_fn(draw_row, (scores, tf.reshape(seed, [-1])), fn_output_signature=tf.int32),
    )
