"""LSTM layer with a faster recurrence."""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_tying.backend import dispatch
from keras_tying.backend.keras_internals.layers import LSTMLoop, draw_masks, replace_seed_generator
from keras_tying.backend.replicas import ReplicaSeedGenerator
from keras_tying.checks import check_rate, check_steps
from keras_tying.layers.dropout import dropout


class Masks(NamedTuple):
    """Dropout masks of a window, scaled so that means do not change.

    Attributes:
        inputs: Of inputs `[B, I]`: none, one, or one per gate.
        hidden: Of hidden states `[B, H]`: none, one, or one per gate.
        kernel: Of the recurrent kernel `[H, 4H]`, or `None`.
    """

    inputs: list
    hidden: list
    kernel: Any = None


@dispatch
def lstm_loop(layer, sequences, initial_state, mask, training, masks):
    """Runs the recurrence of an LSTM layer: the loop of Keras, or a scan for what Keras does not have.

    Args:
        layer: The `LSTM`.
        sequences: Inputs `[B, T, I]`.
        initial_state: Hidden and cell state `[B, H]`.
        mask: Optional booleans `[B, T]`.
        training: Boolean, whether dropout is active.
        masks: Dropout `Masks`.

    Returns:
        The last output `[B, H]`, the outputs `[B, T, H]`, and the last hidden and cell state.
    """
    if layer.cap_input_gate or masks.kernel is not None or not has_steps_of_lstm(layer):
        return scan_loop(layer, sequences, initial_state, mask, masks)
    return layer.keras_loop(sequences, initial_state, mask, training)


def has_steps_of_lstm(layer):
    """Whether the steps of a layer are those of an LSTM: those of a subclass may be others."""
    return all(getattr(type(layer), name) is getattr(LSTM, name) for name in STEPS)


def scan_loop(layer, sequences, initial_state, mask, masks):
    """Runs the recurrence of an LSTM layer with `scan_time`. For arguments and results see `lstm_loop`."""
    mask = mask[0] if isinstance(mask, (list, tuple)) else mask
    weights = [w if w is None else ops.cast(w, sequences.dtype) for w in layer.recurrence_weights(masks)]
    prepared = layer.prepare(_time_major(sequences, layer.go_backwards), weights, masks)
    live = None
    if mask is not None:
        live = _time_major(ops.cast(ops.expand_dims(mask, -1), sequences.dtype), layer.go_backwards)
    states, cell = recurrence(layer, prepared, initial_state, weights, masks, live)
    states = ops.swapaxes(states, 0, 1)
    outputs = states if mask is None else masked_outputs(layer, states, mask)
    return outputs[:, -1], outputs, [states[:, -1], cell]


@dispatch
def recurrence(layer, prepared, states, weights, masks, live):
    """Runs the recurrence of an LSTM layer over prepared inputs.

    Args:
        layer: The `LSTM`.
        prepared: What `layer.prepare` has computed, `[T, B, ...]`.
        states: Hidden and cell state `[B, H]`.
        weights: What `layer.recurrence_weights` has given.
        masks: Dropout `Masks`.
        live: 1 at steps that count and else 0, `[T, B, 1]`, or `None`.

    Returns:
        Hidden states after each step `[T, B, H]`, and the last cell state `[B, H]`.
    """

    def step(states, inputs):
        hidden, cell = states
        prepared, *live = inputs
        new_hidden, new_cell = layer.next_states(layer.gates(prepared, hidden, weights, masks), cell)
        if live:
            new_cell = ops.where(live[0] > 0, new_cell, cell)
            new_hidden = ops.where(live[0] > 0, new_hidden, hidden)
        return new_hidden, new_cell

    (_, cell), states = scan_time(step, tuple(states), [prepared] if live is None else [prepared, live])
    return states, cell


@dispatch
def scan_time(step, states, sequences):
    """Applies `step` to each time step.

    Args:
        step: Takes a tuple of states and the items of one time step; returns the new states.
        states: Initial states, a tuple.
        sequences: List of tensors `[T, ...]`.

    Returns:
        The last states, and the first state after each step `[T, ...]`.
    """
    last, (first, *_) = ops.scan(lambda states, inputs: (step(states, inputs),) * 2, states, tuple(sequences))
    return last, first


def product(values, kernel, masks=()):
    """Products `[..., O]` of values `[..., I]` that have no dropout mask, one mask, or one mask per gate."""
    parts = ops.split(kernel, len(masks), axis=-1) if len(masks) > 1 else [kernel]
    dropped = [values * mask for mask in masks] or [values]
    # As matrices: JAX transposes and copies longer shapes for the gradient of the kernel.
    flat = [ops.reshape(value, (-1, value.shape[-1])) for value in dropped]
    products = [ops.matmul(value, part) for value, part in zip(flat, parts, strict=True)]
    whole = products[0] if len(products) == 1 else ops.concatenate(products, axis=-1)
    return ops.reshape(whole, (*ops.shape(values)[:-1], kernel.shape[-1]))


