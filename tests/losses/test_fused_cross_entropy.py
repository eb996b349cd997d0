import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_tying.losses import fused_cross_entropy, linear_cross_entropy

B, T, H, V = 3, 4, 5, 17


@pytest.fixture
def arrays(rng, monkeypatch):
    """Hidden states, targets, embeddings and bias, for chunks of five tokens."""
    monkeypatch.setattr(fused_cross_entropy, "LOGITS_PER_CHUNK", 5 * V)
    hidden, embeddings, bias = (tf.constant(rng.normal(size=s), tf.float32) for s in ((B, T, H), (V, H), (V,)))
    return hidden, rng.integers(0, V, (B, T)), embeddings, bias


def test_equals_the_cross_entropy_of_logits(rng, arrays):
    hidden, targets, embeddings, bias = arrays
    weights = rng.uniform(size=(B, T))
    for given, each in ({}, 1), ({"sample_weight": weights}, weights):
        logits = tf.matmul(hidden, embeddings, transpose_b=True) + bias
        expected = keras.losses.sparse_categorical_crossentropy(targets, logits, from_logits=True) * each
        np.testing.assert_allclose(linear_cross_entropy(*arrays, **given), expected, rtol=1e-5)


def test_settings_are_those_of_the_output_layer(arrays):
    hidden, targets, embeddings, bias = arrays
    received = linear_cross_entropy(*arrays, soft_cap=2.0, temperature=0.5, label_smoothing=0.1)
    logits = 2 * tf.tanh((tf.matmul(hidden, embeddings, transpose_b=True) + bias) / 2) / 0.5
    smoothed = 0.9 * tf.one_hot(targets, V) + 0.1 / V
    expected = keras.losses.categorical_crossentropy(smoothed, logits, from_logits=True)
    np.testing.assert_allclose(received, expected, rtol=1e-5)


@pytest.mark.parametrize("reduce", [tf.reduce_mean, lambda losses: tf.reduce_sum(tf.sqrt(losses))])
def test_gradient_is_that_of_logits(arrays, reduce):
    hidden, targets, *parameters = arrays
    gradients = []
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([hidden, *parameters])
        logits = tf.matmul(hidden, parameters[0], transpose_b=True) + parameters[1]
        from_logits = keras.losses.sparse_categorical_crossentropy(targets, logits, from_logits=True)
        for losses in (linear_cross_entropy(*arrays), from_logits):
            gradients.append((reduce(losses), [hidden, *parameters]))
    received, expected = (tape.gradient(total, sources) for total, sources in gradients)
    for one, other in zip(received, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_bfloat16_is_near_float32(arrays):
    hidden, *others = arrays
    received = linear_cross_entropy(ops.cast(hidden, "bfloat16"), *others)
    assert received.dtype == tf.float32
    np.testing.assert_allclose(received, linear_cross_entropy(*arrays), atol=0.1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"targets": np.zeros((B, T - 1), int)}, r"`targets` must have the shape \(3, 4\).* Received: shape \(3, 3\)"),
        ({"hidden": np.zeros((B, T, H + 1))}, r"`hidden` must have the shape \(3, 4, 5\).* Received: .*\(3, 4, 6\)"),
        ({"bias": np.zeros(V - 1)}, r"`bias` must have the shape \(17,\)"),
        ({"sample_weight": np.zeros(B)}, r"`sample_weight` must have the shape \(3, 4\)"),
        ({"temperature": 0}, r"`temperature` must be above 0. Received: temperature=0"),
        ({"soft_cap": -1}, r"`soft_cap` must be above 0. Received: soft_cap=-1"),
        ({"label_smoothing": 1}, r"`label_smoothing` must be in \[0, 1\). Received: label_smoothing=1"),
    ],
)
def test_bad_arguments_are_named(arrays, changed, message):
    given = dict(zip(("hidden", "targets", "embeddings", "bias"), arrays, strict=True))
    with pytest.raises(ValueError, match=message):
        linear_cross_entropy(**{**given, **changed})
