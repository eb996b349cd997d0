"""Contenders: the same work in this library, in stock Keras and in PyTorch.

A contender is a function that takes a `Size`, prepares the work and returns a function. That function does a given
number of steps and returns the seconds they took. Each contender runs in its own process, so that contenders do not
share threads or memory.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np


@dataclass(frozen=True)
class Size:
    """A language model's size and its batches."""

    vocabulary: int = 10_000
    units: int = 200
    layers: int = 2
    batch_size: int = 20
    sequence_length: int = 20

    @property
    def words(self) -> int:
        """Words per batch."""
        return self.batch_size * self.sequence_length

    @property
    def operations(self) -> int:
        """Floating-point operations per training step, of matrix products only."""
        return 3 * (self.layers * 16 * self.units**2 + 2 * self.units * self.vocabulary) * self.words

    def tiny(self) -> Self:
        """What a contender computes first, to load its libraries and to start their threads."""
        return replace(self, vocabulary=11, units=3, batch_size=2, sequence_length=2)


Work = Callable[[int], float]


def timed(function: Callable[[Any], None]) -> Callable[[Any], float]:
    """A function that calls `function` and returns the seconds it took."""

    def work(argument: Any) -> float:
        start = time.perf_counter()
        function(argument)
        return time.perf_counter() - start

    return work


def repeated(step: Callable[[], object]) -> Work:
    """Work whose steps are calls of a function."""

    @timed
    def work(count: int) -> None:
        for _ in range(count):
            step()

    return work


