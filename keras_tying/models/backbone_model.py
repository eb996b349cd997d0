"""Any Keras model that scores words, trained without keeping logits."""

import keras

from keras_tying.backend.keras_internals import layer_of_output, layers_within
from keras_tying.models.heads import head_of
from keras_tying.models.next_word_model import Example, NextWordModel, arguments_of


@keras.saving.register_keras_serializable("keras_tying")
class BackboneModel(NextWordModel):
    """A backbone that computes hidden states, and a head that scores words from them. It trains without keeping logits.

    The backbone is any Keras model: functional, subclassed, or from another library. The head may be one of its layers,
    as in a tied model whose input embedding also scores words. With `SequenceCrossEntropy` (the default loss),
    `AugmentedLoss` or `SampledCrossEntropy`, `fit` and `evaluate` compute the loss from hidden states, and logits exist
    for a chunk of tokens at a time only. Calls and `predict` return logits.

    `without_logits(model)` makes a `BackboneModel` from a functional model that ends with its head.

    Args:
        backbone: A built `keras.Model`, from its inputs to hidden states `[..., H]`.
        head: The layer that scores words: a `TiedEmbedding`, a `ReversibleEmbedding` of Keras, a `TiedDense`, or a
            `Dense` layer, without an activation. A layer of the backbone can be given by its name.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: The inputs of the backbone.
        targets: Optional word ids `[...]`.
        sample_weight: Optional weights that broadcast to the targets.
        training: Boolean, whether dropout is active.

    Output shape:
        Logits `[..., V]`; with targets `Losses`.

    Raises:
        ValueError: If the backbone is not built, or has no single layer of that name; if the head cannot score words or
            has an activation.

    Example:

    >>> import keras, numpy as np, keras_tying as kt
    >>> words = keras.Input((None,), dtype="int32")
    >>> embedding = keras.layers.ReversibleEmbedding(100, 8, name="words")
    >>> backbone = keras.Model(words, keras.layers.LSTM(8, return_sequences=True)(embedding(words)))
    >>> model = kt.models.BackboneModel(backbone, head="words")
    >>> model.compile("adam", kt.losses.SequenceCrossEntropy(reduction="mean"))
    >>> batch = np.array([[3, 14, 15], [9, 2, 6]])
    >>> history = model.fit(batch, batch, verbose=0)
    >>> tuple(model(batch).shape)
    (2, 3, 100)
    """

    def __init__(self, backbone, head, **kwargs):
        if not backbone.built:
            raise ValueError(
                f"`backbone` must be built: call it on a batch first. Received: {backbone.name!r}, which is not"
            )
        super().__init__(**{"dtype": backbone.dtype_policy, **kwargs})
        self.backbone = backbone
        self.output_embedding = head_of(_layer_named(backbone, head) if isinstance(head, str) else head)
        self.built = self.output_embedding.built
        if not self.built:
            self.build()

    @property
    def embedding(self):
        """The head, if it embeds words as well."""
        embeds = isinstance(self.output_embedding, keras.layers.ReversibleEmbedding)
        return self.output_embedding if embeds else None

    @property
    def input_signature(self):
        """The inputs of the backbone, with any batch size."""
        return keras.tree.map_structure(
            lambda each: keras.InputSpec(shape=(None, *each.shape[1:]), dtype=each.dtype), self.backbone.input
        )

    def build(self, input_shape=None):
        hidden = keras.tree.map_structure(lambda spec: keras.KerasTensor(spec.shape, spec.dtype), self.input_signature)
        self.output_embedding.build(self.backbone(hidden).shape)
        self.built = True

    def call(self, inputs, targets=None, sample_weight=None, training=None):
        if isinstance(inputs, Example):
            inputs, targets, sample_weight = inputs
        hidden = self.backbone(inputs, **arguments_of(self.backbone, training=training))
        return self.outputs_of(hidden, targets, sample_weight, training)

    def get_config(self):
        head = self.output_embedding
        shared = any(layer is head for layer in layers_within(self.backbone))
        return {
            **super().get_config(),
            "backbone": keras.saving.serialize_keras_object(self.backbone),
            "head": head.name if shared else keras.saving.serialize_keras_object(head),
        }


def without_logits(model):
    """A model with the layers of a functional model, which trains without keeping logits.

    Both models have the same variables: what trains one, trains the other.

    Args:
        model: A functional `keras.Model` with one output, which a `TiedEmbedding` or `ReversibleEmbedding` (called with
            `reverse=True`), a `TiedDense` or a `Dense` layer computes from hidden states.

    Returns:
        A `BackboneModel`, not compiled.

    Raises:
        ValueError: If the model is not functional, or its last layer is none of these or has an activation.

    Example:

    >>> import keras, keras_tying as kt
    >>> words = keras.Input((None,), dtype="int32")
    >>> hidden = keras.layers.GRU(8, return_sequences=True)(keras.layers.Embedding(100, 8)(words))
    >>> model = keras.Model(words, keras.layers.Dense(100)(hidden))
    >>> trained = kt.models.without_logits(model)
    >>> trained.compile("adam", kt.losses.SequenceCrossEntropy(reduction="mean"))
    >>> trained.output_embedding is model.layers[-1]
    True
    """
    output = getattr(model, "output", None)
    if not isinstance(output, keras.KerasTensor):
        raise ValueError(
            "`model` must be a functional model with one output. For another model, make a "
            f"BackboneModel(backbone, head). Received: {type(model).__name__} {model.name!r}"
        )
    head, hidden = layer_of_output(output)
    head = head_of(head)
    return BackboneModel(keras.Model(model.input, hidden, name=f"{model.name}_backbone"), head, name=model.name)


def _layer_named(backbone, name):
    named = {id(layer): layer for layer in layers_within(backbone) if layer.name == name}
    if len(named) != 1:
        raise ValueError(
            f"`head` must be the name of one layer of the backbone. Received: {name!r}, of which {backbone.name!r} has "
            f"{len(named)}"
        )
    return next(iter(named.values()))
