import numpy as np
import pytest

from keras_tying.layers import OneBiasGRU
from tests.layers.numpy_gru import gru_step


def with_random_weights(layer, rng):
    """The layer with normally distributed weights."""
    layer.set_weights([rng.normal(size=w.shape) for w in layer.get_weights()])
    return layer


@pytest.mark.parametrize("go_backwards", [False, True])
def test_states_follow_the_equations(rng, go_backwards):
    layer = OneBiasGRU(3, go_backwards=go_backwards)
    inputs = rng.normal(size=(2, 5, 4)).astype("float32")
    layer.build(inputs.shape)
    kernel, recurrent, bias = with_random_weights(layer, rng).get_weights()
    states = np.array(layer(inputs))
    for row in range(2):
        state = np.zeros(3)
        for t in reversed(range(5)) if go_backwards else range(5):
            state = gru_step(inputs[row, t] @ kernel + bias, state @ recurrent, state)
            np.testing.assert_allclose(states[row, t], state, atol=1e-5)


@pytest.mark.parametrize("go_backwards", [False, True])
def test_masked_steps_do_not_change_the_state(rng, go_backwards):
    layer = OneBiasGRU(3, go_backwards=go_backwards)
    inputs = rng.normal(size=(1, 5, 4)).astype("float32")
    layer.build(inputs.shape)
    with_random_weights(layer, rng)
    mask = np.array([[True, True, True, False, False]])
    expected = layer(inputs[:, :3])
    inputs[:, 3:] = np.nan
    states = layer(inputs, mask=mask)
    np.testing.assert_allclose(states[:, :3], expected, atol=1e-6)
    assert np.all(np.isfinite(states))


def test_has_one_bias(rng):
    layer = OneBiasGRU(7)
    layer.build((None, None, 5))
    assert layer.count_params() == 3 * 7 * (5 + 7 + 1)


def test_units_must_be_positive():
    with pytest.raises(ValueError, match="Received: units=0"):
        OneBiasGRU(0)
