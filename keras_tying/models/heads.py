"""Heads: the layers that score words from hidden states."""

import keras
from keras import ops

from keras_tying.backend.keras_internals.calls import variables_as_they_are
from keras_tying.layers import AdaptiveEmbedding, TiedDense, TiedEmbedding
from keras_tying.layers.lookup import embedding_matrix
from keras_tying.layers.shared_place import SharedPlace
from keras_tying.losses import AdaptiveProjection, OutputProjection
from keras_tying.losses.adaptive_cross_entropy import Tail

REVERSIBLE = (keras.layers.ReversibleEmbedding, AdaptiveEmbedding)
"""Heads that embed words as well."""

KINDS = (TiedEmbedding, *REVERSIBLE, TiedDense, SharedPlace, keras.layers.Dense)

SCORING = ("call", "_score", "finish", "output_embeddings", "output_tables", "_logits")
"""Methods and properties of these layers that decide scores."""


def head_of(layer):
    """The layer that computes logits from hidden states; of a `TiedDense` or `SharedPlace`, the embedding that it uses.

    Raises:
        ValueError: If the layer computes something else.
    """
    if not any(_scores_as(layer, kind) for kind in KINDS):
        raise ValueError(
            "The layer that scores words must be a TiedEmbedding, ReversibleEmbedding, AdaptiveEmbedding, TiedDense or "
            "Dense layer, or a subclass that scores words as they do. If such a layer is not the last one, make a "
            f"BackboneModel(backbone, head). Received: {type(layer).__name__} {getattr(layer, 'name', layer)!r}"
        )
    activation = getattr(layer, "activation", None)
    if activation not in (None, keras.activations.linear):
        raise ValueError(
            "The layer that scores words must have no activation, because the loss applies the softmax. Remove it. "
            f"Received: {layer.name!r} with activation {getattr(activation, '__name__', activation)!r}"
        )
    if getattr(layer, "activity_regularizer", None) is not None:
        raise ValueError(
            "The layer that scores words must have no activity_regularizer, because its logits do not exist in "
            f"training. Remove it. Received: {layer.name!r}"
        )
    return head_of(layer.embedding) if isinstance(layer, (TiedDense, SharedPlace)) else layer


def _scores_as(layer, kind):
    own = [name for name in SCORING if hasattr(kind, name)]
    return isinstance(layer, kind) and all(getattr(type(layer), name) is getattr(kind, name) for name in own)


def head_scores(layer, hidden):
    """Logits `[..., V]` of hidden states `[..., H]`."""
    return layer(hidden, reverse=True) if isinstance(layer, REVERSIBLE) else layer(hidden)


def head_projection(layer, embedding=None):
    """The parameters of a head, as an argument of losses: an `OutputProjection` or an `AdaptiveProjection`.

    They have the dtype of the variables, so that their gradients are not rounded to the compute dtype.

    Args:
        layer: The head.
        embedding: The layer that embeds the words, for losses that need their input embeddings.

    Raises:
        ValueError: If a layer of Keras is quantized.
    """
    with variables_as_they_are():
        if isinstance(layer, AdaptiveEmbedding):
            head, *tails = layer.output_tables()
            tails = tuple(Tail(each.projection, OutputProjection(each.embeddings, each.bias)) for each in tails)
            return AdaptiveProjection(OutputProjection(head.embeddings, head.bias), tails, layer.compute_dtype)
        input_embeddings = None if embedding is None else embedding_matrix(embedding)
        return OutputProjection(**_parameters(layer), input_embeddings=input_embeddings)


def _parameters(layer):
    dtype = getattr(layer, "reverse_dtype", None) or layer.compute_dtype
    if isinstance(layer, TiedEmbedding):
        found = {"embeddings": layer.output_embeddings, "bias": layer.bias}
    elif layer.quantization_mode is not None:
        raise ValueError(
            "A quantized layer of Keras does not train without logits. To evaluate, compile with "
            "keras.losses.SparseCategoricalCrossentropy(from_logits=True); to train, use a TiedEmbedding. "
            f"Received: {layer.name!r}, quantized to {layer.quantization_mode}"
        )
    elif isinstance(layer, keras.layers.Dense):
        return {"embeddings": ops.transpose(layer.kernel), "bias": layer.bias, "dtype": dtype}
    else:
        found = {"embeddings": layer.embeddings if layer.tie_weights else ops.transpose(layer.reverse_embeddings)}
    return {**found, "logit_soft_cap": layer.logit_soft_cap, "dtype": dtype}


def head_width(layer):
    """Width `H` of the hidden states that a built head takes."""
    return layer.kernel.shape[0] if isinstance(layer, keras.layers.Dense) else layer.output_dim


def head_size(layer):
    """Word types `V` and width `H` of a built head, or of an embedding."""
    return layer.units if isinstance(layer, keras.layers.Dense) else layer.input_dim, head_width(layer)
