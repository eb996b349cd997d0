"""What is compared: the same work done by this library, by stock Keras and by PyTorch.

A contender is a function that takes a `Size`, sets everything up and returns a function that does the
given number of steps and returns the seconds they took. Each runs in a process of its own, so that
one's threads and memory are not the other's.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Size:
    """A language model's size and its batches."""

    vocabulary: int = 10_000
    units: int = 200
    layers: int = 2
    batch: int = 20
    steps: int = 20

    @property
    def words(self) -> int:
        """Words of a batch."""
        return self.batch * self.steps

    @property
    def operations(self) -> int:
        """Floating-point operations of a training step, matrix products alone."""
        return 3 * (self.layers * 16 * self.units**2 + 2 * self.units * self.vocabulary) * self.words


Work = Callable[[int], float]


def timed(function: Callable[[int], None]) -> Work:
    """`function` as work: returns the seconds it took."""

    def work(count: int) -> float:
        start = time.perf_counter()
        function(count)
        return time.perf_counter() - start

    return work


def tokens(size: Size, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of `count` batches: random words, as fast or slow to compute with as any."""
    rng = np.random.default_rng(0)
    shape = (count * size.batch, size.steps)
    return rng.integers(0, size.vocabulary, shape, np.int32), rng.integers(0, size.vocabulary, shape, np.int32)


# Training


def train_keras_tying(size: Size) -> Work:
    import keras_tying as kt

    model = kt.models.LanguageModel(size.vocabulary, size.units, size.layers, tied=True)
    model.carry_state(size.batch)
    model.compile(kt.optimizers.ClippedSGD(), steps_per_execution=20)
    return _fit(model, size)


def train_stock_keras(size: Size) -> Work:
    import keras

    embedding = keras.layers.ReversibleEmbedding(size.vocabulary, size.units)
    inputs = keras.Input((size.steps,), dtype="int32")
    hidden = embedding(inputs)
    for _ in range(size.layers):
        hidden = keras.layers.LSTM(size.units, return_sequences=True)(hidden)
    model = keras.Model(inputs, embedding(hidden, reverse=True))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1.0, global_clipnorm=5.0), loss)
    return _fit(model, size)


def _fit(model, size: Size, arrays=tokens) -> Work:
    """Work done by `fit`, timed inside it: afterwards TensorFlow may take seconds to give its input threads up."""
    import keras

    class Stopwatch(keras.callbacks.Callback):
        seconds = 0.0

        def on_train_begin(self, logs=None):
            self.start = time.perf_counter()

        def on_train_end(self, logs=None):
            self.seconds = time.perf_counter() - self.start

    def work(count: int) -> float:
        watch = Stopwatch()
        model.fit(*arrays(size, count), batch_size=size.batch, shuffle=False, verbose=0, callbacks=[watch])
        return watch.seconds

    return work


def train_pytorch(size: Size) -> Work:
    import torch
    from torch.nn import functional

    torch.manual_seed(0)
    embedding = torch.nn.Embedding(size.vocabulary, size.units)
    lstm = torch.nn.LSTM(size.units, size.units, size.layers, batch_first=True)
    bias = torch.nn.Parameter(torch.zeros(size.vocabulary))
    parameters = [*embedding.parameters(), *lstm.parameters(), bias]
    for parameter in parameters:
        torch.nn.init.uniform_(parameter, -0.1, 0.1)
    optimizer = torch.optim.SGD(parameters, 1.0)

    @timed
    def work(count: int) -> None:
        inputs, targets = (torch.from_numpy(array).long() for array in tokens(size, count))
        state = None
        for batch_inputs, batch_targets in zip(inputs.split(size.batch), targets.split(size.batch), strict=True):
            hidden, state = lstm(embedding(batch_inputs), state)
            state = tuple(part.detach() for part in state)
            logits = functional.linear(hidden.reshape(-1, size.units), embedding.weight, bias)
            loss = functional.cross_entropy(logits, batch_targets.reshape(-1), reduction="sum") / size.batch
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 5.0)
            optimizer.step()

    return work


# The output layer alone: forward and backward


def _output_arrays(size: Size) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((size.words, size.units), np.float32)
    embeddings = rng.standard_normal((size.vocabulary, size.units), np.float32)
    return hidden, embeddings / 100, rng.integers(0, size.vocabulary, size.words, np.int32)


def output_keras_tying(size: Size) -> Work:
    import tensorflow as tf

    from keras_tying.losses import OutputLayer
    from keras_tying.losses.output_layer import fused_cross_entropy

    def loss(hidden, embeddings, targets):
        weights = tf.fill([size.words], 1 / size.words)
        return fused_cross_entropy(hidden, targets, weights, OutputLayer(embeddings))[0]

    return _tensorflow_gradients(loss, size)


def output_stock_keras(size: Size) -> Work:
    import keras
    import tensorflow as tf

    def loss(hidden, embeddings, targets):
        logits = tf.matmul(hidden, embeddings, transpose_b=True)
        return tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(targets, logits, from_logits=True))

    return _tensorflow_gradients(loss, size)


def _tensorflow_gradients(loss, size: Size) -> Work:
    import tensorflow as tf

    hidden, embeddings, targets = map(tf.constant, _output_arrays(size))

    @tf.function
    def gradients():
        with tf.GradientTape() as tape:
            tape.watch([hidden, embeddings])
            value = loss(hidden, embeddings, targets)
        return value, tape.gradient(value, [hidden, embeddings])

    @timed
    def work(count: int) -> None:
        for _ in range(count):
            gradients()[0].numpy()

    return work


def output_pytorch(size: Size) -> Work:
    import torch
    from torch.nn import functional

    hidden, embeddings, targets = (torch.from_numpy(array) for array in _output_arrays(size))
    targets = targets.long()
    for tensor in (hidden, embeddings):
        tensor.requires_grad_()

    @timed
    def work(count: int) -> None:
        for _ in range(count):
            loss = functional.cross_entropy(functional.linear(hidden, embeddings), targets)
            torch.autograd.grad(loss, [hidden, embeddings])

    return work


# Reading and writing text


def evaluate_keras_tying(size: Size) -> Work:
    import keras_tying as kt
    from keras_tying.training import stream_perplexity

    model = kt.models.LanguageModel(size.vocabulary, size.units, size.layers, tied=True)

    @timed
    def work(count: int) -> None:
        ids = tokens(size, count)[0].reshape(-1)
        stream_perplexity(model, np.append(ids, [0] * size.batch), size.batch, steps=size.steps)

    return work


def evaluate_pytorch(size: Size) -> Work:
    import torch
    from torch.nn import functional

    embedding = torch.nn.Embedding(size.vocabulary, size.units)
    lstm = torch.nn.LSTM(size.units, size.units, size.layers, batch_first=True)
    bias = torch.zeros(size.vocabulary)

    @timed
    @torch.inference_mode()
    def work(count: int) -> None:
        inputs, targets = (torch.from_numpy(array).long() for array in tokens(size, count))
        state, total = None, 0.0
        for batch_inputs, batch_targets in zip(inputs.split(size.batch), targets.split(size.batch), strict=True):
            hidden, state = lstm(embedding(batch_inputs), state)
            logits = functional.linear(hidden.reshape(-1, size.units), embedding.weight, bias)
            total += functional.cross_entropy(logits, batch_targets.reshape(-1), reduction="sum").item()

    return work


CONTENDERS: dict[str, dict[str, Callable[[Size], Work]]] = {
    "training": {
        "keras-tying": train_keras_tying,
        "stock Keras": train_stock_keras,
        "PyTorch": train_pytorch,
    },
    "output layer": {
        "keras-tying": output_keras_tying,
        "stock Keras": output_stock_keras,
        "PyTorch": output_pytorch,
    },
    "evaluation": {"keras-tying": evaluate_keras_tying, "PyTorch": evaluate_pytorch},
}
