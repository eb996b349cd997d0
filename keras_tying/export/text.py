"""Tokenization and vocabulary in a TensorFlow graph."""

import tensorflow as tf

from keras_tying.data import Vocabulary
from keras_tying.data.text import NOT_LETTERS, PUNCTUATION, check_tokenization


class TextInGraph(tf.Module):
    """A vocabulary and its tokenization as TensorFlow operations.

    Args:
        vocabulary: Vocabulary of the model.
        tokenization: Name of the tokenization, see `keras_tying.data.tokenize`.
    """

    def __init__(self, vocabulary: Vocabulary, tokenization: str):
        super().__init__(name="text")
        check_tokenization(tokenization)
        self.tokenization = tokenization
        self.end_id = vocabulary.end_id
        words = tf.constant(vocabulary.words)
        ids = tf.range(len(vocabulary), dtype=tf.int64)
        self.words = words
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(words, ids), default_value=vocabulary.unknown_id
        )

    def encode(self, sentences: tf.Tensor) -> tf.RaggedTensor:
        """Converts sentences, `string [B]`, to ids, `int64 [B, (T)]`."""
        if self.tokenization == "plain":
            sentences = tf.strings.lower(sentences, encoding="utf-8")
            sentences = tf.strings.regex_replace(sentences, PUNCTUATION, r" \1 ")
        elif self.tokenization == "letters":
            sentences = tf.strings.lower(sentences, encoding="utf-8")
            sentences = tf.strings.regex_replace(sentences, NOT_LETTERS, " ")
        return self.table.lookup(tf.strings.split(sentences))

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """Converts ids of any shape to words."""
        return tf.gather(self.words, ids)

    def with_ends(self, sentences: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Inputs and targets of sentences, `int32 [B, T + 1]`, and their lengths, `int64 [B]`.

        The first input is the end of a sentence, and the last target is the end of the sentence itself.
        """
        ids = self.encode(sentences)
        ends = tf.fill([ids.nrows(), 1], tf.constant(self.end_id, tf.int64))
        padded = ids.to_tensor(self.end_id)  # the first padding id of each row is the end of its sentence
        inputs, targets = tf.concat([ends, padded], axis=1), tf.concat([padded, ends], axis=1)
        return tf.cast(inputs, tf.int32), tf.cast(targets, tf.int32), ids.row_lengths() + 1
