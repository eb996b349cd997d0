"""Tokenization and vocabulary in a TensorFlow graph."""

import tensorflow as tf

from keras_tying.data import Vocabulary
from keras_tying.data.text import BYTE_ORDER_MARK, WHITESPACE, is_lower_cased, lower_case, rewrites


class TextInGraph(tf.Module):
    """A vocabulary and its tokenization as TensorFlow operations.

    Args:
        vocabulary: Vocabulary of the model.
        tokenization: Name of the tokenization, see `keras_tying.data.tokenize`.
    """

    def __init__(self, vocabulary: Vocabulary, tokenization: str):
        super().__init__(name="text")
        self.rewrites = rewrites(tokenization)
        self.is_lower_cased = is_lower_cased(tokenization)
        if self.is_lower_cased:
            pairs = [tf.constant(list(part), tf.int64) for part in zip(*lower_case().items(), strict=True)]
            self.lower_case = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(*pairs), default_value=-1)
        self.end_id = vocabulary.end_id
        words = tf.constant(vocabulary.words)
        ids = tf.range(len(vocabulary), dtype=tf.int64)
        self.words = words
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(words, ids), default_value=vocabulary.unknown_id
        )

    def encode(self, sentences: tf.Tensor) -> tf.RaggedTensor:
        """Converts sentences, `string [B]`, to ids, `int64 [B, (T)]`."""
        if self.is_lower_cased:
            sentences = self._lower_cased(sentences)
        for pattern, replacement in self.rewrites:
            sentences = tf.strings.regex_replace(sentences, pattern, replacement)
        return self.table.lookup(split_at_whitespace(sentences))

    def _lower_cased(self, sentences):
        """The sentences in lower case, which for other than ASCII characters differs between libraries."""
        characters = tf.strings.unicode_decode(sentences, "UTF-8")
        given = tf.cast(characters.flat_values, tf.int64)
        lower = self.lower_case.lookup(given)
        lower = tf.cast(tf.where(lower < 0, given, lower), tf.int32)
        return tf.strings.unicode_encode(characters.with_flat_values(lower), "UTF-8")

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


def split_at_whitespace(sentences: tf.Tensor) -> tf.RaggedTensor:
    """Splits sentences, `string [B]`, where Python's `str.split` does, which `tf.strings.split` alone does not.

    A byte order mark at the start is dropped.
    """
    sentences = tf.strings.regex_replace(sentences, f"^{BYTE_ORDER_MARK}", "")
    return tf.strings.split(tf.strings.regex_replace(sentences, WHITESPACE, " "))
