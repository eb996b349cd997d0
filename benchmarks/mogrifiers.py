"""Contenders for the training of a `MogrifierLSTM` layer alone: forward and backward pass.

With automatic gradients, the layer is the same and its recurrence is the portable one: TensorFlow computes and adds the
gradients of the matrices at every backward step. PyTorch has no such layer; its contender is a loop over steps.
"""

from functools import partial

from benchmarks.lstm_layers import recurrent_inputs
from benchmarks.work import Size, Work, repeated

ROUNDS = 5
RANK = 48


def mogrifier_keras_tying(size: Size, *, precision: str = "float32", automatic: bool = False) -> Work:
    import keras
    import tensorflow as tf

    import keras_tying as kt
    from keras_tying.backend import portable
    from keras_tying.layers import lstm

    if automatic:
        lstm.recurrence = portable(lstm.recurrence)
    keras.config.set_dtype_policy(precision)
    layer = kt.layers.MogrifierLSTM(size.units, rounds=ROUNDS, rank=RANK, return_sequences=True)
    inputs = tf.constant(recurrent_inputs(size))
    layer(inputs)

    @tf.function
    def gradients():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(layer(inputs))
        return loss, tape.gradient(loss, [inputs, *layer.trainable_variables])

    return repeated(lambda: gradients()[0].numpy())


def mogrifier_pytorch(size: Size, *, bfloat16: bool = False) -> Work:
    import torch
    from torch.nn import functional

    torch.manual_seed(0)
    H = size.units
    inputs = torch.from_numpy(recurrent_inputs(size)).requires_grad_()
    cell = torch.nn.LSTMCell(H, H)
    rounds = torch.nn.ModuleList(
        torch.nn.Sequential(torch.nn.Linear(H, RANK, bias=False), torch.nn.Linear(RANK, H)) for _ in range(ROUNDS)
    )
    trained = [inputs, *cell.parameters(), *rounds.parameters()]

    def run():
        hidden, memory = torch.zeros(size.batch_size, H), torch.zeros(size.batch_size, H)
        states = []
        for step in inputs.unbind(1):
            for r, gate in enumerate(rounds):
                if r % 2 == 0:
                    step = 2 * torch.sigmoid(gate(hidden)) * step
                else:
                    hidden = 2 * torch.sigmoid(gate(step)) * hidden
            gates = functional.linear(step, cell.weight_ih, cell.bias_ih)
            gates = gates + functional.linear(hidden, cell.weight_hh, cell.bias_hh)
            i, f, g, o = gates.chunk(4, 1)
            memory = torch.sigmoid(f) * memory + torch.sigmoid(i) * torch.tanh(g)
            hidden = torch.sigmoid(o) * torch.tanh(memory)
            states.append(hidden)
        return torch.stack(states).float().sum()

    def gradients():
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            loss = run()
        torch.autograd.grad(loss, trained)

    return repeated(gradients)


CONTENDERS = {
    "mogrifier": {
        "keras-tying": mogrifier_keras_tying,
        "automatic gradients": partial(mogrifier_keras_tying, automatic=True),
        "PyTorch": mogrifier_pytorch,
    },
    "mogrifier in bfloat16": {
        "keras-tying": partial(mogrifier_keras_tying, precision="mixed_bfloat16"),
        "automatic gradients": partial(mogrifier_keras_tying, precision="mixed_bfloat16", automatic=True),
        "PyTorch": partial(mogrifier_pytorch, bfloat16=True),
    },
}
