import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_tying.losses import OutputProjection, fused_cross_entropy, linear_cross_entropy

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
        (
            {"hidden": np.zeros((B, T, H + 1))},
            r"`embeddings` must have the shape \[V, H\].*\(17, 5\), for .*\(3, 4, 6\)",
        ),
        (
            {"embeddings": np.zeros((H, V))},
            r"`embeddings` must have the shape \[V, H\]; transpose the kernel of a Dense",
        ),
        ({"embeddings": np.zeros((1, V, H))}, r"Received: shape \(1, 17, 5\)"),
        ({"targets": np.full((B, T), 3.7)}, r"`targets` must be word ids, which are integers. Received: dtype float"),
        ({"hidden": np.zeros((B, T, H), int)}, r"`hidden` must be floats. Received: dtype int"),
        ({"hidden": keras.Input((T, H))}, r"Call this function in the `call` of a layer. Received: `hidden`"),
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


@pytest.mark.parametrize("tokens", [2048, 262144])
def test_float16_gradients_of_a_mean_over_many_tokens_are_exact(rng, tokens):
    hidden, embeddings = (rng.normal(size=size).astype("float16") for size in ((40, 16), (50, 16)))
    targets, gradients = rng.integers(0, 50, 40), []
    for dtype in ("float16", "float32"):
        parameters = tf.Variable(embeddings, dtype=tf.float32)
        with tf.GradientTape() as tape:
            output = OutputProjection(parameters)
            weights = tf.fill([40], 1 / tokens)
            total, _ = fused_cross_entropy.total_loss(tf.cast(hidden, dtype), targets, weights, output)
            scaled = 2.0**17 * total  # as by a LossScaleOptimizer
        gradients.append(tape.gradient(scaled, parameters))
    largest = float(tf.reduce_max(tf.abs(gradients[1])))
    np.testing.assert_allclose(gradients[0], gradients[1], atol=2e-3 * largest)


def test_float16_gradients_of_very_many_tokens_are_finite():
    tokens, words, width = 140_000, 8, 4
    rng = np.random.default_rng(0)
    hidden = tf.constant(rng.normal(1, 1, (tokens, width)), tf.float16)
    embeddings = tf.constant(rng.normal(0, 0.05, (words, width)), tf.float32)
    targets, gradients = np.zeros(tokens, "int32"), []
    for dtype in ("float16", "float32"):
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            states = tf.cast(hidden, dtype)
            losses = linear_cross_entropy(states, targets, embeddings, sample_weight=np.full(tokens, 1 / tokens))
        gradients.append(tape.gradient(losses, embeddings))
    np.testing.assert_allclose(*gradients, atol=1e-3)


@pytest.mark.parametrize("settings", [{}, {"soft_cap": 2.0}, {"temperature": 0.5}, {"label_smoothing": 0.1}], ids=str)
def test_float16_gradients_are_near_those_of_float32(arrays, settings):
    hidden, targets, *parameters = arrays
    gradients = []
    for dtype in ("float16", "float32"):
        sources = [ops.cast(hidden, dtype), *map(ops.convert_to_tensor, parameters)]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            total = tf.reduce_sum(linear_cross_entropy(sources[0], targets, *sources[1:], **settings))
        gradients.append(tape.gradient(total, sources))
    for received, expected in zip(*gradients, strict=True):
        largest = float(tf.reduce_max(tf.abs(expected)))
        np.testing.assert_allclose(received, expected, atol=4e-3 * largest)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_gradients_have_the_dtype_of_their_tensors(arrays, dtype):
    hidden, targets, *parameters = (ops.cast(each, dtype) if each is not arrays[1] else each for each in arrays)
    sources = [hidden, *parameters]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        weights = tf.range(B * T, dtype=tf.float32)
        total, _ = fused_cross_entropy.total_loss(
            tf.reshape(hidden, (-1, H)), tf.constant(targets.ravel(), tf.int32), weights, OutputProjection(*parameters)
        )
        losses = linear_cross_entropy(hidden, targets, *parameters)
        values = total, tf.reduce_sum(losses), tf.reduce_sum(losses**2)
        total = sum(tf.cast(each, tf.float32) for each in values) + tf.cast(tf.reduce_sum(parameters[0]), tf.float32)
    assert {gradient.dtype for gradient in tape.gradient(total, sources)} == {tf.as_dtype(dtype)}


def test_ignored_targets_have_no_loss_and_no_gradient(arrays):
    hidden, targets, *parameters = arrays
    some = np.where(np.arange(B * T).reshape(B, T) % 3 == 0, -100, targets)
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        losses = linear_cross_entropy(hidden, some, *parameters, ignore_id=-100)
    gradient = tape.gradient(losses, hidden).numpy()
    assert not losses.numpy()[some == -100].any()
    assert not gradient[some == -100].any()
    expected = linear_cross_entropy(*arrays).numpy()
    np.testing.assert_allclose(losses.numpy()[some != -100], expected[some != -100], rtol=1e-6)


def test_a_batch_without_tokens_has_no_gradient(arrays):
    hidden, targets, *parameters = arrays
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        losses = linear_cross_entropy(hidden[:0], targets[:0], *parameters)
    assert losses.shape == (0, T)
    assert not any(gradient.numpy().any() for gradient in tape.gradient(losses, parameters))
