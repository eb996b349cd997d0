"""Base class of models that are composed of layers."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import keras

from keras_tying.backend.keras_internals.calls import forget_calls
from keras_tying.backend.keras_internals.layers import inner_layers, layers_to_quantize, leaf_layers
from keras_tying.backend.replicas import build_optimizer
from keras_tying.layers import AdaptiveEmbedding
from keras_tying.layers.shared_place import SharedPlace
from keras_tying.models.replicated import ReplicatedModel
from keras_tying.models.serialization import from_layer_configs, not_yet_called


def check_inputs(inputs: Any, names: Iterable[str]) -> None:
    """Raises ValueError unless the inputs of a call are a dictionary that has all of these names."""
    names = {*names}
    if not isinstance(inputs, Mapping) or not names <= inputs.keys():
        received = sorted(inputs) if isinstance(inputs, Mapping) else type(inputs).__name__
        raise ValueError(f"`inputs` must be a dictionary with {sorted(names)}. Received: {received}")


class ComposedModel(ReplicatedModel):
    """A model that is composed of layers and built when it is made, so that it can be exported and quantized at once.

    The constructor of a subclass takes the items of its `get_config`, in which layers are given by `layer_configs`.

    Attributes:
        input_signature: A `keras.InputSpec` for each input of `call`, in their structure. The batch size is any.
            A subclass without it passes one to `export`.
    """

    input_signature: Any = None

    def export(self, filepath, format="tf_saved_model", verbose=None, input_signature=None, **kwargs):
        """Writes the model for inference from word ids to scores; arguments are those of `keras.Model.export`.

        Args:
            filepath: Path to write.
            format: A format of Keras. Defaults to `"tf_saved_model"`.
            verbose: Whether to print a message.
            input_signature: Default: any batch size, and any length of sequences that have no fixed length.
            **kwargs: Further arguments.
        """
        if input_signature is None and self.input_signature is not None:
            input_signature = [self.input_signature]
        super().export(filepath, format, verbose, input_signature, **kwargs)

    def quantize(self, mode=None, config=None, filters=None, **kwargs):
        """Quantizes embeddings and dense layers; arguments are those of `keras.Model.quantize`.

        Args:
            mode: `"int8"` or `"int4"`; optional with `config`.
            config: Optional `keras.quantizers.QuantizationConfig` of one of these modes.
            filters: Optional regular expressions of the names of layers to quantize, or a function of a layer.
            **kwargs: Further arguments.

        Raises:
            ValueError: If the mode is another one, or an `AdaptiveEmbedding` is not left out by `filters`.
        """
        chosen = config.mode if mode is None and config is not None else mode
        if chosen not in ("int8", "int4"):
            raise ValueError(f"`mode` must be 'int8' or 'int4'. Received: mode={mode!r}, config={config!r}")
        for layer in layers_to_quantize(self, filters):
            if isinstance(layer, AdaptiveEmbedding):  # before another layer is quantized
                try:
                    layer.quantize(chosen)
                except NotImplementedError as error:
                    raise ValueError(str(error)) from None
        super().quantize(mode, config=config, filters=filters, **kwargs)

    def compile_from_config(self, config):
        # Keras does not compile a loaded model that overrides `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))
        build_optimizer(self)

    def _layers_to_freeze(self):
        """The layers that the configuration of the model says are frozen: the same before and after its tying changes.

        Neither are embeddings among them, whose number depends on tying and whose configurations say it, nor their
        further places, which are `SharedPlace` layers in loaded models only.
        """
        kinds = (keras.layers.Embedding, AdaptiveEmbedding, SharedPlace)
        return [each for each in inner_layers(self) if not isinstance(each, kinds)]

    def get_config(self):
        quantized = [
            [place, keras.saving.serialize_keras_object(layer.quantization_config)]
            for place, layer in enumerate(leaf_layers(self))
            if layer.quantization_mode is not None
        ]
        frozen = [
            place
            for place, layer in enumerate(self._layers_to_freeze())
            if not any(each.trainable for each in [layer, *inner_layers(layer)])
        ]
        own = {"quantized": quantized, "frozen": frozen}
        config = {**super().get_config(), **{name: places for name, places in own.items() if places}}
        if type(self).get_config is ComposedModel.get_config:
            _check_arguments(self, config)
        return config

    @classmethod
    def from_config(cls, config, custom_objects=None):
        outside = not_yet_called(config)
        config = from_layer_configs(config, custom_objects)
        quantized, frozen = (config.pop(name, []) for name in ("quantized", "frozen"))
        model = cls(**config)
        for layer in outside:
            forget_calls(layer)
        layers, inner = leaf_layers(model), model._layers_to_freeze()
        for place in frozen:
            inner[place].trainable = False
        for place, quantization in quantized:
            if layers[place].quantization_mode is None:  # a layer that the model makes itself
                layers[place].quantize(config=quantization)
        return model


def _check_arguments(model, config):
    """Raises NotImplementedError if a configuration lacks arguments of the model's constructor, as Keras does."""
    arguments = inspect.signature(type(model)).parameters.values()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [each.name for each in arguments if each.default is each.empty and each.kind not in kinds]
    if lacking := [name for name in needed if name not in config]:
        raise NotImplementedError(
            f"{type(model).__name__} needs a `get_config` to be copied or saved as a whole; its weights can be saved. "
            f"Expected: the arguments of its constructor. Received: a configuration without {lacking}"
        )


def check_unmasked(**layers):
    """Raises ValueError unless layers embed words and make no masks, for models that pad with -1 and read no mask."""
    for name, layer in layers.items():
        mask_zero = getattr(layer, "mask_zero", None)
        if mask_zero or mask_zero is None:
            raise ValueError(
                f"`{name}` must be an embedding layer with mask_zero=False, because the model pads with -1. Received: "
                f"{type(layer).__name__} with mask_zero={mask_zero}"
            )


def policy_of(layer):
    """The dtype policy of a layer before it was quantized, for a model that contains it."""
    return layer.dtype_policy.get_config().get("source_name", layer.dtype_policy)
