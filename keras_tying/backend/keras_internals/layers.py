"""The layers inside a model, the loop and the dropout masks of the LSTM layer of Keras, and its seed generators."""

import keras
from keras import ops
from keras.src.models.functional import Functional
from keras.src.quantizers.utils import should_quantize_layer


def leaf_layers(model):
    """The layers of a model that contain no layers, always in the same order: those that `Model.quantize` visits.

    `Layer._flatten_layers`: the public `Model.layers` are the outermost layers, without layers in lists.
    """
    return [layer for layer in inner_layers(model, include_self=True) if not inner_layers(layer)]


def inner_layers(model, include_self=False):
    """The layers of a model and those that they contain, in nested models and lists too, always in the same order.

    Inputs of functional models are left out: models that share one need not do so in a copy.

    `Layer._flatten_layers`: as in `leaf_layers`.
    """
    return _without_inputs(model._flatten_layers(include_self=include_self))


def described_layers(layer):
    """The layers of a functional or `Sequential` model that its configuration describes, without inputs; else none.

    `Functional`: Keras does not export the class of functional models.
    """
    kinds = (Functional.get_config, keras.Sequential.get_config)
    return _without_inputs(layer.layers) if type(layer).get_config in kinds else []


def _without_inputs(layers):
    return [layer for layer in layers if not isinstance(layer, keras.layers.InputLayer)]


def layers_to_quantize(model, filters):
    """The layers that `Model.quantize` quantizes with `filters`.

    `should_quantize_layer`: the public `Model.quantize` changes layers before it reaches one that cannot be quantized.
    """
    return [layer for layer in leaf_layers(model) if should_quantize_layer(layer, filters)]


class LSTMLoop(keras.layers.LSTM):
    """The LSTM layer of Keras with a replaceable loop, and dropout masks drawn only in training.

    `LSTM.inner_loop` and `RNN._maybe_config_dropout_masks`: `call` of Keras handles states, casts, masks and outputs
    around the loop.
    """

    def run_window(self, sequences, initial_state, mask, training):
        """The last output `[B, H]`, the outputs `[B, T, H]` and the last states of inputs `[B, T, I]`."""
        raise NotImplementedError

    def keras_loop(self, sequences, initial_state, mask, training):
        """As `run_window`, by the loop of Keras."""
        return super().inner_loop(sequences, initial_state, mask, training=training)

    def inner_loop(self, sequences, initial_state, mask, training=False):
        return self.run_window(sequences, initial_state, mask, training)

    def _maybe_config_dropout_masks(self, *_):
        """Draws no masks: Keras draws them for inference as well. `run_window` has the argument `training`."""


def draw_masks(cell, inputs, hidden, shared):
    """Draws the dropout masks of a window in at least float32, see `keras_tying.layers.dropout`.

    `DropoutRNNCell._dropout_mask`, `_recurrent_dropout_mask`: the loop of Keras reads the masks there, and the public
    methods draw them in the type of their argument.

    Args:
        cell: The cell of an LSTM layer.
        inputs: Inputs of a step `[B, I]`.
        hidden: Hidden states `[B, H]`.
        shared: Boolean, whether all gates have one mask.

    Returns:
        Two lists of masks, of inputs and of hidden states: none, one, or one per gate.
    """
    found = []
    for draw, place, like in (
        (cell.get_dropout_mask, "_dropout_mask", inputs),
        (cell.get_recurrent_dropout_mask, "_recurrent_dropout_mask", hidden),
    ):
        drawn = draw(ops.cast(like, keras.backend.result_type(like.dtype, "float32")))
        masks = [] if drawn is None else drawn if isinstance(drawn, list) else [drawn]
        masks = [ops.cast(mask, like.dtype) for mask in masks]
        if shared:
            masks = masks[:1] * len(masks)
        if drawn is not None:
            setattr(cell, place, masks if isinstance(drawn, list) else masks[0])
        found.append(masks[:1] if shared else masks)
    return found


def replace_seed_generator(layer, kind):
    """Replaces the seed generator of a Keras layer by one of another class with the same state.

    `Layer._tracker`: a layer tracks the variables of every seed generator it was given, and a built layer accepts no
    new one. `SeedGenerator`: its whole state is in its attributes.

    Args:
        layer: A layer with a `seed_generator`.
        kind: A subclass of `keras.random.SeedGenerator`.
    """
    stock, tracker = layer.seed_generator, layer._tracker
    generator = kind.__new__(kind)
    vars(generator).update(vars(stock))
    was_locked = tracker.locked
    tracker.unlock()
    tracker.untrack(stock)
    layer.seed_generator = generator
    if was_locked:
        tracker.lock()


class ResumableSeedGenerator(keras.random.SeedGenerator):
    """A seed generator whose state determines dropout masks on PyTorch as well.

    `SeedGenerator._initial_seed`: where it is `None`, the dropout of Keras on PyTorch draws from the global generator
    of PyTorch, whose state is in no checkpoint.
    """

    @property
    def _initial_seed(self):
        return self.__dict__["_initial_seed"] or 0

    @_initial_seed.setter
    def _initial_seed(self, seed):
        self.__dict__["_initial_seed"] = seed

    def get_config(self):
        return {**super().get_config(), "seed": self.__dict__["_initial_seed"]}
