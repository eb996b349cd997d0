"""Any Keras model that scores words, trained without keeping logits."""

import keras

from keras_tying.backend.keras_internals.calls import layer_of_output
from keras_tying.backend.keras_internals.layers import inner_layers
from keras_tying.checks import check_width
from keras_tying.losses import SequenceCrossEntropy
from keras_tying.models.changed_copies import ChangedCopies
from keras_tying.models.composed_model import policy_of
from keras_tying.models.heads import KINDS, REVERSIBLE, head_of, head_width
from keras_tying.models.joined_embedding import lookups_of, with_one_embedding
from keras_tying.models.next_word_model import Example, NextWordModel, arguments_of
from keras_tying.models.serialization import configs_within, own_layers, with_shared_places


@keras.saving.register_keras_serializable("keras_tying")
class BackboneModel(ChangedCopies, NextWordModel):
    """A backbone that computes hidden states, and a head that scores words from them. It trains without keeping logits.

    The backbone is a functional, `Sequential` or subclassed Keras model, also from another library. The head may be one
    of its layers, as in a tied model whose input embedding also scores words. With `SequenceCrossEntropy`,
    `AugmentedLoss` or `SampledCrossEntropy`, `fit` and `evaluate` compute the loss from hidden states, and logits exist
    for a chunk of tokens at a time only. Other losses get all logits, and so do metrics that are passed to `compile`.
    Calls and `predict` return logits. `loss="auto"` is the mean over tokens, as usual in Keras.

    `without_logits(model)` makes a `BackboneModel` from a model that ends with its head.

    Methods such as `resized` return changed copies. All of them work if the head is a `TiedEmbedding` or
    `ReversibleEmbedding` in a functional or `Sequential` backbone. If the head is a `Dense` layer, `tied_copy`,
    `resized` and `with_rows` work too, and in the copy a `TiedEmbedding` is in the place of `Dense` and of the only
    `keras.layers.Embedding` with as many words, which must have the same width. A backbone whose configuration has a
    `vocabulary_size`, as in KerasHub, has `resized`, `with_rows` and `with_precision`. `with_precision` takes other
    heads too.

    Args:
        backbone: A built `keras.Model`, from its inputs to hidden states `[..., H]`.
        head: The layer that scores words: a `TiedEmbedding`, a `ReversibleEmbedding` of Keras, an
            `AdaptiveEmbedding`, a `TiedDense`, or a `Dense` layer, without an activation. A layer of the backbone can
            be given by its name (saved models give its place). `AugmentedLoss` needs one that embeds words as well,
            and is no `AdaptiveEmbedding`.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: The inputs of the backbone.
        targets: Optional word ids `[...]`.
        sample_weight: Optional weights that broadcast to the targets.
        training: Boolean, whether dropout is active. On PyTorch `loss` has a gradient only with `True`.

    Output shape:
        Logits `[..., V]`; with targets `Losses`.

    Raises:
        ValueError: If the backbone is not built, has several outputs, or has no single layer of that name; if the head
            cannot score words, has another width or an activation, or must be built first.

    Example:

    >>> import keras, numpy as np, keras_tying as kt
    >>> words = keras.Input((None,), dtype="int32")
    >>> embedding = keras.layers.ReversibleEmbedding(100, 8, name="words")
    >>> backbone = keras.Model(words, keras.layers.LSTM(8, return_sequences=True)(embedding(words)))
    >>> model = kt.models.BackboneModel(backbone, head="words")
    >>> model.compile("adam")
    >>> batch = np.array([[3, 14, 15], [9, 2, 6]])
    >>> history = model.fit(batch, batch, verbose=0)
    >>> tuple(model(batch).shape)
    (2, 3, 100)
    """

    def __init__(self, backbone, head, **kwargs):
        if not isinstance(backbone, keras.Model):
            raise ValueError(f"`backbone` must be a keras.Model. Received: {type(backbone).__name__}")
        if not backbone.built:
            raise ValueError(
                f"`backbone` must be built: call it on a batch first. Received: {backbone.name!r}, which is not"
            )
        super().__init__(**{"dtype": backbone.dtype_policy, **kwargs})
        self.backbone = backbone
        self.output_embedding = head_of(_layer_of(backbone, head) if isinstance(head, (str, int)) else head)
        self._build_head()
        self.built = True

    def _build_head(self):
        """Builds the head for the hidden states of the backbone, or checks that it fits them."""
        head, outputs = self.output_embedding, _symbolic(self.backbone, "outputs")
        if outputs is None:
            if not head.built:
                raise ValueError(
                    "`head` must be built, because the width of a subclassed backbone is not known: call "
                    f"head.build((None, width)) first. Received: {head.name!r}, which is not"
                )
            return
        if len(outputs) != 1:
            raise ValueError(f"`backbone` must have one output, the hidden states. Received: {len(outputs)} outputs")
        if not head.built:
            head.build(outputs[0].shape)
        elif head_width(head) != outputs[0].shape[-1]:
            raise ValueError(
                f"`head` must take hidden states of the width of the backbone, {outputs[0].shape[-1]}. Received: "
                f"{head.name!r}, of width {head_width(head)}"
            )

    @property
    def embedding(self):
        """The head, if it embeds words as well."""
        return self.output_embedding if isinstance(self.output_embedding, REVERSIBLE) else None

    def _with_embeddings(self):
        return with_one_embedding(self) if isinstance(self.output_embedding, keras.layers.Dense) else self

    def embedding_arguments(self):
        head, lookups = self.output_embedding, lookups_of(self)
        return {"embedding": lookups[0], "output_embedding": head} if len(lookups) == 1 else {"embedding": head}

    def embedding_configs(self, config):
        head, backbone = self.output_embedding, self.backbone
        layers = [backbone, *own_layers(backbone)]
        if not any(layer is head for layer in layers):
            raise ValueError(
                "Copies with other words, tying or LoRA need a head that embeds the words of the backbone too. "
                f"Received: {head.name!r}, which is not among the layers of {backbone.name!r}"
            )
        containers = [layer for layer in layers if any(each is head for each in inner_layers(layer))]
        for layer in [head, *sorted(containers, key=lambda each: len(inner_layers(each)))]:
            size = "input_dim" if layer is head else "vocabulary_size"  # as in KerasHub
            if found := _configs_with(config["backbone"], layer, {size: head.input_dim}):
                if sum(_name_of(each) == _name_of(layer) for each in layers) > 1:
                    raise ValueError(
                        "The layer that scores words must be the only one of its name and class. Rename it or the "
                        f"other. Received: {' and '.join(_name_of(layer))}, of several layers"
                    )
                return {"embedding": found}
        raise ValueError(
            "The configuration of the backbone must have the number of words, as `input_dim` of the layer that scores "
            "them or as `vocabulary_size` of one around it: make a new model of the size that you want. Received: "
            f"{type(backbone).__name__} {backbone.name!r}, without that of {head.name!r}"
        )

    def _layers_to_freeze(self):
        """Embeddings too, whose configurations that of the backbone need not have."""
        return own_layers(self)

    @property
    def auto_loss(self):
        return SequenceCrossEntropy(reduction="mean")

    @property
    def input_signature(self):
        """The inputs of the backbone, with any batch size."""
        inputs = _symbolic(self.backbone, "input")
        if inputs is None:
            raise ValueError(
                "Give `input_signature`, a list of keras.InputSpec: the inputs of a subclassed backbone are not "
                f"known. Received: {self.backbone.name!r} without it"
            )
        return keras.tree.map_structure(
            lambda each: keras.InputSpec(shape=(None, *each.shape[1:]), dtype=each.dtype), inputs
        )

    def call(self, inputs, targets=None, sample_weight=None, training=None):
        if isinstance(inputs, Example):
            inputs, targets, sample_weight = inputs
        hidden = self.backbone(inputs, **arguments_of(self.backbone, training=training))
        check_width(head_width(self.output_embedding), hidden.shape, unknown=True)
        return self.outputs_of(hidden, targets, sample_weight, training)

    def get_config(self):
        head, backbone = self.output_embedding, self.backbone
        places = [place for place, layer in enumerate(own_layers(backbone)) if layer is head]
        arguments = {"backbone": backbone, "head": places[0] if places else head}

        def configs():
            return {name: keras.saving.serialize_keras_object(each) for name, each in arguments.items()}

        return {**super().get_config(), **with_shared_places(configs, arguments)}


