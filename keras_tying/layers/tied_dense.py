"""The output role of a tied embedding as a separate layer."""

from typing import Any

import keras
from keras import activations, ops

from keras_tying.backend.keras_internals.calls import layers_before
from keras_tying.backend.keras_internals.saving import is_loading, keep_shared, shared_object
from keras_tying.checks import check_width
from keras_tying.layers.shared_place import Shareable, embedding_at

SIZES = ("input_dim", "output_dim", "tie_weights")
"""What tells embeddings apart, besides their name."""


@keras.saving.register_keras_serializable("keras_tying")
class TiedDense(keras.layers.Layer):
    """Projects hidden states to scores of words with the matrix of an embedding layer.

    For `Sequential` models, in which the output projection is a layer. The layer has no variables of its own: the
    matrix and the bias belong to `embedding`, which is saved once; `trainable = False` of either layer freezes them for
    both. In a functional model, `embedding(hidden, reverse=True)` is the same.

    A copy of a model (`keras.models.clone_model`, `from_config`, `model_from_json`, a loaded file) shares again: the
    new layer uses the embedding of the same name that comes before it in the new model. If there is none, for example
    because the embedding is outside a nested model, the copy raises an error and never makes a second matrix. A loaded
    file shares in that case too.

    Args:
        embedding: The `TiedEmbedding` that has the matrix and the bias.
        activation: Activation of the scores. Defaults to `None`, which leaves logits.
        **kwargs: Base layer arguments, such as `name` and `dtype`.

    Input shape:
        `[..., H]`, `H` the embedding size.

    Output shape:
        `[..., V]`, `V` the vocabulary size. The scores have the `reverse_dtype` of the embedding if it has one, else
        the compute dtype of this layer.

    Raises:
        ValueError: If `embedding` is no reversible embedding or the input does not have its width; when a copy is
            called, if its embedding does not come before it.

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
    >>> keras.models.clone_model(model).count_params()
    41320

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, section 3.
    """

    def __init__(self, embedding, *, activation=None, **kwargs):
        super().__init__(**kwargs)
        self.embedding: Any = None
        self._embedding_config: Any = None
        embedding = embedding_at(embedding)
        if isinstance(embedding, keras.layers.ReversibleEmbedding):
            self.embedding = embedding
        elif isinstance(embedding, dict):  # from a configuration
            self._embedding_config = embedding
            self.embedding = shared_object(embedding)
        else:
            raise ValueError(
                "`embedding` must be a TiedEmbedding (or another ReversibleEmbedding) layer. "
                f"Received: embedding={embedding!r}"
            )
        self.activation = activations.get(activation)
        self.supports_masking = True

    def __call__(self, inputs, *args, **kwargs):
        if self.embedding is None:
            self.embedding = self._embedding_before(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def _embedding_before(self, inputs):
        """The layer before this one that the configuration of the embedding describes."""
        expected = self._embedding_config["config"]
        before = [layer for layer in layers_before(inputs) if isinstance(layer, keras.layers.ReversibleEmbedding)]
        named = {layer for layer in before if layer.name == expected["name"]}
        if len(named) == 1:
            return named.pop()
        if not named and len({*before}) == 1 and all(getattr(before[0], size) == expected[size] for size in SIZES):
            return before[0]  # a `clone_function` has given it another name
        if not named and is_loading():  # it has no other place, or a later one
            return embedding_at(keras.saving.deserialize_keras_object(self._embedding_config))
        raise self._not_found([layer.name for layer in before])

    def _not_found(self, before):
        return ValueError(
            f"The copy of TiedDense {self.name!r} needs the embedding that it shares, which must come before it in the "
            "same model. Copy the whole model with copy.deepcopy, or call the embedding with reverse=True instead of "
            f"TiedDense. Expected: one embedding {self._embedding_config['config']['name']!r}. Received: {before}"
        )

    def build(self, input_shape):
        if self.embedding is None:  # built by a layer that contains it
            raise self._not_found([])
        check_width(self.embedding.output_dim, input_shape)
        if not self.embedding.built:
            self.embedding.build()

    def get_build_config(self):
        """None: a loaded layer is built when it is called, because only then it may know its embedding."""

    def call(self, inputs):
        scores = self.embedding(inputs, reverse=True)
        return self.activation(ops.cast(scores, self._output_dtype))

    @property
    def _output_dtype(self):
        return self.embedding.reverse_dtype or self.compute_dtype

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.embedding.input_dim)

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=self._output_dtype)

    def get_config(self):
        embedding = self._embedding_config
        if self.embedding is not None:
            if not isinstance(self.embedding, Shareable):
                keep_shared(self.embedding)
            embedding = keras.saving.serialize_keras_object(self.embedding)
        return {
            **super().get_config(),
            "embedding": embedding,
            "activation": activations.serialize(self.activation),
        }
