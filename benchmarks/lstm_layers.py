"""Contenders with LSTM layers alone: forward and backward pass."""

import numpy as np

from benchmarks.work import Size, Work, repeated


def recurrent_inputs(size: Size) -> np.ndarray:
    shape = (size.batch_size, size.sequence_length, size.units)
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def lstm_on_jax(size: Size) -> Work:
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


def lstm_pytorch(size: Size) -> Work:
    import torch

    lstm = torch.nn.LSTM(size.units, size.units, size.layers, batch_first=True)
    inputs = torch.from_numpy(recurrent_inputs(size)).requires_grad_()

    return repeated(lambda: torch.autograd.grad(lstm(inputs)[0].sum(), [inputs, *lstm.parameters()]))


CONTENDERS = {
    "LSTM layers on JAX": {"keras-tying": lstm_on_jax, "PyTorch": lstm_pytorch},
}
