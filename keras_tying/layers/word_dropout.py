"""Dropout of word types."""

import keras
from keras import ops

from keras_tying.backend.replicas import ReplicaSeedGenerator
from keras_tying.checks import check_integer, check_rate


@keras.saving.register_keras_serializable("keras_tying")
class WordDropout(keras.layers.Layer):
    """Dropout of word types: a word dropped in a row is dropped at all its positions in that row.

    Each call draws a new mask for each row. Vectors of kept words are divided by `1 - rate`. Without `training`
    the vectors do not change.

    Args:
        vocabulary_size: Integer `V`.
        rate: Float in [0, 1), the probability that a word is dropped.
        seed: Optional integer.
        **kwargs: Base layer arguments, such as `name`.

    Call arguments:
        vectors: Embedded words `[B, T, H]`.
        ids: The words `[B, T]`.
        training: Boolean, whether words are dropped.

    Output shape:
        `[B, T, H]`.

    Raises:
        ValueError: If `rate` is outside [0, 1).

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> dropped = kt.layers.WordDropout(10, 0.5, seed=1)(np.ones((1, 4, 1)), np.array([[3, 7, 3, 7]]), training=True)
    >>> kept = np.array(dropped)[0, :, 0]
    >>> bool(kept[0] == kept[2]), bool(kept[1] == kept[3])
    (True, True)

    Reference:
        Gal and Ghahramani, A Theoretically Grounded Application of Dropout in Recurrent Neural Networks, section 4.2.
    """

    def __init__(self, vocabulary_size, rate, *, seed=None, **kwargs):
        super().__init__(**{"autocast": False, **kwargs})  # ids are not rounded
        self.supports_masking = True
        check_integer("vocabulary_size", vocabulary_size)
        check_rate("rate", rate)
        self.vocabulary_size = vocabulary_size
        self.rate = rate
        self.seed = seed
        self.seed_generator = ReplicaSeedGenerator(seed) if rate else None

    def call(self, vectors, ids, training=None):
        vectors = ops.cast(vectors, self.compute_dtype)
        if not training or not self.rate:
            return vectors
        shape = ops.shape(ids)[0], self.vocabulary_size
        drawn = keras.random.uniform(shape, dtype="float32", seed=self.seed_generator)
        kept = ops.cast(ops.take_along_axis(drawn, ops.cast(ids, "int32"), axis=1) >= self.rate, vectors.dtype)
        return vectors * ops.expand_dims(kept / (1 - self.rate), -1)

    def compute_output_shape(self, vectors_shape, ids_shape=None):
        return vectors_shape

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "rate": self.rate,
            "seed": self.seed,
        }
