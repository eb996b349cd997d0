"""A layer of a user that reads the matrix of an embedding."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("tests_own_projection")
class OwnProjection(keras.layers.Layer):
    """Scores of words from hidden states, as `TiedDense`, with nothing of the library but the embedding."""

    def __init__(self, embedding, **kwargs):
        super().__init__(**kwargs)
        self.embedding = embedding

    def build(self, _):
        self.embedding.build()

    def call(self, hidden):
        scores = ops.matmul(hidden, ops.transpose(self.embedding.output_embeddings))
        return scores if self.embedding.bias is None else scores + self.embedding.bias

    def get_config(self):
        return {**super().get_config(), "embedding": keras.saving.serialize_keras_object(self.embedding)}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "embedding": keras.saving.deserialize_keras_object(config["embedding"])})
