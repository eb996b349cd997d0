"""Means of the word vectors in sections of a sentence."""

import keras
from keras import ops

from keras_tying.checks import check_integer

SPLITS = ("adaptive", "fixed")


@keras.saving.register_keras_serializable("keras_tying")
class SectionMeans(keras.layers.Layer):
    """Means of the word vectors in each section of a sentence, side by side.

    With `k` sections, position `p` of a sentence of `l` words belongs to section `floor(p k / l)`. With the
    adaptive split `l` is the length of the sentence, with the fixed split the padded length. Words of weight
    zero are left out of the mean. The mean of a section without other words is 0.

    Args:
        sections: Integer `k`. Defaults to 1, the mean of the whole sentence.
        split: `"adaptive"` (default) or `"fixed"`.
        stop_words: Integer `N`: words with ids below `N`, the most frequent words of a `Vocabulary`, have
            weight zero. Defaults to 0.
        **kwargs: Base layer arguments, such as `name` and `dtype`.

    Call arguments:
        vectors: Word vectors `[B, L, d]`.
        ids: Word ids `[B, L]`.
        lengths: Length of each sentence without padding, `[B]`.

    Output shape:
        `[B, k * d]`.

    Raises:
        ValueError: If an argument is outside its range.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> vectors = np.array([[[1.0], [3.0], [5.0], [9.0]]])
    >>> means = kt.layers.SectionMeans(sections=2)
    >>> np.asarray(means(vectors, np.array([[4, 5, 6, 6]]), np.array([3]))).tolist()
    [[2.0, 5.0]]

    Reference:
        Zhang and Qi, Neural Network Joint Language Model: An Investigation and an Extension with Global
        Source Context, sections 3.1 and 3.2.
    """

    def __init__(self, *, sections=1, split="adaptive", stop_words=0, **kwargs):
        super().__init__(**kwargs)
        check_integer("sections", sections)
        if split not in SPLITS:
            raise ValueError(f"`split` must be one of {SPLITS}. Received: split={split!r}")
        check_integer("stop_words", stop_words, least=0)
        self.sections = sections
        self.split = split
        self.stop_words = stop_words

    def build(self, vectors_shape, ids_shape=None, lengths_shape=None):
        self.built = True

    def call(self, vectors, ids, lengths):
        weights = ops.cast(self.weights_of(ids, lengths), vectors.dtype)
        sections = ops.matmul(weights, vectors)  # [B, k, d]
        return ops.reshape(sections, (-1, self.sections * vectors.shape[-1]))

    def weights_of(self, ids, lengths):
        """Weight `[B, k, L]` of each word in the mean of each section."""
        length = ops.shape(ids)[1]
        places = ops.expand_dims(ops.arange(length, dtype="int32"), 0)
        lengths = ops.expand_dims(ops.cast(lengths, "int32"), -1)
        if self.split == "fixed":
            lengths = ops.zeros_like(lengths) + length
        section = ops.where(places < lengths, places * self.sections // ops.maximum(lengths, 1), -1)
        section = ops.where(ids < self.stop_words, -1, section)
        chosen = ops.equal(
            ops.expand_dims(section, 1), ops.reshape(ops.arange(self.sections, dtype="int32"), (1, -1, 1))
        )
        chosen = ops.cast(chosen, "float32")
        return chosen / ops.maximum(ops.sum(chosen, -1, keepdims=True), 1)

    def compute_output_shape(self, vectors_shape, ids_shape=None, lengths_shape=None):
        return (vectors_shape[0], self.sections * vectors_shape[-1])

    def get_config(self):
        return {
            **super().get_config(),
            "sections": self.sections,
            "split": self.split,
            "stop_words": self.stop_words,
        }
