"""Export of skip-gram embeddings."""

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_tying.data import Vocabulary, without_special_words
from keras_tying.export.rows import first_of_each_row, for_rows, largest, option
from keras_tying.export.saving import check_exportable, checked, trace, write_saved_model


def export_skip_gram(model: keras.Model, vocabulary: Vocabulary, path: str | Path) -> None:
    """Writes the input embedding of a skip-gram model as a SavedModel that needs only TensorFlow.

    The signatures accept any number of words `B`:

    - `vector` and `serving_default` take `words` `string [B]`. They return `vector` `float32 [B, H]` and `known`
      `bool [B]`. The vector of an unknown word is zero.
    - `similar_words` takes `words` `string [B]` and `k` `int32`, a number or one of each row `[B]`. It returns
      `similar` `string [B, k]` and `similarity` `float32 [B, k]`: the other words with the largest cosines. For an
      unknown word, and beyond a row's own `k`, they are empty strings and zeros. If there are fewer than `k` other
      words, all are returned.

    Args:
        model: A trained `SkipGram`.
        vocabulary: Vocabulary of the model.
        path: Folder of the SavedModel, for TensorFlow Serving `.../NAME/1`. An existing one is replaced.

    Raises:
        ValueError: If model and vocabulary differ in size.
        RuntimeError: If the backend of Keras is not TensorFlow.
        FileExistsError: If `path` holds something other than a SavedModel.

    Example:

    >>> import tempfile, tensorflow as tf, keras_tying as kt
    >>> words = kt.data.Vocabulary(["king", "queen", "tulip", "<unk>", "<eos>"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kt.export.export_skip_gram(kt.zoo.skip_gram(5, units=4), words, folder + "/vectors/1")
    ...     sorted(tf.saved_model.load(folder + "/vectors/1").signatures)
    ['serving_default', 'similar_words', 'vector']
    """
    check_exportable(model, vocabulary)
    matrix = model.embedding_matrices()["tied" if model.tied else "input"]
    words, matrix = without_special_words(vocabulary, keras.ops.convert_to_numpy(matrix))
    write_saved_model(ServedWords(words, matrix), path)


class ServedWords(tf.Module):
    """Functions of the signatures; see `export_skip_gram`."""

    def __init__(self, words: list[str], matrix: np.ndarray):
        super().__init__(name="words")
        self.words = tf.constant(words)
        ids = tf.range(len(words), dtype=tf.int64)
        self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(self.words, ids), default_value=-1)
        self.matrix = tf.Variable(matrix, trainable=False, name="vectors")
        self.lengths = tf.Variable(np.linalg.norm(matrix, axis=1), trainable=False, name="lengths")

    def endpoints(self) -> dict:
        """Traced functions, by the name of the signature."""
        strings = tf.TensorSpec([None], tf.string)
        return trace(
            {
                "serving_default": (self.vector, (strings,)),
                "vector": (self.vector, (strings,)),
                "similar_words": (self.similar_words, (strings, option(tf.int32))),
            }
        )

    def module(self) -> tf.Module:
        """The weights and tables that the functions use."""
        return self

    def vector(self, words):
        ids, known = self._find(words)
        return {"vector": tf.where(known[:, None], tf.gather(self.matrix, ids), 0.0), "known": known}

    def similar_words(self, words, k):
        k = checked(for_rows(k, words, "k"), k >= 1, "k must be at least 1")
        ids, known = self._find(words)
        lengths = tf.maximum(self.lengths, 1e-12)
        queries = tf.gather(self.matrix, ids) / tf.gather(lengths, ids)[:, None]
        cosines = tf.matmul(queries, self.matrix, transpose_b=True) / lengths
        cosines = tf.where(tf.one_hot(ids, tf.size(lengths), True, False), -2.0, cosines)
        best = tf.math.top_k(cosines, tf.minimum(largest(k), tf.size(lengths) - 1))
        similar = tf.where(known[:, None], tf.gather(self.words, best.indices), "")
        return {
            "similar": first_of_each_row(similar, k, ""),
            "similarity": first_of_each_row(tf.where(known[:, None], best.values, 0.0), k, 0.0),
        }

    def _find(self, words):
        """Ids of words, 0 if unknown, and whether each word is known."""
        ids = self.table.lookup(words)
        return tf.maximum(ids, 0), ids >= 0