def _time_major(tensor, go_backwards):
    tensor = ops.swapaxes(tensor, 0, 1)
    return ops.flip(tensor, 0) if go_backwards else tensor


def masked_outputs(layer, states, mask):
    """Outputs at masked steps as in the Keras layer: the previous output, or zero."""
    mask = ops.flip(mask, 1) if layer.go_backwards else ops.convert_to_tensor(mask)
    if not layer.zero_output_for_mask:
        mask = ops.cumsum(ops.cast(mask, "int32"), axis=1) > 0
    return ops.where(ops.expand_dims(mask, -1), states, ops.zeros((), states.dtype))


STEPS = ("recurrence_weights", "prepare", "gates", "next_states")
"""Methods of a layer that a subclass can change."""


@keras.saving.register_keras_serializable("keras_tying")
class LSTM(LSTMLoop):
    """`keras.layers.LSTM`, faster to train on a CPU.

    The layer has the arguments, weights and results of the Keras layer, and weights can be copied between the two.
    (On JAX the results differ at masked steps at the start of a row with an initial state: Keras repeats the state as
    output, this layer gives zero, as both do on the other backends.) On TensorFlow and a CPU the recurrence is faster.
    The input products of all steps are computed at once, before the recurrence. The gradient is written out: the
    backward loop computes the gradients of the gates, and the gradient of the recurrent matrix is one product after
    the loop.

    On JAX the gradient of the recurrent matrix is one product after the loop too. The loop of Keras runs on PyTorch, on
    a GPU (cuDNN, unless there is recurrent dropout; on JAX in float32 only) and with `unroll`; on TensorFlow also with
    other activations than `tanh` and `sigmoid`.

    With gates `i, f, g, o` and `z_t = x_t W + h_{t-1} R + b` split in four::

        c_t = sigmoid(z_f) * c_{t-1} + sigmoid(z_i) * tanh(z_g)
        h_t = sigmoid(z_o) * tanh(c_t)

    The masks of `dropout` (on `x_t`) and `recurrent_dropout` (on `h_{t-1}`) are the same for all steps of a window.
    With recurrent dropout, Keras draws one mask per gate (Gal and Ghahramani). With `shared_dropout_masks` the
    gates share one mask, and with `drop_outputs` the output is `h_t` times that mask (Inan et al.). The returned
    states are not masked.

    With `cap_input_gate` the input gate is at most what the forget gate lets go, so that cells stay in [-1, 1]
    (Melis et al.)::

        c_t = sigmoid(z_f) * c_{t-1} + min(sigmoid(z_i), 1 - sigmoid(z_f)) * tanh(z_g)

    `weight_drop` is dropout of the elements of the recurrent matrix `R`, with one mask for the rows and steps of a
    window (Merity et al.). Both options run on any backend; cuDNN has neither.

    Args:
        units: Integer `H`.
        shared_dropout_masks: Boolean, whether the four gates use the same masks. Defaults to `False`.
        drop_outputs: Boolean, whether the outputs are multiplied by the recurrent mask; needs
            `shared_dropout_masks`. Defaults to `False`.
        cap_input_gate: Boolean, whether the input gate is at most 1 minus the forget gate. Defaults to `False`.
        weight_drop: Float in [0, 1), the rate of dropped elements of the recurrent matrix. Defaults to 0.
        **kwargs: The other arguments of `keras.layers.LSTM`.

    Call arguments:
        sequences: Floats `[B, T, I]`.
        initial_state: Optional list of the hidden and the cell state, `[B, H]` each. Default: zeros.
        mask: Optional booleans `[B, T]`. At steps that are `False` the states do not change, and the output is the
            previous one, or zero with `zero_output_for_mask`.
        training: Boolean, whether dropout is active. Defaults to `False`.

    Output shape:
        `[B, T, H]` with `return_sequences`, else `[B, H]`; with `return_state` also the last hidden and cell state,
        `[B, H]` each.

    Raises:
        ValueError: If `units` is not positive, `weight_drop` is outside its range, or `drop_outputs` is given without
            `shared_dropout_masks`; when called, if the sequences have no steps; else as for `keras.layers.LSTM`.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> layer = kt.layers.LSTM(8, return_sequences=True, return_state=True)
    >>> sequence, hidden, cell = layer(np.zeros((2, 5, 3), "float32"))
    >>> tuple(sequence.shape), tuple(hidden.shape)
    ((2, 5, 8), (2, 8))

    References:
        Hochreiter and Schmidhuber, Long Short-Term Memory, 1997. Gal and Ghahramani, A Theoretically
        Grounded Application of Dropout in Recurrent Neural Networks, 2016. Inan, Khosravi and Socher,
        Tying Word Vectors and Word Classifiers, appendix A. Melis, Dyer and Blunsom, On the State of the Art of
        Evaluation in Neural Language Models, 2018. Merity, Keskar and Socher, Regularizing and Optimizing LSTM
        Language Models, 2018, section 2.
    """

    def __init__(
        self,
        units,
        *args,
        shared_dropout_masks=False,
        drop_outputs=False,
        cap_input_gate=False,
        weight_drop=0.0,
        **kwargs,
    ):
        super().__init__(units, *args, **kwargs)
        for name in ("dropout", "recurrent_dropout"):  # Keras replaces rates outside of [0, 1] by the nearest in it
            check_rate(name, kwargs.get(name, 0.0))
        if drop_outputs and not shared_dropout_masks:
            raise ValueError(
                "`drop_outputs=True` needs `shared_dropout_masks=True`. "
                f"Received: drop_outputs={drop_outputs}, shared_dropout_masks={shared_dropout_masks}"
            )
        self.shared_dropout_masks = shared_dropout_masks
        check_rate("weight_drop", weight_drop)
        self.drop_outputs = drop_outputs
        self.cap_input_gate = cap_input_gate
        self.weight_drop = weight_drop
        replace_seed_generator(self.cell, ReplicaSeedGenerator)

    def call(self, sequences, initial_state=None, mask=None, training=False):
        check_steps("sequences", sequences)
        return super().call(sequences, initial_state, mask, training)

    def run_window(self, sequences, initial_state, mask, training):
        masks = self._masks(sequences, initial_state[0]) if training else Masks([], [])
        last, outputs, states = self._loop(sequences, initial_state, mask, training, masks)
        if self.drop_outputs and masks.hidden:
            kept = masks.hidden[0]
            last, outputs = last * kept, outputs * ops.expand_dims(kept, 1)
        return last, outputs, states

    def _loop(self, *arguments):
        return lstm_loop(self, *arguments)

    def recurrence_weights(self, masks):
        """Kernel `[I, 4H]`, recurrent kernel `[H, 4H]` with its dropout mask, and bias `[4H]` or `None`."""
        recurrent_kernel = self.cell.recurrent_kernel
        if masks.kernel is not None:
            recurrent_kernel = recurrent_kernel * ops.cast(masks.kernel, recurrent_kernel.dtype)
        return self.cell.kernel, recurrent_kernel, self.cell.bias

    def prepare(self, sequences, weights, masks):
        """What is computed for all steps `[T, B, I]` at once: the inputs' part of the gates, `[T, B, 4H]`."""
        kernel, _, bias = weights
        projected = product(sequences, kernel, masks.inputs)
        return projected if bias is None else projected + bias

    def gates(self, prepared, hidden, weights, masks, product=product):
        """The gates before their nonlinearities `[B, 4H]`, from a step of `prepare` and the last hidden state.

        Args:
            prepared: A step of what `prepare` has computed.
            hidden: The last hidden state `[B, H]`.
            weights: What `recurrence_weights` has given.
            masks: Dropout `Masks`.
            product: Function with the arguments and results of `product`. All products with matrices of `weights`
                are computed by it.

        Returns:
            The gates `[B, 4H]`.
        """
        return prepared + product(hidden, weights[1], masks.hidden)

    def next_states(self, gates, cell):
        """The next hidden and cell state `[B, H]` from the gates before their nonlinearities `[B, 4H]`."""
        i, f, g, o = ops.split(gates, 4, axis=-1)
        i, f, o = self.recurrent_activation(i), self.recurrent_activation(f), self.recurrent_activation(o)
        if self.cap_input_gate:
            i = ops.minimum(i, 1 - f)
        cell = f * cell + i * self.activation(g)
        return o * self.activation(cell), cell

    def _masks(self, sequences, hidden):
        """Dropout `Masks` of a window."""
        inputs, hidden = draw_masks(self.cell, sequences[:, 0], hidden, self.shared_dropout_masks)
        return Masks(inputs, hidden, self._kernel_mask())

    def _kernel_mask(self):
        """The dropout mask of the recurrent kernel `[H, 4H]` for a window, or `None`."""
        if not self.weight_drop:
            return None
        ones = ops.ones((self.units, 4 * self.units), self.compute_dtype)
        return dropout(ones, self.weight_drop, seed=self.cell.seed_generator)

    def get_config(self):
        return {
            **super().get_config(),
            "shared_dropout_masks": self.shared_dropout_masks,
            "drop_outputs": self.drop_outputs,
            "cap_input_gate": self.cap_input_gate,
            "weight_drop": self.weight_drop,
        }
