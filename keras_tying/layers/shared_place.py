"""Embeddings that several nested models share, in files."""

import keras

from keras_tying.backend.keras_internals import (
    NUMBER_IN_FILE,
    is_loading,
    number_in_file,
    record_loaded,
    shared_object,
)


class Shareable:
    """Mixin for an embedding that a file contains once, however many places it has in the model.

    Keras refers to the calls of a layer by their number within a model, so one layer cannot be loaded into the graphs
    of two. In a loaded model, the first place has the layer and the others a `SharedPlace` of it.
    """

    def get_config(self):
        number = number_in_file(self)
        return {**super().get_config(), **({} if number is None else {NUMBER_IN_FILE: number})}  # type: ignore[misc]

    @classmethod
    def from_config(cls, config):
        layer = shared_object({"config": config})
        if layer is not None:
            return place_of(layer)
        config = dict(config)
        number = config.pop(NUMBER_IN_FILE, None)
        layer = super().from_config(config)  # type: ignore[misc]
        record_loaded(layer, number)
        return layer


@keras.saving.register_keras_serializable("keras_tying")
class SharedPlace(keras.layers.Layer):
    """A further place of an embedding in a loaded model. It has no variables: `embedding` computes.

    Args:
        embedding: The `TiedEmbedding` or `AdaptiveEmbedding` that was loaded in the first place.
        **kwargs: Base layer arguments, such as `name`.

    Call arguments:
        inputs: See the embedding.
        reverse: See there.
    """

    def __init__(self, embedding, **kwargs):
        super().__init__(**kwargs)
        self.embedding = embedding
        self.supports_masking = True

    input_dim = property(lambda self: self.embedding.input_dim)
    output_dim = property(lambda self: self.embedding.output_dim)
    tie_weights = property(lambda self: self.embedding.tie_weights)
    embeddings = property(lambda self: self.embedding.embeddings)
    output_embeddings = property(lambda self: self.embedding.output_embeddings)

    def build(self, input_shape=None):
        if not self.embedding.built:
            self.embedding.build()

    def call(self, inputs, reverse=False):
        return self.embedding(inputs, reverse=reverse)

    def compute_mask(self, inputs, mask=None):
        return self.embedding.compute_mask(inputs, mask)

    def compute_output_spec(self, inputs, reverse=False):
        return self.embedding.compute_output_spec(inputs, reverse)

    def compute_output_shape(self, input_shape, reverse=False):
        return self.embedding.compute_output_shape(input_shape, reverse)

    def get_config(self):
        return {**super().get_config(), "embedding": keras.saving.serialize_keras_object(self.embedding)}

    @classmethod
    def from_config(cls, config):
        described = config["embedding"]
        embedding = shared_object(described)
        if embedding is None and is_loading():
            embedding = keras.saving.deserialize_keras_object(described)
        if embedding is None:
            raise ValueError(
                "Nested models that share an embedding cannot be copied one by one. Copy the whole model with "
                f"copy.deepcopy. Received: the configuration of a place of {described['config']['name']!r}"
            )
        return super().from_config({**config, "embedding": embedding})


def _places_of(name):
    """The `SharedPlace` class of an embedding class, under the same name: files number the layers of a class."""
    register = keras.saving.register_keras_serializable("keras_tying", f"SharedPlaceOf{name}")
    return register(type(name, (SharedPlace,), {}))


PLACES = {name: _places_of(name) for name in ("TiedEmbedding", "AdaptiveEmbedding")}


def place_of(embedding):
    """A new `SharedPlace` of a loaded embedding."""
    kind = PLACES.get(type(embedding).__name__, SharedPlace)
    return kind(embedding, name=embedding.name, dtype=embedding.dtype_policy, trainable=embedding.trainable)


def embedding_at(layer):
    """The embedding of a `SharedPlace`; another layer itself."""
    return layer.embedding if isinstance(layer, SharedPlace) else layer
