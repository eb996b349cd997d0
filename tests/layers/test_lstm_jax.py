"""The recurrences of LSTM and MogrifierLSTM on JAX equal the portable one, in values and gradients."""

import importlib.util

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is an extra of the package")

PROGRAM = """
import json
import sys
sys.modules["tensorflow"] = None  # Keras imports it with a seed, for seconds
import jax
import keras
import numpy as np
import keras_tying as kt
from keras_tying import backend
from keras_tying.layers import lstm

ARGUMENTS = {
    "plain": {},
    "backwards": {"go_backwards": True},
    "no bias": {"use_bias": False},
    "other activations": {"activation": "relu", "recurrent_activation": "hard_sigmoid"},
    "dropout": {"recurrent_dropout": 0.5, "dropout": 0.3},
    "shared masks": {"recurrent_dropout": 0.5, "shared_dropout_masks": True, "drop_outputs": True},
    "capped, weight drop": {"cap_input_gate": True, "weight_drop": 0.4},
    "rounds": {"rounds": 5},
    "rounds, no bias": {"rounds": 2, "use_bias": False},
    "rounds, all": {"rounds": 5, "rank": 2, "recurrent_dropout": 0.5, "weight_drop": 0.4, "cap_input_gate": True},
}
rng = np.random.default_rng(0)
inputs = rng.normal(size=(3, 7, 5)).astype("float32")
mask = rng.random((3, 7)) < 0.7
portable = backend.portable(lstm.lstm_loop), backend.portable(lstm.recurrence)
assert portable[0] is not lstm.lstm_loop and portable[1] is not lstm.recurrence


def values_and_gradients(arguments, mask):
    kind = kt.layers.MogrifierLSTM if "rounds" in arguments else kt.layers.LSTM
    layer = kind(4, return_sequences=True, return_state=True, seed=3, **arguments)
    layer.build(inputs.shape)
    draw = np.random.default_rng(1)
    trained = [draw.normal(size=each.shape).astype("float32") for each in layer.trainable_variables]
    fixed = [each.value for each in layer.non_trainable_variables]

    def loss(trained, inputs):
        (outputs, hidden, cell), _ = layer.stateless_call(trained, fixed, inputs, mask=mask, training=True)
        return (outputs * np.arange(4)).sum() + (hidden * cell).sum()

    return jax.tree.leaves(jax.value_and_grad(loss, (0, 1))(trained, inputs))


found = {}
fast = lstm.lstm_loop, lstm.recurrence
for name, arguments in ARGUMENTS.items():
    for masked in (False, True):
        keras.utils.set_random_seed(0)
        received = values_and_gradients(arguments, mask if masked else None)
        lstm.lstm_loop, lstm.recurrence = portable
        keras.utils.set_random_seed(0)
        expected = values_and_gradients(arguments, mask if masked else None)
        lstm.lstm_loop, lstm.recurrence = fast
        pairs = zip(received, expected, strict=True)
        found[f"{name}, masked" if masked else name] = [
            float(abs(a - b).max() / max(abs(b).max(), 1)) for a, b in map(lambda pair: map(np.asarray, pair), pairs)
        ]
print(json.dumps(found))
"""


def test_the_fast_recurrence_equals_the_portable_one(printed_on):
    found = printed_on("jax", PROGRAM)
    assert len(found) == 20
    for name, differences in found.items():
        assert max(differences) < 2e-6, name  # of float32: processors sum in different orders


CUDNN = """
import jax
import keras
import keras_tying as kt
from keras_tying.backend.jax import lstm as fast

asked = []
jax.default_backend = lambda: "gpu"
fast.portable = lambda _: lambda layer, sequences, *rest: asked.append(layer.name) or fast.lstm.scan_loop(
    layer, sequences, rest[0], rest[1], rest[3])
for dtype in ("float32", "mixed_bfloat16", "mixed_float16"):
    for name, arguments in {"plain": {}, "dropout": {"recurrent_dropout": 0.5}, "off": {"use_cudnn": False}}.items():
        layer = kt.layers.LSTM(4, dtype=dtype, name=f"{dtype} {name}", **arguments)
        layer(keras.ops.ones((2, 3, 5)), training=True)
print(asked)
"""


def test_cudnn_gets_only_what_it_can_compute(run_python):
    assert run_python("-c", CUDNN, KERAS_BACKEND="jax").stdout.splitlines()[-1] == "['float32 plain']"
