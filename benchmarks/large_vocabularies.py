"""Contenders for large vocabularies, on every backend: the output layer alone, and a causal Transformer.

The output layer of the largest vocabularies is measured with an adaptive softmax too. Its targets have the frequencies
of words, because its work depends on them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.output_layers import output_arrays, output_pytorch, tensorflow_gradients
from benchmarks.work import Size, Work, fit_seconds, repeated, tokens

BACKENDS = ("tensorflow", "jax", "torch")
HEADS, BLOCKS = 4, 2
CUTOFFS, FACTOR = (20_000, 60_000), 4


def output_layer(size: Size, *, backend: str, loss: Callable) -> Work:
    """Value and gradients of a mean loss of hidden states and embeddings, compiled where the backend compiles."""
    return GRADIENTS[backend](loss, size)


def without_logits(hidden, targets, embeddings):
    import keras

    from keras_tying.losses import linear_cross_entropy

    return keras.ops.mean(linear_cross_entropy(hidden, targets, embeddings))


def with_logits(hidden, targets, embeddings):
    import keras

    logits = keras.ops.matmul(hidden, keras.ops.transpose(embeddings))
    return keras.ops.mean(keras.losses.sparse_categorical_crossentropy(targets, logits, from_logits=True))


def _jax_gradients(loss, size: Size) -> Work:
    import jax

    hidden, embeddings, targets = map(jax.numpy.asarray, output_arrays(size))
    gradients = jax.jit(jax.value_and_grad(loss, (0, 2)))
    return repeated(lambda: jax.block_until_ready(gradients(hidden, targets, embeddings)))


def _torch_gradients(loss, size: Size) -> Work:
    import torch

    hidden, embeddings, targets = map(torch.from_numpy, output_arrays(size))
    for tensor in (hidden, embeddings):
        tensor.requires_grad_()
    return repeated(lambda: torch.autograd.grad(loss(hidden, targets.long(), embeddings), [hidden, embeddings]))


GRADIENTS = {"tensorflow": tensorflow_gradients, "jax": _jax_gradients, "torch": _torch_gradients}


def adaptive_layer(size: Size, *, backend: str, kind: str) -> Work:
    """Value and gradients of the mean loss of random hidden states, by a layer and a loss of this library.

    Args:
        size: What to compute.
        backend: The backend of Keras.
        kind: `"adaptive"`, or with one matrix `"all words"` or `"sampled"`.
    """
    import keras

    import keras_tying as kt
    from keras_tying.models.heads import head_projection

    if kind == "adaptive":
        embedding = kt.layers.AdaptiveEmbedding(
            size.vocabulary, size.units, cutoffs=cutoffs_of(size.vocabulary), factor=min(FACTOR, size.units - 1)
        )
    else:
        embedding = kt.layers.TiedEmbedding(size.vocabulary, size.units)
    embedding.build()
    kinds = {"sampled": kt.losses.SampledCrossEntropy}
    loss = kinds.get(kind, kt.losses.SequenceCrossEntropy)(reduction="mean")
    hidden, targets = output_arrays(size)[0][None], frequent_targets(size)[None]
    seed = keras.random.SeedGenerator(0)

    def value(hidden: Any, targets: Any) -> Any:
        return loss.from_hidden(targets, hidden, head_projection(embedding), seed=seed)[0]

    return VARIABLE_GRADIENTS[backend](value, embedding.trainable_variables, hidden, targets)


def _tensorflow_variable_gradients(loss, variables, hidden, targets) -> Work:
    import tensorflow as tf

    hidden, targets = tf.constant(hidden), tf.constant(targets)
    sources = [hidden, *(each.value for each in variables)]

    @tf.function
    def gradients():
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            value = loss(hidden, targets)
        return value, tape.gradient(value, sources)

    return repeated(lambda: gradients()[0].numpy())


def _jax_variable_gradients(loss, variables, hidden, targets) -> Work:
    import jax
    import keras

    def value(values, hidden):
        with keras.StatelessScope(list(zip(variables, values, strict=True))):
            return loss(hidden, targets)

    gradients = jax.jit(jax.value_and_grad(value, (0, 1)))
    values = [each.value for each in variables]
    return repeated(lambda: jax.block_until_ready(gradients(values, hidden)))


def _torch_variable_gradients(loss, variables, hidden, targets) -> Work:
    import torch

    hidden, targets = torch.from_numpy(hidden).requires_grad_(), torch.from_numpy(targets)
    sources = [hidden, *(each.value for each in variables)]
    return repeated(lambda: torch.autograd.grad(loss(hidden, targets), sources, allow_unused=True))


VARIABLE_GRADIENTS = {
    "tensorflow": _tensorflow_variable_gradients,
    "jax": _jax_variable_gradients,
    "torch": _torch_variable_gradients,
}


def adaptive_pytorch(size: Size) -> Work:
    """The layer of PyTorch with an adaptive softmax."""
    import torch

    layer = torch.nn.AdaptiveLogSoftmaxWithLoss(
        size.units,
        size.vocabulary,
        [*cutoffs_of(size.vocabulary)],
        div_value=min(FACTOR, size.units - 1),
        head_bias=True,
    )
    hidden, targets = torch.from_numpy(output_arrays(size)[0]), torch.from_numpy(frequent_targets(size)).long()
    sources = [hidden.requires_grad_(), *layer.parameters()]
    return repeated(  # a batch may have no word of the last band
        lambda: torch.autograd.grad(layer(hidden, targets).loss, sources, allow_unused=True)
    )


def cutoffs_of(vocabulary: int) -> tuple[int, ...]:
    """`CUTOFFS`, or for the vocabulary with which a process warms up one of its own."""
    return CUTOFFS if vocabulary > CUTOFFS[-1] else (vocabulary // 2,)


def frequent_targets(size: Size) -> np.ndarray:
    """Random words, of which word `k` has the probability `log((k + 2) / (k + 1)) / log(V + 1)`."""
    uniform = np.random.default_rng(0).random(size.words)
    return np.exp(uniform * np.log(size.vocabulary + 1)).astype(np.int32) - 1


def transformer(size: Size, *, logits: bool) -> Work:
    """Training of a causal Transformer of Keras layers with one tied embedding, with and without its logits."""
    import keras

    import keras_tying as kt

    keras.utils.set_random_seed(0)
    embedding = keras.layers.ReversibleEmbedding(size.vocabulary, size.units)
    inputs = keras.Input((size.sequence_length,), dtype="int32")
    hidden = embedding(inputs)
    for _ in range(BLOCKS):
        hidden = _block(hidden, size.units)
    model = keras.Model(inputs, embedding(keras.layers.LayerNormalization()(hidden), reverse=True))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if not logits:
        model, loss = kt.models.without_logits(model), kt.losses.SequenceCrossEntropy(reduction="mean")
    model.compile(keras.optimizers.SGD(0.1), loss)
    return lambda count: fit_seconds(model, *tokens(size, count), batch_size=size.batch_size)


def _block(hidden, units: int):
    """Causal self-attention and a feed-forward network, each with normalization and a residual connection."""
    from keras import layers

    heads = min(HEADS, units)
    normalized = layers.LayerNormalization()(hidden)
    attention = layers.MultiHeadAttention(heads, units // heads)
    hidden = layers.Add()([hidden, attention(normalized, normalized, use_causal_mask=True)])
    expanded = layers.Dense(4 * units, activation="gelu")(layers.LayerNormalization()(hidden))
    return layers.Add()([hidden, layers.Dense(units)(expanded)])


CONTENDERS: dict[str, dict[str, Callable[[Size], Work]]] = (
    {
        f"output layer, {backend}": {
            "keras-tying": partial(output_layer, backend=backend, loss=without_logits),
            "stock Keras": partial(output_layer, backend=backend, loss=with_logits),
        }
        for backend in BACKENDS
    }
    | {
        f"adaptive softmax, {backend}": {
            "keras-tying": partial(adaptive_layer, backend=backend, kind="adaptive"),
            "keras-tying, all words": partial(adaptive_layer, backend=backend, kind="all words"),
            "keras-tying, sampled": partial(adaptive_layer, backend=backend, kind="sampled"),
            "PyTorch": adaptive_pytorch,
        }
        for backend in BACKENDS
    }
    | {
        "output layer on JAX": {
            "keras-tying": partial(output_layer, backend="jax", loss=without_logits),
            "PyTorch": output_pytorch,
        },
        "Transformer": {
            "keras-tying": partial(transformer, logits=False),
            "stock Keras": partial(transformer, logits=True),
        },
    }
)
