import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import expit as sigmoid

from keras_tying import backend
from keras_tying.layers import RecurrentHighway, recurrent_highway

B, T, FEATURES, H, DEPTH = 3, 6, 4, 5, 3


def numpy_highway(layer, inputs, state):
    """States after each step, from the equations."""
    kernel, kernels, biases = (np.array(weight) for weight in layer.get_weights())
    states = []
    for t in range(inputs.shape[1]):
        for micro in range(len(kernels)):
            gates = state @ kernels[micro] + biases[micro]
            if micro == 0:
                gates = gates + inputs[:, t] @ kernel
            proposal, transform = np.tanh(gates[:, :H]), sigmoid(gates[:, H:])
            state = transform * proposal + (1 - transform) * state
        states.append(state)
    return np.stack(states, 1)


@pytest.mark.parametrize("depth", [1, DEPTH])
def test_layer_equals_an_independent_computation(rng, depth):
    inputs, state = rng.normal(size=(B, T, FEATURES)), rng.normal(size=(B, H))
    layer = RecurrentHighway(H, depth=depth, bias_initializer="normal", return_sequences=True, return_state=True)
    outputs, last = layer(inputs.astype("float32"), initial_state=state.astype("float32"))
    expected = numpy_highway(layer, inputs, state)
    np.testing.assert_allclose(outputs, expected, atol=1e-5)
    np.testing.assert_allclose(last, expected[:, -1], atol=1e-5)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_in_bfloat16_values_and_gradients_are_nearly_the_same_on_both_paths(rng, monkeypatch, dropout):
    inputs = rng.normal(size=(B, T, FEATURES)).astype("float32")
    weights = [0.5 * rng.normal(size=shape) for shape in ((FEATURES, 2 * H), (DEPTH, H, 2 * H), (DEPTH, 2 * H))]
    found = []
    for sequence in (recurrent_highway.highway_sequence, backend.portable(recurrent_highway.highway_sequence)):
        monkeypatch.setattr(recurrent_highway, "highway_sequence", sequence)
        layer = RecurrentHighway(
            H, depth=DEPTH, recurrent_dropout=dropout, return_sequences=True, seed=4, dtype="mixed_bfloat16"
        )
        layer.build(inputs.shape)
        layer.set_weights(weights)
        with tf.GradientTape() as tape:
            outputs = layer(inputs, training=True)
            loss = tf.reduce_sum(tf.sin(tf.cast(outputs, "float32")))
        found.append([outputs, *tape.gradient(loss, [v.value for v in layer.trainable_variables])])
    for fast, portable in zip(*found, strict=True):
        fast, portable = np.array(fast, "float32"), np.array(portable, "float32")
        assert 0 < np.abs(fast - portable).max() < 0.04 * np.abs(portable).max()


def test_transform_gates_are_initially_closed():
    layer = RecurrentHighway(H, depth=DEPTH, transform_bias=-3.0)
    layer.build((None, None, FEATURES))
    np.testing.assert_array_equal(layer.bias[:, H:], np.full((DEPTH, H), -3.0))
    np.testing.assert_array_equal(layer.bias[:, :H], np.zeros((DEPTH, H)))


@pytest.mark.parametrize(
    "initializer",
    [
        "glorot_uniform",
        keras.initializers.RandomUniform(seed=1),
        keras.initializers.RandomUniform(seed=keras.random.SeedGenerator(1)),
        lambda shape, dtype: keras.random.normal(shape, dtype=dtype),
    ],
)
def test_micro_steps_have_different_initial_matrices(initializer):
    layer = RecurrentHighway(H, depth=DEPTH, recurrent_initializer=initializer)
    layer.build((None, None, FEATURES))
    first, second, _ = np.array(layer.recurrent_kernel)
    assert not np.array_equal(first, second)


def test_input_mask_holds_for_the_window(rng):
    inputs = np.repeat(rng.normal(size=(1, 1, 200)), 4, axis=1).astype("float32")
    layer = RecurrentHighway(1, depth=1, dropout=0.5, transform_bias=30.0, return_sequences=True, seed=1)
    layer.build(inputs.shape)
    layer.recurrent_kernel.assign(np.zeros((1, 1, 2)))  # open gate, no recurrence: outputs depend only on inputs
    outputs = np.array(layer(inputs, training=True))[0, :, 0]
    np.testing.assert_allclose(outputs, outputs[0], atol=1e-6)
    assert abs(outputs[0] - np.array(layer(inputs))[0, 0, 0]) > 1e-4


def test_recurrent_mask_drops_a_unit_at_every_step_and_micro_step(rng):
    inputs = rng.normal(size=(2, T, FEATURES)).astype("float32")
    layer = RecurrentHighway(H, depth=DEPTH, recurrent_dropout=0.5, return_sequences=True, seed=4)
    layer.build(inputs.shape)
    mask = np.array(RecurrentHighway.from_config(layer.get_config())._mask(np.ones((2, H), "float32"), 0.5))
    kernel, kernels, biases = layer.get_weights()
    for row in range(2):
        twin = RecurrentHighway(H, depth=DEPTH, return_sequences=True)
        twin.build(inputs.shape)
        twin.set_weights([kernel, kernels * mask[row][:, None], biases])
        np.testing.assert_allclose(
            np.array(fresh_copy(layer)(inputs, training=True))[row], np.array(twin(inputs))[row], atol=1e-5
        )


def fresh_copy(layer):
    """A copy of the layer that has not drawn a mask."""
    again = RecurrentHighway.from_config(layer.get_config())
    again.build((None, None, FEATURES))
    again.set_weights([w for w in layer.get_weights() if w.dtype == np.float32])
    return again


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": 0}, "`depth` must be at least 1. Received: depth=0"),
        ({"dropout": 1.0}, r"`dropout` must be in \[0, 1\). Received: dropout=1.0"),
        ({"recurrent_dropout": -0.5}, r"`recurrent_dropout` must be in \[0, 1\). Received: recurrent_dropout=-0.5"),
    ],
)
def test_arguments_out_of_range_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        RecurrentHighway(H, **arguments)
