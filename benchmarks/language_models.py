"""Contenders with the LSTM language model: training, evaluation and generation."""

from functools import partial

import numpy as np

from benchmarks.work import Size, Work, fit_seconds, timed, tokens


def train_keras_tying(size: Size) -> Work:
    return _fit(tied_model(size), size)


def train_in_bfloat16(size: Size) -> Work:
    import keras

    keras.config.set_dtype_policy("mixed_bfloat16")
    return train_keras_tying(size)


def train_on_one_batch(size: Size) -> Work:
    """The same steps on one batch that stays in memory, so that no data is read."""
    import tensorflow as tf

    batch = tf.data.Dataset.from_tensors(tokens(size, 1)).repeat()
    model = tied_model(size)
    return lambda count: fit_seconds(model, batch.take(count))


def tied_model(size: Size):
    import keras_tying as kt
    from keras_tying.training.engine import STEPS_PER_EXECUTION

    model = _new_model(size)
    model.carry_state(size.batch_size)
    model.compile(kt.optimizers.ClippedSGD(), steps_per_execution=STEPS_PER_EXECUTION)
    return model


def _new_model(size: Size):
    import keras_tying as kt

    return kt.zoo.recurrent_language_model(size.vocabulary, size.units, size.layers, tied=True)


def train_stock_keras(size: Size) -> Work:
    return _fit(stock_keras_model(size), size)


def stock_keras_model(size: Size):
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


def evaluate_keras_tying(size: Size) -> Work:
    from keras_tying.inference.language_model import stream_perplexity

    model = _new_model(size)

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
    model = _new_model(size)
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


CONTENDERS = {
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
    "evaluation": {"keras-tying": evaluate_keras_tying, "PyTorch": evaluate_pytorch},
    "generation": {"keras-tying": generate_keras_tying, "PyTorch": generate_pytorch},
    "waiting": {"keras-tying": train_keras_tying, "nothing to read": train_on_one_batch},
    "growth": {"keras-tying": train_keras_tying, "PyTorch": train_pytorch},
}
