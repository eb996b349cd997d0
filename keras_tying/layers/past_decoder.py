"""Past decode regularization: the last word, predicted from the distribution of the next one."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("keras_tying")
class PastDecoder(keras.layers.Layer):
    """Maps the distribution of the next word to a hidden state that should score the word before it.

    With probabilities `p` and output embeddings `V`: `tanh(M (V^T p) + m)`, scored by `V` with a bias of its own.

    Reference:
        Brahma, Improved Language Modeling by Decoding the Past, section 2.
    """

    def __init__(self, vocabulary_size, units, **kwargs):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.map = keras.layers.Dense(units, activation="tanh", dtype=self.dtype_policy, name="map")
        self.bias = self.add_weight(shape=(vocabulary_size,), initializer="zeros", name="bias")
        self.map.build((None, units))
        self.built = True

    def call(self, logits, embeddings):
        probabilities = ops.cast(ops.softmax(ops.cast(logits, "float32"), axis=-1), self.compute_dtype)
        return self.map(ops.matmul(probabilities, ops.cast(embeddings, self.compute_dtype)))

    def get_config(self):
        return {**super().get_config(), "vocabulary_size": self.vocabulary_size, "units": self.map.units}