def tokens(size: Size, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of `count` batches of random words. The words do not change the speed."""
    rng = np.random.default_rng(0)
    shape = (count * size.batch_size, size.sequence_length)
    return rng.integers(0, size.vocabulary, shape, np.int32), rng.integers(0, size.vocabulary, shape, np.int32)


def train_keras_tying(size: Size) -> Work:
    return _fit(_language_model(size), size)


def train_in_bfloat16(size: Size) -> Work:
    import keras

    keras.config.set_dtype_policy("mixed_bfloat16")
    return train_keras_tying(size)


def train_on_one_batch(size: Size) -> Work:
    """The same steps on one batch that stays in memory, so that no data is read."""
    import tensorflow as tf

    batch = tf.data.Dataset.from_tensors(tokens(size, 1)).repeat()
    model = _language_model(size)
    return lambda count: fit_seconds(model, batch.take(count))


def _language_model(size: Size):
    import keras_tying as kt
    from keras_tying.training.engine import STEPS_PER_EXECUTION

    model = _new_language_model(size)
    model.carry_state(size.batch_size)
    model.compile(kt.optimizers.ClippedSGD(), steps_per_execution=STEPS_PER_EXECUTION)
    return model


def _new_language_model(size: Size):
    import keras_tying as kt

    return kt.zoo.recurrent_language_model(size.vocabulary, size.units, size.layers, tied=True)


def train_stock_keras(size: Size) -> Work:
    return _fit(_stock_keras_model(size), size)


def _stock_keras_model(size: Size):
    import keras

    from keras_tying.training.engine import STEPS_PER_EXECUTION

    embedding = keras.layers.ReversibleEmbedding(size.vocabulary, size.units)
    inputs = keras.Input((size.sequence_length,), dtype="int32")
    hidden = embedding(inputs)
    for _ in range(size.layers):
        hidden = keras.layers.LSTM(size.units, return_sequences=True)(hidden)
    model = keras.Model(inputs, embedding(hidden, reverse=True))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(1.0, global_clipnorm=5.0)
    model.compile(optimizer, loss, steps_per_execution=STEPS_PER_EXECUTION)
    return model


def _fit(model, size: Size) -> Work:
    return lambda count: fit_seconds(model, *tokens(size, count), batch_size=size.batch_size)


def fit_seconds(model, *data, **arguments) -> float:
    """Seconds of `fit`, measured inside it: TensorFlow may take seconds to end its input threads afterwards."""
    import keras

    class Stopwatch(keras.callbacks.Callback):
        seconds = 0.0

        def on_train_begin(self, logs=None):
            self.start = time.perf_counter()

        def on_train_end(self, logs=None):
            self.seconds = time.perf_counter() - self.start

    watch = Stopwatch()
    model.fit(*data, shuffle=False, verbose=0, callbacks=[watch], **arguments)
    return watch.seconds


def train_pytorch(size: Size, *, bfloat16: bool = False, device: str = "cpu") -> Work:
    import torch
    from torch.nn import functional

    embedding, lstm, bias = _pytorch_model(size, device)
    parameters = [*embedding.parameters(), *lstm.parameters(), bias]
    optimizer = torch.optim.SGD(parameters, 1.0)

    @timed
    def work(count: int) -> None:
        inputs, targets = (torch.from_numpy(array).long().to(device) for array in tokens(size, count))
        state = None
        batches = zip(inputs.split(size.batch_size), targets.split(size.batch_size), strict=True)
        for batch_inputs, batch_targets in batches:
            with torch.autocast(device, torch.bfloat16, enabled=bfloat16):
                hidden, state = lstm(embedding(batch_inputs), state)
                logits = functional.linear(hidden.reshape(-1, size.units), embedding.weight, bias)
            state = tuple(part.detach() for part in state)
            loss = (
                functional.cross_entropy(logits.float(), batch_targets.reshape(-1), reduction="sum") / size.batch_size
            )
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 5.0)
            optimizer.step()
        loss.item()  # waits for a GPU

    return work


def train_pytorch_on_gpu(size: Size) -> Work:
    """Matrix products in TF32, which is what JAX computes in float32 on a GPU that has it."""
    import torch

    torch.set_float32_matmul_precision("high")
    return train_pytorch(size, device="cuda")


def _pytorch_model(size: Size, device: str = "cpu"):
    import torch

    torch.manual_seed(0)
    embedding = torch.nn.Embedding(size.vocabulary, size.units, device=device)
    lstm = torch.nn.LSTM(size.units, size.units, size.layers, batch_first=True, device=device)
    bias = torch.nn.Parameter(torch.zeros(size.vocabulary, device=device))
    for parameter in (*embedding.parameters(), *lstm.parameters(), bias):
        torch.nn.init.uniform_(parameter, -0.1, 0.1)
    return embedding, lstm, bias


# The output layer alone: forward and backward


def _output_arrays(size: Size) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((size.words, size.units), np.float32)
    embeddings = rng.standard_normal((size.vocabulary, size.units), np.float32)
    embeddings /= 100  # in place, so that making the arrays is not the peak of memory
    return hidden, embeddings, rng.integers(0, size.vocabulary, size.words, np.int32)


def _output_tensors(size: Size) -> list:
    """`_output_arrays` as tensors of TensorFlow."""
    import tensorflow as tf

    tensors = [*map(tf.constant, _output_arrays(size))]
    tf.constant(1.0) + 1  # TensorFlow keeps a second copy of an array until its next operation
    return tensors


def output_keras_tying(size: Size) -> Work:
    import tensorflow as tf

    from keras_tying.losses import OutputProjection
    from keras_tying.losses.fused_cross_entropy import total_loss

    def loss(hidden, targets, embeddings):
        weights = tf.fill([size.words], 1 / size.words)
        return total_loss(hidden, targets, weights, OutputProjection(embeddings))[0]

    return _tensorflow_gradients(loss, size)


def output_sampled(size: Size) -> Work:
    """The same hidden states with a loss over 8,192 sampled words instead of the whole vocabulary."""
    import tensorflow as tf

    from keras_tying.losses import OutputProjection, SampledCrossEntropy
    from keras_tying.losses.sampled_cross_entropy import sampled_token_losses

    sampled = SampledCrossEntropy()

    def loss(hidden, targets, embeddings):
        losses = sampled_token_losses(hidden, targets, sampled.draw(size.vocabulary), OutputProjection(embeddings))
        return tf.reduce_mean(losses)

    return _tensorflow_gradients(loss, size)


def output_stock_keras(size: Size) -> Work:
    import keras
    import tensorflow as tf

    def loss(hidden, targets, embeddings):
        logits = tf.matmul(hidden, embeddings, transpose_b=True)
        return tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(targets, logits, from_logits=True))

    return _tensorflow_gradients(loss, size)


def _tensorflow_gradients(loss, size: Size) -> Work:
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


# The LSTM layers alone: forward and backward


def recurrent_inputs(size: Size) -> np.ndarray:
    shape = (size.batch_size, size.sequence_length, size.units)
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def recurrent_on_jax(size: Size) -> Work:
    import jax
    import keras

    import keras_tying as kt

    layers = [kt.layers.LSTM(size.units, return_sequences=True) for _ in range(size.layers)]
    model = keras.Sequential([keras.Input((size.sequence_length, size.units)), *layers])
    trained = [each.value for each in model.trainable_variables]
    fixed = [each.value for each in model.non_trainable_variables]

    def loss(trained, inputs):
        return model.stateless_call(trained, fixed, inputs, training=True)[0].sum()

    gradients, inputs = jax.jit(jax.grad(loss, (0, 1))), jax.numpy.asarray(recurrent_inputs(size))

    return repeated(lambda: jax.block_until_ready(gradients(trained, inputs)))


def recurrent_pytorch(size: Size) -> Work:
    import torch

    lstm = torch.nn.LSTM(size.units, size.units, size.layers, batch_first=True)
    inputs = torch.from_numpy(recurrent_inputs(size)).requires_grad_()

    return repeated(lambda: torch.autograd.grad(lstm(inputs)[0].sum(), [inputs, *lstm.parameters()]))


def evaluate_keras_tying(size: Size) -> Work:
    from keras_tying.inference.language_model import stream_perplexity

    model = _new_language_model(size)

    @timed
    def work(count: int) -> None:
        ids = tokens(size, count)[0].reshape(-1)
        one_more_per_row = np.append(ids, [0] * size.batch_size)
        stream_perplexity(model, one_more_per_row, size.batch_size, size.sequence_length)

    return work


def evaluate_pytorch(size: Size) -> Work:
    import torch
    from torch.nn import functional

    embedding, lstm, bias = _pytorch_model(size)

    @timed
    @torch.inference_mode()
    def work(count: int) -> None:
        inputs, targets = (torch.from_numpy(array).long() for array in tokens(size, count))
        state, total = None, 0.0
        batches = zip(inputs.split(size.batch_size), targets.split(size.batch_size), strict=True)
        for batch_inputs, batch_targets in batches:
            hidden, state = lstm(embedding(batch_inputs), state)
            logits = functional.linear(hidden.reshape(-1, size.units), embedding.weight, bias)
            total += functional.cross_entropy(logits, batch_targets.reshape(-1), reduction="sum").item()

    return work


def generate_keras_tying(size: Size) -> Work:
    model = _new_language_model(size)
    prefix = np.zeros((size.batch_size, 1), np.int32)
    return timed(lambda count: model.generate(prefix, count * size.sequence_length, seed=0))


def generate_pytorch(size: Size) -> Work:
    import torch
    from torch.nn import functional

    embedding, lstm, bias = _pytorch_model(size)

    @timed
    @torch.inference_mode()
    def work(count: int) -> None:
        words, state = torch.zeros(size.batch_size, 1, dtype=torch.long), None
        for _ in range(count * size.sequence_length):
            hidden, state = lstm(embedding(words), state)
            scores = functional.linear(hidden[:, 0], embedding.weight, bias)
            words = torch.multinomial(scores.softmax(-1), 1)

    return work


CONTENDERS: dict[str, dict[str, Callable[[Size], Work]]] = {
    "training": {
        "keras-tying": train_keras_tying,
        "stock Keras": train_stock_keras,
        "PyTorch": train_pytorch,
    },
    "training on a GPU": {
        "keras-tying": train_keras_tying,
        "keras-tying, bfloat16": train_in_bfloat16,
        "stock Keras": train_stock_keras,
        "PyTorch": train_pytorch_on_gpu,
    },
    "training in bfloat16": {
        "keras-tying": train_in_bfloat16,
        "PyTorch": partial(train_pytorch, bfloat16=True),
    },
    "output layer": {
        "keras-tying": output_keras_tying,
        "keras-tying, sampled": output_sampled,
        "stock Keras": output_stock_keras,
        "PyTorch": output_pytorch,
    },
    "LSTM layers on JAX": {"keras-tying": recurrent_on_jax, "PyTorch": recurrent_pytorch},
    "evaluation": {"keras-tying": evaluate_keras_tying, "PyTorch": evaluate_pytorch},
    "generation": {"keras-tying": generate_keras_tying, "PyTorch": generate_pytorch},
    "waiting": {"keras-tying": train_keras_tying, "nothing to read": train_on_one_batch},
    "growth": {"keras-tying": train_keras_tying, "PyTorch": train_pytorch},
}
