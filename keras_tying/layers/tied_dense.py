"""The output role of a tied embedding as a separate layer."""

import keras
from keras import activations


@keras.saving.register_keras_serializable("keras_tying")
class TiedDense(keras.layers.Layer):
    """Projects hidden states to scores of words with the matrix of an embedding layer.

    For `Sequential` and functional models, in which the output projection is a layer. The layer has no variables:
    the matrix and the bias belong to `embedding`, which is saved once.

    Args:
        embedding: The `TiedEmbedding` that has the matrix and the bias.
        activation: Activation of the scores. Defaults to `None`, which leaves logits.
        **kwargs: Base layer arguments, such as `name` and `dtype`.

    Input shape:
        `[..., H]`, `H` the embedding size.

    Output shape:
        `[..., V]`, `V` the vocabulary size.

    Example:

    >>> import keras, keras_tying as kt
    >>> embedding = kt.layers.TiedEmbedding(1000, 32)
    >>> model = keras.Sequential([
    ...     keras.Input((None,), dtype="int32"),
    ...     embedding,
    ...     keras.layers.LSTM(32, return_sequences=True),
    ...     kt.layers.TiedDense(embedding, activation="softmax"),
    ... ])
    >>> model.count_params()  # 1000 * 32 + 1000 and the LSTM's 8320
    41320
    """

    def __init__(self, embedding, activation=None, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(embedding, keras.layers.ReversibleEmbedding):
            raise ValueError(
                "`embedding` must be a TiedEmbedding (or another ReversibleEmbedding) layer. "
                f"Received: embedding={embedding!r}"
            )
        self.embedding = embedding
        self.activation = activations.get(activation)

    def build(self, input_shape):
        if input_shape[-1] != self.embedding.output_dim:
            raise ValueError(
                "The last axis of the input must have the embedding's size "
                f"{self.embedding.output_dim}. Received: input_shape={tuple(input_shape)}"
            )
        if not self.embedding.built:
            self.embedding.build()

    def call(self, inputs):
        return self.activation(self.embedding(inputs, reverse=True))

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.embedding.input_dim)

    def get_config(self):
        return {
            **super().get_config(),
            "embedding": keras.saving.serialize_keras_object(self.embedding),
            "activation": activations.serialize(self.activation),
        }

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        config["embedding"] = keras.saving.deserialize_keras_object(config["embedding"])
        return cls(**config)
