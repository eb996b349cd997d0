"""Skip-gram embeddings as a SavedModel that takes and gives words."""

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_tying.data import Vocabulary, words_alone
from keras_tying.export.saving import check_exportable, trace, write_saved_model


def export_skip_gram(model: keras.Model, vocabulary: Vocabulary, path: str | Path) -> None:
    """Writes a SavedModel that needs TensorFlow alone; it holds the input, or tied, embedding.

    Signatures, `B` words at a time, any `B`:

    - `vector` and `serving_default`: `words` `string [B]` to `vector` `float32 [B, H]` and `known`
      `bool [B]`; the vector of an unknown word is zero.
    - `similar_words`: `words` `string [B]` and `k` `int32 []` to `similar` `string [B, k]` and `similarity`
      `float32 [B, k]`, the words of largest cosine, the word itself excepted. Beside an unknown word
      they are empty strings and zeros. If there are fewer than `k` other words, all are given.

    Args:
        model: A trained `SkipGram`.
        vocabulary: Its words.
        path: Folder to make, for TensorFlow Serving `.../NAME/1`; replaced if it is there.

    Raises:
        ValueError: If model and vocabulary differ in size.
        RuntimeError: If Keras runs on another backend than TensorFlow.
    """
    check_exportable(model, vocabulary)
    words, matrix = words_alone(vocabulary, keras.ops.convert_to_numpy(model.embedding.embeddings))
    served = ServedWords(words, matrix)
    strings, integer = tf.TensorSpec([None], tf.string), tf.TensorSpec([], tf.int32)
    signatures = {
        "serving_default": (served.vector, (strings,)),
        "vector": (served.vector, (strings,)),
        "similar_words": (served.similar_words, (strings, integer)),
    }
    write_saved_model(served, trace(signatures), path)


class ServedWords(tf.Module):
    """The functions behind the signatures; see `export_skip_gram`."""

    def __init__(self, words: list[str], matrix: np.ndarray):
        super().__init__(name="words")
        self.words = tf.constant(words)
        ids = tf.range(len(words), dtype=tf.int64)
        self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(self.words, ids), default_value=-1)
        self.matrix = tf.Variable(matrix, trainable=False, name="vectors")
        self.lengths = tf.Variable(np.linalg.norm(matrix, axis=1), trainable=False, name="lengths")

    def vector(self, words):
        ids, known = self._find(words)
        return {"vector": tf.where(known[:, None], tf.gather(self.matrix, ids), 0.0), "known": known}

    def similar_words(self, words, k):
        tf.debugging.assert_positive(k, "k must be at least 1")
        ids, known = self._find(words)
        lengths = tf.maximum(self.lengths, 1e-12)
        queries = tf.gather(self.matrix, ids) / tf.gather(lengths, ids)[:, None]
        cosines = tf.matmul(queries, self.matrix, transpose_b=True) / lengths
        cosines = tf.where(tf.one_hot(ids, tf.size(lengths), True, False), -2.0, cosines)
        best = tf.math.top_k(cosines, tf.minimum(k, tf.size(lengths) - 1))
        return {
            "similar": tf.where(known[:, None], tf.gather(self.words, best.indices), ""),
            "similarity": tf.where(known[:, None], best.values, 0.0),
        }

    def _find(self, words):
        """Ids of words, 0 for those not known, and which are known."""
        ids = self.table.lookup(words)
        return tf.maximum(ids, 0), ids >= 0
