"""Embeddings that nested models share: saved once, and shared again when they are loaded."""

import keras

from keras_tying.backend.keras_internals.saving import (
    NUMBER_IN_FILE,
    is_loading,
    is_saving,
    number_in_file,
    record_loaded,
    shared_object,
)


class Shareable:
    """Mixin for an embedding that a file contains once, however many places it has in the model.

    Keras refers to the calls of a layer by their number within a model, so one layer cannot be loaded into the graphs
    of two. In a loaded model, the first place has the layer and the others a `SharedPlace` of it.
    """

    def __init__(self, *args, **kwargs):
        number = kwargs.pop(NUMBER_IN_FILE, None)
        super().__init__(*args, **kwargs)
        record_loaded(self, number)
        self._loaded_at_a_place = False

    def load_own_variables(self, store):
        if self._loaded_at_a_place and not store.keys():
            return
        super().load_own_variables(store)  # type: ignore[misc]  # a mixin has none

    def get_config(self):
        number = number_in_file(self)
        config = super().get_config()  # type: ignore[misc]  # a mixin has none
        return config if number is None else {**config, NUMBER_IN_FILE: number}

    @classmethod
    def from_config(cls, config):
        layer = shared_object({"config": config})
        if layer is not None:
            return place_of(layer)
        return super().from_config(config)  # type: ignore[misc]  # a mixin has none


@keras.saving.register_keras_serializable("keras_tying")
class SharedPlace(keras.layers.Layer):
    """A further place of an embedding in a loaded model. It adds no variables of its own: `embedding` computes.

    Attributes that other layers lack, such as `output_embeddings` and `bias`, are those of the embedding.

    Args:
        embedding: The `TiedEmbedding` or `AdaptiveEmbedding` that was loaded in the first place.
        **kwargs: Base layer arguments, such as `name`.

    Call arguments:
        inputs: See the embedding.
        reverse: See there.

    Raises:
        ValueError: If the configuration is read, or a layer made from it, other than for a file of Keras.
    """

    def __init__(self, embedding, **kwargs):
        super().__init__(**{"autocast": embedding.autocast, **kwargs})
        self.embedding = embedding
        self.supports_masking = True

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)  # PyTorch keeps layers in a module's own table
        except AttributeError:
            if name == "embedding" or name.startswith("_"):
                raise
        return getattr(self.embedding, name)

    def __repr__(self):
        return f"<SharedPlace of {self.embedding!r}>"

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

    def load_own_variables(self, store):
        """Loads the embedding from a file of a model in which this place had it."""
        if store.keys():
            self.embedding.load_own_variables(store)
            self.embedding._loaded_at_a_place = True

    def get_config(self):
        if not is_saving():
            raise _not_copied(self.embedding.name)
        return {**super().get_config(), "embedding": keras.saving.serialize_keras_object(self.embedding)}

    @classmethod
    def from_config(cls, config):
        if not is_loading():
            raise _not_copied(config["embedding"]["config"]["name"])
        embedding = embedding_at(keras.saving.deserialize_keras_object(config["embedding"]))
        return super().from_config({**config, "embedding": embedding})


def _not_copied(name):
    return ValueError(
        "A loaded model in which nested models share an embedding can only be copied with copy.deepcopy or saved as "
        f".keras. Received: the configuration of a place of {name!r}"
    )


def _places_of(name):
    """The `SharedPlace` class of an embedding class, under the same name: files number the layers of a class."""
    register = keras.saving.register_keras_serializable("keras_tying", f"SharedPlaceOf{name}")
    return register(type(name, (SharedPlace,), {}))


PLACES = {name: _places_of(name) for name in ("TiedEmbedding", "AdaptiveEmbedding")}


def place_of(embedding):
    """A new `SharedPlace` of a loaded embedding."""
    kind = PLACES.get(type(embedding).__name__, SharedPlace)
    return kind(embedding, name=embedding.name, dtype=embedding.compute_dtype, trainable=embedding.trainable)


def embedding_at(layer):
    """The embedding of a `SharedPlace`; another layer itself."""
    return layer.embedding if isinstance(layer, SharedPlace) else layer
