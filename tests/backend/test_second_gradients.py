"""Gradients of gradients, as in gradient penalties and learned weights, on TensorFlow and JAX."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_tying.backend import portable
from keras_tying.layers import LSTM, MogrifierLSTM, lstm
from keras_tying.losses import linear_cross_entropy

FACTORS = {
    "one factor": np.ones(4, "float32"),
    "factors": np.arange(4, dtype="float32"),
    "zero": np.zeros(4, "float32"),
}
JAX = """
import json, sys
sys.modules["tensorflow"] = None
import jax, jax.numpy as jnp
import numpy as np
import keras_tying as kt

rng = np.random.default_rng(0)
hidden, matrix, change = (rng.normal(size=size).astype("float32") for size in ((4, 3), (5, 3), (4, 3)))
targets = np.array([0, 2, 4, 1])

def fused(hidden, matrix):
    return kt.losses.linear_cross_entropy(hidden, targets, matrix)

def plain(hidden, matrix):
    return -jax.nn.log_softmax(hidden @ matrix.T)[jnp.arange(4), targets]

def penalty(losses):
    def of(factors, hidden, matrix):
        gradients = jax.grad(lambda *both: (factors * losses(*both)).sum(), (0, 1))(hidden, matrix)
        return sum((jnp.sin(each + 1) ** 2).sum() for each in gradients)
    return of

def by_product(losses):
    return jax.jvp(jax.grad(lambda hidden: losses(hidden, matrix).sum()), (hidden,), (change,))

found = {}
for name, factors in (("one factor", np.ones(4)), ("factors", np.arange(4.0)), ("zero", np.zeros(4))):
    given = jnp.asarray(factors, "float32"), hidden, matrix
    received, expected = (jax.jit(jax.grad(penalty(losses), (0, 1, 2)))(*given) for losses in (fused, plain))
    found[name] = max(float(abs(one - other).max()) for one, other in zip(received, expected))
received, expected = by_product(fused), by_product(plain)
found["jvp"] = max(float(abs(one - other).max()) for one, other in zip(received, expected))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def jax_differences(printed_on):
    return printed_on("jax", JAX)


@pytest.mark.parametrize("name", [*FACTORS, "jvp"])
def test_on_jax_those_of_the_cross_entropy_equal_those_from_logits(jax_differences, name):
    assert jax_differences[name] < 1e-5


def penalty_gradients(loss_of, tensors, compiled):
    """Gradients in `tensors` of a function of the gradients of a loss in all but the first of them."""

    def gradients():
        with tf.GradientTape() as outer:
            outer.watch(tensors)
            with tf.GradientTape() as inner:
                inner.watch(tensors)
                loss = loss_of(*tensors)
            found = inner.gradient(loss, tensors[1:])
            penalty = tf.add_n([tf.reduce_sum(tf.sin(each + 1) ** 2) for each in found])
        return outer.gradient(penalty, tensors)

    return (tf.function(gradients) if compiled else gradients)()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", FACTORS)
def test_those_of_the_cross_entropy_equal_those_from_logits(rng, name, compiled):
    targets = tf.constant([0, 2, 4, 1])
    tensors = [
        tf.constant(FACTORS[name]),
        *(tf.constant(rng.normal(size=size), "float32") for size in ((4, 3), (5, 3))),
    ]

    def fused(factors, hidden, matrix):
        return tf.reduce_sum(factors * linear_cross_entropy(hidden, targets, matrix))

    def plain(factors, hidden, matrix):
        logits = tf.matmul(hidden, matrix, transpose_b=True)
        return tf.reduce_sum(factors * tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits))

    received, expected = (penalty_gradients(loss, tensors, compiled) for loss in (fused, plain))
    for one, other in zip(received, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: MogrifierLSTM(3, rounds=3, return_sequences=True),
        lambda: LSTM(3, activation="softplus", cap_input_gate=True, return_sequences=True),
        lambda: LSTM(3, cap_input_gate=True, return_sequences=True),
    ],
    ids=["mogrifier", "other gates", "capped"],
)
def test_those_of_a_recurrence_equal_those_of_its_portable_loop(rng, monkeypatch, make, compiled):
    keras.utils.set_random_seed(0)
    layer, inputs = make(), tf.constant(rng.normal(size=(2, 4, 3)), "float32")
    layer(inputs)

    def penalty():
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(inputs)
                loss = tf.reduce_sum(layer(inputs) ** 2)
            value = tf.reduce_sum(inner.gradient(loss, inputs) ** 2)
        return outer.gradient(value, [weight.value for weight in layer.trainable_weights])

    def found():
        return (tf.function(penalty, autograph=False) if compiled else penalty)()

    received = found()
    for name in ("lstm_loop", "recurrence", "scan_time"):
        monkeypatch.setattr(lstm, name, portable(getattr(lstm, name)))
    for one, other in zip(received, found(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