def without_logits(model):
    """A model with the layers of another one, which trains without keeping logits.

    Both models have the same variables: what trains one, trains the other. Padding that has a mask is left out of the
    loss. With a `ReversibleEmbedding` of Keras, whose own scores have no mask, this needs a loss of this library, as
    without the argument `loss` of `compile`: other losses take its logits and count the padding.

    Args:
        model: A functional or built `Sequential` model with one output, which a `TiedEmbedding`,
            `ReversibleEmbedding` or `AdaptiveEmbedding` (called with `reverse=True`), a `TiedDense` or a `Dense` layer
            computes from hidden states.

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
    >>> trained.compile("adam")
    >>> trained.output_embedding is model.layers[-1]
    True
    """
    outputs = _symbolic(model, "outputs") or []
    if len(outputs) != 1:
        raise ValueError(
            "`model` must be a functional or built Sequential model with one output. For another model, make a "
            f"BackboneModel(backbone, head). Received: {type(model).__name__} {model.name!r}"
        )
    layer, hidden = layer_of_output(outputs[0])
    head = head_of(layer)
    if "float" not in hidden.dtype:
        raise ValueError(
            f"`model` must end with scores of words: call {head.name!r} with reverse=True. Received: a model that ends "
            "with a lookup"
        )
    backbone = keras.Model(_symbolic(model, "input"), hidden, name=f"{model.name}_backbone")
    return BackboneModel(backbone, head, name=model.name, dtype=policy_of(model))


def _symbolic(model, name):
    """Symbolic `input` or `outputs` of a functional or built `Sequential` model; `None` of another one."""
    if isinstance(model, keras.Sequential):
        return {"input": (model.inputs or [None])[0], "outputs": model.outputs}[name] if model.built else None
    return getattr(model, name) if isinstance(getattr(model, "outputs", None), list) else None


def _layer_of(backbone, head):
    """The layer of a backbone that has a name, or a place among its layers."""
    if isinstance(head, int):
        return own_layers(backbone)[head]
    layers = {id(layer): layer for layer in own_layers(backbone)}.values()
    named = [layer for layer in layers if layer.name == head]
    if len(named) != 1:
        heads = ", ".join(repr(layer.name) for layer in layers if isinstance(layer, KINDS))
        raise ValueError(
            f"`head` must be the name of one layer of the backbone. Received: {head!r}, of which {backbone.name!r} has "
            f"{len(named)}. Its layers that can score words: {heads or 'none'}"
        )
    return named[0]


def _name_of(layer):
    return type(layer).__name__, layer.name


def _configs_with(config, layer, size):
    """The configurations of a layer, within that of a backbone, that have this size."""

    def is_wanted(each):  # a `SharedPlace` has the class and name of its embedding, but no size
        own = each["config"]
        return (each.get("class_name"), own.get("name", layer.name)) == _name_of(layer) and size.items() <= own.items()

    return configs_within(config, is_wanted)
