import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_tying.layers import LSTM

SHAPES = [(1, 1, 3, 2), (4, 7, 5, 6), (20, 12, 8, 16)]


def pair(units, **arguments):
    """Our layer and the stock one with the same weights."""
    arguments = {"bias_initializer": "normal", "return_sequences": True, "return_state": True, **arguments}
    ours, stock = LSTM(units, **arguments), keras.layers.LSTM(units, **arguments)
    return ours, stock


def values_and_gradients(layer, inputs, state, **call):
    inputs = tf.constant(inputs)
    state = None if state is None else [tf.constant(s) for s in state]
    with tf.GradientTape() as tape:
        tape.watch([inputs, *(state or [])])
        outputs = layer(inputs, initial_state=state, **call)
        loss = sum(tf.reduce_sum(tf.sin(output) * (i + 1)) for i, output in enumerate(outputs))
    sources = [inputs, *(state or []), *[v.value for v in layer.trainable_variables]]
    return outputs, tape.gradient(loss, sources)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("with_state", [True, False])
@pytest.mark.parametrize("arguments", [{}, {"go_backwards": True}, {"use_bias": False}, {"return_sequences": False}])
def test_values_and_gradients_equal_those_of_the_stock_layer(rng, shape, with_state, arguments):
    batch, steps, features, units = shape
    inputs = rng.normal(size=(batch, steps, features)).astype("float32")
    state = [rng.normal(size=(batch, units)).astype("float32") for _ in range(2)] if with_state else None
    ours, stock = pair(units, **arguments)
    ours.build(inputs.shape)
    stock.build(inputs.shape)
    stock.set_weights(ours.get_weights())
    for mine, theirs in zip(
        tf.nest.flatten(values_and_gradients(ours, inputs, state)),
        tf.nest.flatten(values_and_gradients(stock, inputs, state)),
        strict=True,
    ):
        np.testing.assert_allclose(mine, theirs, atol=1e-5, rtol=1e-5)


def test_masked_steps_are_skipped_as_in_the_stock_layer(rng):
    inputs = rng.normal(size=(3, 6, 4)).astype("float32")
    mask = np.arange(6) < np.array([[6], [2], [4]])
    ours, stock = pair(5)
    ours.build(inputs.shape)
    stock.build(inputs.shape)
    stock.set_weights(ours.get_weights())
    for mine, theirs in zip(
        tf.nest.flatten(values_and_gradients(ours, inputs, None, mask=mask)),
        tf.nest.flatten(values_and_gradients(stock, inputs, None, mask=mask)),
        strict=True,
    ):
        np.testing.assert_allclose(mine, theirs, atol=1e-5, rtol=1e-5)


def test_input_dropout_keeps_one_mask_for_all_steps():
    layer = LSTM(4, dropout=0.5, return_sequences=True, seed=3)
    inputs = np.ones((2, 1, 8), "float32")
    np.testing.assert_allclose(layer(inputs, training=False), layer(inputs, training=False))
    assert not np.allclose(layer(inputs, training=True), layer(inputs, training=False))


def test_bidirectional_use(rng):
    inputs = rng.normal(size=(3, 6, 4)).astype("float32")
    ours = keras.layers.Bidirectional(LSTM(5, return_sequences=True))
    stock = keras.layers.Bidirectional(keras.layers.LSTM(5, return_sequences=True))
    ours.build(inputs.shape)
    stock.build(inputs.shape)
    stock.set_weights(ours.get_weights())
    np.testing.assert_allclose(ours(inputs), stock(inputs), atol=1e-6)


def test_unknown_batch_and_length_compile(rng):
    layer = LSTM(4, return_sequences=True)
    model = keras.Sequential([keras.Input((None, 3)), layer])
    for shape in ((2, 5, 3), (4, 2, 3)):
        assert model.predict(rng.normal(size=shape), verbose=0).shape == (*shape[:2], 4)
