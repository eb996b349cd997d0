import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import expit as sigmoid

from keras_tying.layers import LSTM, MogrifierLSTM

STATE = 5


def mogrified(inputs, layer, hidden, cell):
    """Hidden states `[B, T, H]`, from the equations of the paper."""
    kernel, recurrent_kernel, bias = (np.array(v) for v in layer.cell.trainable_variables)
    states = []
    for t in range(inputs.shape[1]):
        x, h = inputs[:, t], hidden
        for r, weights in enumerate(layer.round_weights):
            *matrices, shift = (np.array(w) for w in weights)
            matrix = np.linalg.multi_dot(matrices) if len(matrices) > 1 else matrices[0]
            if r % 2 == 0:
                x = 2 * sigmoid(h @ matrix + shift) * x
            else:
                h = 2 * sigmoid(x @ matrix + shift) * h
        i, f, g, o = np.split(x @ kernel + h @ recurrent_kernel + bias, 4, axis=1)
        gate = np.minimum(sigmoid(i), 1 - sigmoid(f)) if layer.cap_input_gate else sigmoid(i)
        cell = sigmoid(f) * cell + gate * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(cell)
        states.append(hidden)
    return np.stack(states, 1)


def built(rng, inputs, **arguments):
    layer = MogrifierLSTM(STATE, return_sequences=True, return_state=True, **arguments)
    layer.build(inputs.shape)
    layer.set_weights([rng.normal(size=w.shape) for w in layer.get_weights()])
    return layer


@pytest.mark.parametrize(
    "arguments", [{}, {"rounds": 1}, {"rounds": 2, "rank": 2}, {"rounds": 4, "rank": 3, "cap_input_gate": True}]
)
def test_layer_equals_an_independent_computation(rng, arguments):
    inputs = rng.normal(size=(3, 6, 4)).astype("float32")
    layer = built(rng, inputs, **arguments)
    state = [rng.normal(size=(3, STATE)).astype("float32") for _ in range(2)]
    outputs, hidden, _ = layer(inputs, initial_state=state)
    np.testing.assert_allclose(outputs, mogrified(inputs, layer, *state), atol=1e-5)
    np.testing.assert_array_equal(outputs[:, -1], hidden)


def test_without_rounds_the_layer_is_an_lstm(rng):
    inputs = rng.normal(size=(3, 6, 4)).astype("float32")
    arguments = {"dropout": 0.3, "recurrent_dropout": 0.4, "weight_drop": 0.5, "seed": 3}
    layer = built(rng, inputs, rounds=0, **arguments)
    plain = LSTM(STATE, return_sequences=True, return_state=True, shared_dropout_masks=True, **arguments)
    plain.build(inputs.shape)
    plain.set_weights(layer.get_weights())
    for training in (False, True):
        for received, expected in zip(layer(inputs, training=training), plain(inputs, training=training), strict=True):
            np.testing.assert_allclose(received, expected, atol=1e-5)


def test_in_bfloat16_gradients_are_near_those_in_float32(rng):
    inputs = rng.normal(size=(3, 6, 4)).astype("float32")

    def gradients(dtype):
        layer = MogrifierLSTM(STATE, rounds=4, rank=2, cap_input_gate=True, return_sequences=True, dtype=dtype)
        layer.build(inputs.shape)
        layer.set_weights(weights or layer.get_weights())
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.cast(layer(inputs), "float32")))
        return layer.get_weights(), tape.gradient(loss, [v.value for v in layer.trainable_variables])

    weights = None
    weights, exact = gradients("float32")
    _, rounded = gradients("mixed_bfloat16")
    for found, expected in zip(rounded, exact, strict=True):
        assert 0 < np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


@pytest.mark.parametrize("steps", [4, 20])  # unrolled, and looped
def test_masked_steps_change_nothing(rng, steps):
    inputs = rng.normal(size=(2, steps, 4)).astype("float32")
    layer = built(rng, inputs, rounds=3)
    _, expected, expected_cell = layer(inputs[:, :2])
    mask = np.array([[True] * 2 + [False] * (steps - 2), [True] * steps])
    inputs[~mask] = np.nan
    _, hidden, cell = layer(inputs, mask=mask)
    np.testing.assert_allclose(hidden[0], expected[0], atol=1e-6)
    np.testing.assert_allclose(cell[0], expected_cell[0], atol=1e-6)
    assert np.abs(hidden[1] - expected[1]).max() > 1e-3


def test_configuration_makes_the_same_layer(rng):
    inputs = rng.normal(size=(3, 6, 4)).astype("float32")
    layer = built(rng, inputs, rounds=3, rank=2, cap_input_gate=True)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    again.set_weights(layer.get_weights())
    np.testing.assert_array_equal(again(inputs)[0], layer(inputs)[0])


def test_an_initializer_is_an_object_or_a_function():
    for initializer in ("random_normal", lambda shape, dtype: keras.random.normal(shape, dtype=dtype)):
        layer = MogrifierLSTM(4, rounds=3, kernel_initializer=initializer)
        layer.build((None, None, 4))
        first, _, third = (np.array(matrix) for matrix, _ in layer.round_weights)
        assert not np.array_equal(first, third)


@pytest.mark.parametrize("arguments", [{"rounds": -1}, {"rank": 0}, {"weight_drop": 1.0}])
def test_arguments_outside_their_range_raise(arguments):
    with pytest.raises(ValueError, match="Received"):
        MogrifierLSTM(4, **arguments)


def test_dropout_masks_that_are_not_shared_are_refused():
    with pytest.raises(ValueError, match=r"always shares its dropout masks.*Received: shared_dropout_masks=False"):
        MogrifierLSTM(4, shared_dropout_masks=False)
