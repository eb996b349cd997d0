"""Contenders with the output layer alone: forward and backward pass."""

import numpy as np

from benchmarks.work import Size, Work, repeated, timed


def output_arrays(size: Size) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((size.words, size.units), np.float32)
    embeddings = rng.standard_normal((size.vocabulary, size.units), np.float32)
    embeddings /= 100  # in place, so that making the arrays is not the peak of memory
    return hidden, embeddings, rng.integers(0, size.vocabulary, size.words, np.int32)


def _output_tensors(size: Size) -> list:
    """`output_arrays` as tensors of TensorFlow."""
    import tensorflow as tf

    tensors = [*map(tf.constant, output_arrays(size))]
    tf.constant(1.0) + 1  # TensorFlow keeps a second copy of an array until its next operation
    return tensors


def output_keras_tying(size: Size) -> Work:
    import tensorflow as tf

    from keras_tying.losses import OutputProjection
    from keras_tying.losses.fused_cross_entropy import total_loss

    def loss(hidden, targets, embeddings):
        weights = tf.fill([size.words], 1 / size.words)
        return total_loss(hidden, targets, weights, OutputProjection(embeddings))[0]

    return tensorflow_gradients(loss, size)


def output_sampled(size: Size) -> Work:
    """The same hidden states with a loss over 8,192 sampled words instead of the whole vocabulary."""
    import tensorflow as tf

    from keras_tying.losses import OutputProjection, SampledCrossEntropy
    from keras_tying.losses.sampled_cross_entropy import sampled_token_losses

    sampled = SampledCrossEntropy()

    def loss(hidden, targets, embeddings):
        losses = sampled_token_losses(hidden, targets, sampled.draw(size.vocabulary), OutputProjection(embeddings))
        return tf.reduce_mean(losses)

    return tensorflow_gradients(loss, size)


def output_stock_keras(size: Size) -> Work:
    import keras
    import tensorflow as tf

    def loss(hidden, targets, embeddings):
        logits = tf.matmul(hidden, embeddings, transpose_b=True)
        return tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(targets, logits, from_logits=True))

    return tensorflow_gradients(loss, size)


def tensorflow_gradients(loss, size: Size) -> Work:
    import tensorflow as tf

    hidden, embeddings, targets = _output_tensors(size)

    @tf.function
    def gradients():
        with tf.GradientTape() as tape:
            tape.watch([hidden, embeddings])
            value = loss(hidden, targets, embeddings)
        return value, tape.gradient(value, [hidden, embeddings])

    return repeated(lambda: gradients()[0].numpy())


def output_pytorch(size: Size) -> Work:
    import torch
    from torch.nn import functional

    hidden, embeddings, targets = (torch.from_numpy(array) for array in output_arrays(size))
    targets = targets.long()
    for tensor in (hidden, embeddings):
        tensor.requires_grad_()

    @timed
    def work(count: int) -> None:
        for _ in range(count):
            loss = functional.cross_entropy(functional.linear(hidden, embeddings), targets)
            torch.autograd.grad(loss, [hidden, embeddings])

    return work


CONTENDERS = {
    "output layer": {
        "keras-tying": output_keras_tying,
        "keras-tying, sampled": output_sampled,
        "stock Keras": output_stock_keras,
        "PyTorch": output_pytorch,
    },
}
