"""Words and ids inside a TensorFlow graph."""

import tensorflow as tf

from keras_tying.data import Vocabulary
from keras_tying.data.text import NOT_LETTERS, PUNCTUATION, check_tokenization


class TextInGraph(tf.Module):
    """A vocabulary and its tokenization as TensorFlow operations; the graph holds both.

    Args:
        vocabulary: The model's words.
        tokenization: How sentences become tokens, see `keras_tying.data.tokenize`.
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
        """Sentences, strings `[B]`, to ids `int64 [B, (T)]`."""
        if self.tokenization == "plain":
            sentences = tf.strings.lower(sentences, encoding="utf-8")
            sentences = tf.strings.regex_replace(sentences, PUNCTUATION, r" \1 ")
        elif self.tokenization == "letters":
            sentences = tf.strings.lower(sentences, encoding="utf-8")
            sentences = tf.strings.regex_replace(sentences, NOT_LETTERS, " ")
        return self.table.lookup(tf.strings.split(sentences))

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """Ids of any shape to words."""
        return tf.gather(self.words, ids)

    def with_ends(self, sentences: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Inputs and targets `[B, T + 1]` of sentences, and how many of the targets are real `[B]`.

        A sentence is read after the end of one before it, and its own end is the last target.
        """
        ids = self.encode(sentences)
        ends = tf.fill([ids.nrows(), 1], tf.constant(self.end_id, tf.int64))
        padded = ids.to_tensor(self.end_id)  # so each row's own end stands where its padding begins
        inputs, targets = tf.concat([ends, padded], axis=1), tf.concat([padded, ends], axis=1)
        return tf.cast(inputs, tf.int32), tf.cast(targets, tf.int32), ids.row_lengths() + 1
