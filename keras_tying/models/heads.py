"""Heads: the layers that score words from hidden states."""

import keras
from keras import ops

from keras_tying.layers import TiedDense, TiedEmbedding

KINDS = (keras.layers.ReversibleEmbedding, TiedDense, keras.layers.Dense)


def head_of(layer):
    """The layer that computes logits from hidden states; of a `TiedDense`, the embedding that it uses.

    Raises:
        ValueError: If the layer computes something else.
    """
    if not isinstance(layer, KINDS):
        raise ValueError(
            "The layer that scores words must be a TiedEmbedding, ReversibleEmbedding, TiedDense or Dense layer. "
            f"Received: {type(layer).__name__} {getattr(layer, 'name', layer)!r}"
        )
    activation = getattr(layer, "activation", None)
    if activation not in (None, keras.activations.linear):
        raise ValueError(
            "The layer that scores words must have no activation, because the loss applies the softmax. "
            f"Received: {layer.name!r} with activation {keras.activations.serialize(activation)!r}"
        )
    return layer.embedding if isinstance(layer, TiedDense) else layer


def head_scores(layer, hidden):
    """Logits `[..., V]` of hidden states `[..., H]`."""
    return layer(hidden, reverse=True) if isinstance(layer, keras.layers.ReversibleEmbedding) else layer(hidden)


def head_parameters(layer):
    """Output embeddings `[V, H]`, bias `[V]` and soft cap of a head, as arguments of `OutputProjection`.

    Raises:
        ValueError: If a layer of Keras is quantized.
    """
    if isinstance(layer, TiedEmbedding):
        embeddings = layer.output_embeddings
        return {"embeddings": embeddings, "bias": layer.bias, "logit_soft_cap": layer.logit_soft_cap}
    if layer.quantization_mode is not None:
        raise ValueError(
            "A quantized layer of Keras cannot be trained without logits; use a TiedEmbedding. "
            f"Received: {layer.name!r}, quantized to {layer.quantization_mode}"
        )
    if isinstance(layer, keras.layers.Dense):
        return {"embeddings": ops.transpose(layer.kernel), "bias": layer.bias}
    embeddings = layer.embeddings if layer.tie_weights else ops.transpose(layer.reverse_embeddings)
    return {"embeddings": embeddings, "logit_soft_cap": layer.logit_soft_cap}
