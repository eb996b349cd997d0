"""Cross-entropy of words from hidden states and output embeddings, for any arrays of these."""

import keras
from keras import ops

from keras_tying.checks import check_number, check_rate
from keras_tying.losses.fused_cross_entropy import OutputProjection, int32_ids, weighted_losses


def linear_cross_entropy(
    hidden,
    targets,
    embeddings,
    bias=None,
    *,
    sample_weight=None,
    soft_cap=None,
    temperature=1.0,
    label_smoothing=0.0,
    ignore_id=None,
):
    """Cross-entropy of target words, from hidden states and output embeddings, without keeping logits.

    It equals the cross-entropy of the logits `hidden @ embeddings.T + bias` and is differentiable in `hidden`,
    `embeddings` and `bias` on every backend. Logits exist for a chunk of tokens at a time only.

    The gradient of the sum of the results is computed along with them. Backpropagation from a multiple of that sum, for
    example from the mean, only scales it. Any other gradient is computed from logits that are computed again; give the
    weights of tokens as `sample_weight` to avoid that.

    On PyTorch, gradients with `create_graph=True` and those of `torch.func` keep the logits of all tokens.

    Args:
        hidden: Hidden states `[..., H]`.
        targets: Word ids `[...]`. The loss of an id outside `[0, V)` is NaN, and so are the gradients; TensorFlow on
            a CPU stops with an error.
        embeddings: Output embeddings `[V, H]`: the matrix of a `TiedEmbedding`, or the transposed kernel of a `Dense`
            layer.
        bias: Optional bias `[V]`.
        sample_weight: Optional weights `[...]` of the tokens, without gradient.
        soft_cap: Optional positive float `c`: logits `z` become `c * tanh(z / c)`.
        temperature: Positive float by which the logits are divided, after the cap. Defaults to 1.
        label_smoothing: Float in [0, 1), the share of the target that is uniform over all words. Defaults to 0.
        ignore_id: Optional integer. The loss of targets equal to it is 0, without gradient.

    Returns:
        The loss of each token times its weight, float32 `[...]`.

    Raises:
        ValueError: If a number is outside its range, targets are no integers, or the shapes do not fit.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> hidden, targets = np.zeros((2, 5, 8), "float32"), np.zeros((2, 5), "int32")
    >>> embedding = kt.layers.TiedEmbedding(10, 8)
    >>> embedding.build()
    >>> losses = kt.losses.linear_cross_entropy(hidden, targets, embedding.embeddings, embedding.bias)
    >>> tuple(losses.shape), round(float(losses[0, 0]), 4)  # ln 10
    ((2, 5), 2.3026)
    """
    if soft_cap is not None:
        check_number("soft_cap", soft_cap, above=0)
    check_number("temperature", temperature, above=0)
    check_rate("label_smoothing", label_smoothing)
    given = {
        "hidden": hidden,
        "targets": targets,
        "embeddings": embeddings,
        "bias": bias,
        "sample_weight": sample_weight,
    }
    arrays = {name: _tensor(name, array) for name, array in given.items() if array is not None}
    _check_arrays(arrays)
    hidden, targets = arrays["hidden"], int32_ids(arrays["targets"])
    output = OutputProjection(arrays["embeddings"], arrays.get("bias"), soft_cap, temperature, label_smoothing)
    weights = ops.ones(ops.shape(targets), "float32")
    if sample_weight is not None:
        weights = ops.stop_gradient(ops.cast(arrays["sample_weight"], "float32"))
    if ignore_id is not None:
        ignored = ops.equal(targets, ignore_id)
        targets, weights = ops.where(ignored, 0, targets), ops.where(ignored, 0.0, weights)
    flat = ops.reshape(hidden, (-1, hidden.shape[-1])), ops.reshape(targets, (-1,)), ops.reshape(weights, (-1,))
    return ops.reshape(weighted_losses(*flat, output), ops.shape(targets))


def _tensor(name, array):
    if isinstance(array, keras.KerasTensor):
        raise ValueError(f"Call this function in the `call` of a layer. Received: `{name}`, a symbolic tensor")
    return ops.convert_to_tensor(array)


def _check_arrays(arrays):
    """Raises ValueError if the types or shapes of the arguments of `linear_cross_entropy` do not fit."""
    hidden, embeddings, dtypes = (
        arrays["hidden"],
        arrays["embeddings"],
        {name: keras.backend.standardize_dtype(array.dtype) for name, array in arrays.items()},
    )
    if "int" not in dtypes["targets"]:
        raise ValueError(f"`targets` must be word ids, which are integers. Received: dtype {dtypes['targets']}")
    if "float" not in dtypes["hidden"]:
        raise ValueError(f"`hidden` must be floats. Received: dtype {dtypes['hidden']}")
    if len(embeddings.shape) != 2 or not _may_equal(embeddings.shape[1:], hidden.shape[-1:]):
        raise ValueError(
            "`embeddings` must have the shape [V, H]; transpose the kernel of a Dense layer. Received: shape "
            f"{tuple(embeddings.shape)}, for hidden states of shape {tuple(hidden.shape)}"
        )
    tokens = hidden.shape[:-1]
    for name, shape in {"targets": tokens, "sample_weight": tokens, "bias": embeddings.shape[:1]}.items():
        if name in arrays and not _may_equal(arrays[name].shape, shape):
            raise ValueError(
                f"`{name}` must have the shape {tuple(shape)}, for hidden states of shape {tuple(hidden.shape)} and "
                f"embeddings of shape {tuple(embeddings.shape)}. Received: shape {tuple(arrays[name].shape)}"
            )


def _may_equal(shape, expected):
    return len(shape) == len(expected) and all(
        None in pair or pair[0] == pair[1] for pair in zip(shape, expected, strict=True)
    )
