"""Masks of tensors, casts of variables, and the layers by which symbolic tensors were made."""

import keras
from keras import ops
from keras.src import backend


def mark_padding(layer, vectors, ids):
    """`vectors` that an embedding layer looked up for `ids`, with the mask of its `mask_zero`.

    `set_keras_mask`: the public `compute_mask` does not receive the argument `reverse` of `TiedEmbedding`, and float
    inputs can be ids as well as hidden states.
    """
    if layer.mask_zero:
        backend.set_keras_mask(vectors, ops.not_equal(ids, 0))
    return vectors


def mask_of_ids(layer, inputs, mask):
    """What `compute_mask` of an embedding layer returns: the mask of `mask_zero` for ids, else that of the inputs.

    Layers around it may ask for the mask. Floats are taken for hidden states.
    """
    is_ids = layer.mask_zero and "int" in keras.backend.standardize_dtype(inputs.dtype)
    return ops.not_equal(inputs, 0) if is_ids else mask


def mask_of(tensor):
    """The mask of a tensor, or `None`.

    `get_keras_mask`: the public argument `mask` exists for layers only, not for losses.
    """
    return backend.get_keras_mask(tensor)


def variables_as_they_are():
    """A context in which variables are not cast to the compute dtype.

    `AutocastScope(None)`: a layer with `autocast=False` has its variables cast if it is called outside a model, or in a
    model that has no mixed precision.
    """
    return backend.AutocastScope(None)


def layers_before(tensor):
    """The layers whose outputs a symbolic tensor depends on, the nearest first, with those of nested models.

    `KerasTensor._keras_history`, `Operation._inbound_nodes` and `Node.input_tensors`: a public `keras.Model` of the
    tensor fails where layers of two models have one name.
    """
    layers, seen, nodes = [], set(), [tensor]
    while nodes:
        history = getattr(nodes.pop(0), "_keras_history", None)
        if history is None or history.operation is None or (id(history.operation), history.node_index) in seen:
            continue
        seen.add((id(history.operation), history.node_index))
        layers += _with_nested(history.operation)
        nodes += history.operation._inbound_nodes[history.node_index].input_tensors
    return layers


def _with_nested(operation):
    nested = reversed(operation.layers) if isinstance(operation, keras.Model) else ()
    return [operation, *(layer for each in nested for layer in _with_nested(each))]


def layer_of_output(tensor):
    """The layer that a symbolic tensor is an output of, and the symbolic tensor that it was called on.

    `KerasTensor._keras_history`, `Operation._inbound_nodes` and `Node.input_tensors`, as for `layers_before`.
    """
    history = tensor._keras_history
    return history.operation, history.operation._inbound_nodes[history.node_index].input_tensors[0]


def was_called(layer):
    """Whether a layer was called on a symbolic tensor.

    `Operation._inbound_nodes`: the public `Layer.output` raises an error instead.
    """
    return bool(layer._inbound_nodes)


def forget_calls(layer):
    """Makes the next call of a layer its first one for a functional model, which loads calls by number.

    `Operation._inbound_nodes`: as in `was_called`.
    """
    layer._inbound_nodes.clear()


def forget_losses(model):
    """Removes the losses that the layers of a model added in their last call.

    `Layer._clear_losses`: the public `Layer.losses` returns a copy of the list.
    """
    model._clear_losses()
