"""Contenders for large vocabularies, on every backend: the output layer alone, and a causal Transformer."""

from collections.abc import Callable
from functools import partial

from benchmarks.contenders import Size, Work, _output_arrays, fit_seconds, output_pytorch, timed, tokens

BACKENDS = ("tensorflow", "jax", "torch")
HEADS, BLOCKS = 4, 2


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


def _tensorflow_gradients(loss, size: Size) -> Work:
    import tensorflow as tf

    hidden, embeddings, targets = map(tf.constant, _output_arrays(size))

    @tf.function
    def gradients():
        with tf.GradientTape() as tape:
            tape.watch([hidden, embeddings])
            value = loss(hidden, targets, embeddings)
        return value, tape.gradient(value, [hidden, embeddings])

    return _repeated(lambda: gradients()[0].numpy())


def _jax_gradients(loss, size: Size) -> Work:
    import jax

    hidden, embeddings, targets = map(jax.numpy.asarray, _output_arrays(size))
    gradients = jax.jit(jax.value_and_grad(loss, (0, 2)))
    return _repeated(lambda: jax.block_until_ready(gradients(hidden, targets, embeddings)))


def _torch_gradients(loss, size: Size) -> Work:
    import torch

    hidden, embeddings, targets = map(torch.from_numpy, _output_arrays(size))
    for tensor in (hidden, embeddings):
        tensor.requires_grad_()
    return _repeated(lambda: torch.autograd.grad(loss(hidden, targets.long(), embeddings), [hidden, embeddings]))


GRADIENTS = {"tensorflow": _tensorflow_gradients, "jax": _jax_gradients, "torch": _torch_gradients}


def _repeated(step: Callable[[], object]) -> Work:
    @timed
    def work(count: int) -> None:
        for _ in range(count):
            step()

    return work


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


CONTENDERS: dict[str, dict[str, Callable[[Size], Work]]] = {
    f"output layer, {backend}": {
        "keras-tying": partial(output_layer, backend=backend, loss=without_logits),
        "stock Keras": partial(output_layer, backend=backend, loss=with_logits),
    }
    for backend in BACKENDS
} | {
    "output layer on JAX": {
        "keras-tying": partial(output_layer, backend="jax", loss=without_logits),
        "PyTorch": output_pytorch,
    },
    "Transformer": {
        "keras-tying": partial(transformer, logits=False),
        "stock Keras": partial(transformer, logits=True),
    },
}
