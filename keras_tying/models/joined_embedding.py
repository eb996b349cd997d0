"""Models with an `Embedding` and a `Dense` layer of Keras, and equal ones with a `TiedEmbedding` for both."""

import keras

from keras_tying.layers import TiedEmbedding
from keras_tying.models.heads import head_width
from keras_tying.models.moved_state import Change, changed_copy
from keras_tying.models.serialization import described_within, own_layers

PLACES = {("output_embedding", "kernel"): "reverse_embeddings", ("output_embedding", "bias"): "bias"}
"""Variables of the `Dense` layer, and their names in the `TiedEmbedding`."""


def with_one_embedding(model):
    """A copy of a `BackboneModel` in which an untied `TiedEmbedding` is in the place of `Embedding` and `Dense`.

    It computes the same, and the state of the optimizer comes along. Updates can differ a little: on TensorFlow, an
    optimizer that squares gradients, such as Adam, squares those of a `keras.layers.Embedding` before it adds those of
    a word that occurs several times in a batch.

    Raises:
        ValueError: If it is not clear which `Embedding` has the words that the `Dense` layer scores, or a layer has an
            option that a `TiedEmbedding` cannot have for one of its roles.
    """
    embedding, dense = _embedding_of(model), model.output_embedding
    _check_options(embedding, dense)
    identity = keras.saving.serialize_keras_object(TiedEmbedding(1, 1))
    place, gone = _place(embedding, model.backbone), _place(dense, model)

    def configure(config):
        config["head"] = place
        if "frozen" in config:
            config["frozen"] = [each - (each > gone) for each in config["frozen"] if each != gone]
        described = _description(embedding, config["backbone"])
        described.pop("build_config", None)
        described.update({key: identity[key] for key in ("module", "class_name", "registered_name")})
        described["config"] |= _options_of_head(embedding, dense)

    def rename(old):
        return {("embedding", PLACES[place]) if place in PLACES else place: values for place, values in old.items()}

    return changed_copy(model, Change(configure, rename, rename))


def lookups_of(model):
    """The `Embedding` layers of Keras in a model, not those of a subclass, that have the words of its `Dense` head."""
    head = model.output_embedding
    if not isinstance(head, keras.layers.Dense):
        return []
    layers = {id(layer): layer for layer in own_layers(model.backbone)}.values()
    return [each for each in layers if type(each) is keras.layers.Embedding and each.input_dim == head.units]


def _embedding_of(model):
    """The `Embedding` that has the words and the width of the `Dense` head."""
    head, found = model.output_embedding, lookups_of(model)
    if any(layer is head for layer in own_layers(model.backbone)):
        raise ValueError(
            "Copies with other words or tying need a Dense layer that scores words and is not called within the "
            f"backbone. Received: {head.name!r}, which is"
        )
    if len(found) != 1:
        raise ValueError(
            "Copies with other words or tying of a model whose words a Dense layer scores need exactly one "
            f"keras.layers.Embedding with its {head.units:,} words; if there are others, make the model with a "
            f"TiedEmbedding for both roles. Received: {[each.name for each in found] or 'no such layer'}"
        )
    if head_width(found[0]) != head_width(head):
        raise ValueError(
            "Copies with other words or tying need one width of Dense and Embedding: put a Dense layer of the width of "
            f"the embedding before the one that scores words. Received: {head.name!r} of width {head_width(head)} and "
            f"{found[0].name!r} of width {head_width(found[0])}"
        )
    return found[0]


def _place(layer, model):
    return next(place for place, each in enumerate(own_layers(model)) if each is layer)


def _check_options(embedding, dense):
    """Raises ValueError if a layer has an option that a `TiedEmbedding` cannot have for one of its roles."""
    options = {
        f"activity_regularizer of {embedding.name!r}": embedding.activity_regularizer is not None,
        f"kernel_regularizer of {dense.name!r}": dense.kernel_regularizer is not None,
        f"kernel_constraint of {dense.name!r}": dense.kernel_constraint is not None,
        f"LoRA of {embedding.name!r}": embedding.lora_enabled,
        f"LoRA of {dense.name!r}": dense.lora_enabled,
        f"{embedding.name!r} and {dense.name!r}, of which one is frozen": embedding.trainable != dense.trainable,
        f"variables in {embedding.variable_dtype} and {dense.variable_dtype}": (
            embedding.variable_dtype != dense.variable_dtype
        ),
    }
    if found := [option for option, is_set in options.items() if is_set]:
        raise ValueError(
            "In copies with other words or tying one TiedEmbedding is in the place of Embedding and Dense: make the "
            f"model without what it cannot have for one role only. Received: {found[0]}"
        )


def _options_of_head(embedding, dense):
    """Arguments of the `TiedEmbedding` beside those of the `Embedding`."""
    config = dense.get_config()
    return {
        "tie_weights": False,
        "reverse_embeddings_initializer": config["kernel_initializer"],
        "reverse_dtype": None if dense.compute_dtype == embedding.compute_dtype else dense.compute_dtype,
        **{name: config[name] for name in config if name == "use_bias" or name.startswith("bias_")},
    }


def _description(embedding, config):
    """The description of a layer within that of a backbone."""
    wanted = {"name": embedding.name, "input_dim": embedding.input_dim, "output_dim": embedding.output_dim}

    def is_wanted(each):
        return each.get("class_name") == "Embedding" and wanted.items() <= each["config"].items()

    found = described_within(config, is_wanted)
    if len(found) != 1:
        raise ValueError(
            "The configuration of the backbone must describe the keras.layers.Embedding in one place, as that of a "
            f"functional model does: make the model with a TiedEmbedding. Received: {embedding.name!r} in "
            f"{len(found)} places"
        )
    return found[0]
