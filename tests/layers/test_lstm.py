import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import expit as sigmoid

from keras_tying import backend
from keras_tying.backend.tensorflow import gradients, scan
from keras_tying.layers import LSTM, lstm

SHAPES = [(1, 1, 3, 2), (4, 7, 5, 6), (20, 12, 8, 16)]


def use_portable(monkeypatch):
    """Runs recurrences by the functions for any backend."""
    for name in ("lstm_loop", "recurrence"):
        monkeypatch.setattr(lstm, name, backend.portable(getattr(lstm, name)))


def pair(units, **arguments):
    """Our layer and the Keras layer with the same arguments."""
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


def assert_equal_to_stock(ours, stock, inputs, state=None, **call):
    for layer in (ours, stock):
        layer.build(inputs.shape)
    stock.set_weights(ours.get_weights())
    for received, expected in zip(
        tf.nest.flatten(values_and_gradients(ours, inputs, state, **call)),
        tf.nest.flatten(values_and_gradients(stock, inputs, state, **call)),
        strict=True,
    ):
        np.testing.assert_allclose(received, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("with_state", [True, False])
@pytest.mark.parametrize("arguments", [{}, {"go_backwards": True}, {"use_bias": False}, {"return_sequences": False}])
def test_values_and_gradients_equal_those_of_the_stock_layer(rng, shape, with_state, arguments):
    batch, steps, features, units = shape
    inputs = rng.normal(size=(batch, steps, features)).astype("float32")
    state = [rng.normal(size=(batch, units)).astype("float32") for _ in range(2)] if with_state else None
    assert_equal_to_stock(*pair(units, **arguments), inputs, state)


@pytest.mark.parametrize(
    "arguments", [{}, {"go_backwards": True}, {"zero_output_for_mask": True}, {"return_sequences": False}]
)
def test_masked_steps_are_skipped_as_in_the_stock_layer(rng, arguments):
    inputs = rng.normal(size=(4, 6, 4)).astype("float32")
    state = [rng.normal(size=(4, 5)).astype("float32") for _ in range(2)]
    mask = np.array([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 0, 1], [1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]], bool)
    for dtype in (bool, "int32"):
        assert_equal_to_stock(*pair(5, **arguments), inputs, state, mask=mask.astype(dtype))


def test_looped_sequences_give_the_same_results(rng, monkeypatch):
    monkeypatch.setattr(scan, "UNROLLED_STEPS", 3)
    inputs = rng.normal(size=(3, 6, 4)).astype("float32")
    mask = rng.random((3, 6)) < 0.7
    assert_equal_to_stock(*pair(5), inputs, mask=mask)
    assert_equal_to_stock(*pair(5, dropout=0.5, recurrent_dropout=0.5, seed=1), inputs, training=True)


@pytest.mark.parametrize("arguments", [{"recurrent_dropout": 0.5}, {"dropout": 0.3, "recurrent_dropout": 0.5}])
def test_dropout_masks_are_those_of_the_stock_layer(rng, arguments):
    inputs = rng.normal(size=(3, 6, 4)).astype("float32")
    assert_equal_to_stock(*pair(5, seed=7, **arguments), inputs, training=True)


def test_shared_dropout_masks_are_the_same_on_both_paths(rng, monkeypatch):
    inputs = rng.normal(size=(3, 6, 4)).astype("float32")
    fast, portable = (LSTM(5, dropout=0.5, recurrent_dropout=0.5, seed=7, shared_dropout_masks=True) for _ in range(2))
    for layer in (fast, portable):
        layer.build(inputs.shape)
    portable.set_weights(fast.get_weights())
    result = fast(inputs, training=True)
    use_portable(monkeypatch)
    np.testing.assert_allclose(result, portable(inputs, training=True), atol=1e-6)


def test_shared_dropout_masks_drop_a_unit_for_all_gates(rng):
    inputs = np.ones((1, 1, 200), "float32")
    layer = LSTM(1, dropout=0.5, recurrent_dropout=0.1, shared_dropout_masks=True, seed=3)
    layer.build(inputs.shape)
    kernel = np.repeat(rng.normal(size=(200, 1)), 4, axis=1)  # all gates read the same numbers
    layer.set_weights([kernel, np.zeros((1, 4)), np.zeros(4)])
    z = kernel[:, 0] * _input_mask(layer, inputs)
    gate = 1 / (1 + np.exp(-z.sum()))
    np.testing.assert_allclose(layer(inputs, training=True), [[gate * np.tanh(gate * np.tanh(z.sum()))]], atol=1e-5)


def _input_mask(layer, inputs):
    """The input mask that the next call draws."""
    twin = LSTM.from_config(layer.get_config())
    twin.build(inputs.shape)
    return np.array(twin._masks(inputs, np.zeros((1, 1), "float32"))[0][0])[0]


def test_input_dropout_keeps_one_mask_for_all_steps(rng):
    layer = LSTM(4, dropout=0.5, seed=3)
    step = rng.normal(size=(2, 1, 8)).astype("float32")
    twin = LSTM.from_config(layer.get_config())
    for each in (layer, twin):
        each.build(step.shape)
    twin.set_weights(layer.get_weights())
    mask = np.array(LSTM.from_config(layer.get_config())._masks(step, np.zeros((2, 4), "float32"))[0][0])
    steps = np.repeat(step, 5, axis=1)
    np.testing.assert_allclose(layer(steps, training=True), twin(steps * mask[:, None]), atol=1e-6)


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


@pytest.mark.parametrize("path", ["fast", "portable"])
def test_dropped_outputs_share_the_mask_of_the_recurrence(rng, monkeypatch, path):
    if path == "portable":
        use_portable(monkeypatch)
    inputs = rng.normal(size=(3, 6, 4)).astype("float32")
    arguments = {"recurrent_dropout": 0.5, "seed": 7, "return_sequences": True, "shared_dropout_masks": True}
    dropping, keeping = LSTM(5, drop_outputs=True, **arguments), LSTM(5, **arguments)
    for layer in (dropping, keeping):
        layer.build(inputs.shape)
    dropping.set_weights(keeping.get_weights())
    twin = LSTM(5, **arguments)
    mask = np.array(twin.cell.get_recurrent_dropout_mask(np.zeros((3, 5), "float32"))[0])
    expected = np.array(keeping(inputs, training=True)) * mask[:, None]
    np.testing.assert_allclose(dropping(inputs, training=True), expected, atol=1e-6)


def test_masks_are_drawn_in_training_only(rng):
    inputs = rng.normal(size=(3, 6, 4)).astype("float32")
    layer = LSTM(5, dropout=0.5, recurrent_dropout=0.5, seed=7)
    layer(inputs)
    before = np.array(layer.cell.seed_generator.state)
    layer(inputs)
    np.testing.assert_array_equal(layer.cell.seed_generator.state, before)


def test_drop_outputs_needs_shared_masks():
    with pytest.raises(ValueError, match="Received: drop_outputs=True, shared_dropout_masks=False"):
        LSTM(5, drop_outputs=True)


def capped_lstm(inputs, weights, hidden, cell):
    """Hidden states `[B, T, H]` of an LSTM with capped input gates, from the equations."""
    kernel, recurrent_kernel, bias = weights
    states = []
    for t in range(inputs.shape[1]):
        i, f, g, o = np.split(inputs[:, t] @ kernel + hidden @ recurrent_kernel + bias, 4, axis=1)
        cell = sigmoid(f) * cell + np.minimum(sigmoid(i), 1 - sigmoid(f)) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(cell)
        states.append(hidden)
    return np.stack(states, 1)


@pytest.mark.parametrize("path", ["fast", "portable"])
def test_capped_input_gates_equal_an_independent_computation(rng, monkeypatch, path):
    if path == "portable":
        use_portable(monkeypatch)
    inputs = rng.normal(size=(3, 6, 4)).astype("float32")
    layer = LSTM(5, cap_input_gate=True, return_sequences=True, kernel_initializer="normal", bias_initializer="normal")
    layer.build(inputs.shape)
    layer.set_weights([rng.normal(size=w.shape) for w in layer.get_weights()])
    state = [rng.normal(size=(3, 5)).astype("float32") for _ in range(2)]
    expected = capped_lstm(inputs, layer.get_weights(), *state)
    free = LSTM(5, return_sequences=True)
    free.build(inputs.shape)
    free.set_weights(layer.get_weights())
    np.testing.assert_allclose(layer(inputs, initial_state=state), expected, atol=1e-5)
    assert np.abs(free(inputs, initial_state=state) - expected).max() > 0.05


SPECIAL = {
    "capped": {"cap_input_gate": True},
    "weight drop": {"weight_drop": 0.5},
    "both": {"cap_input_gate": True, "weight_drop": 0.5, "shared_dropout_masks": True},
    "masks per gate": {"cap_input_gate": True, "dropout": 0.3, "recurrent_dropout": 0.5, "weight_drop": 0.2},
    "backwards": {"cap_input_gate": True, "go_backwards": True, "use_bias": False, "zero_output_for_mask": True},
}


def on_both_paths(monkeypatch, inputs, state, mask, weights, **arguments):
    """Pairs of a value or gradient of the fast path and of the portable one."""
    found = []
    for use in (lambda patch: None, use_portable):
        with monkeypatch.context() as patch:
            use(patch)
            layer = layer_with(inputs, weights, **arguments)
            found.append(values_and_gradients(layer, inputs, state, training=True, mask=mask))
    return zip(*map(tf.nest.flatten, found), strict=True)


def layer_with(inputs, weights, **arguments):
    layer = LSTM(5, seed=7, return_sequences=True, return_state=True, **arguments)
    layer.build(inputs.shape)
    layer.set_weights(weights[: len(layer.weights)])
    return layer


@pytest.mark.parametrize("looped", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("arguments", SPECIAL.values(), ids=SPECIAL)
def test_capped_gates_and_weight_drop_are_the_same_on_both_paths(monkeypatch, arguments, masked, looped):
    rng = np.random.default_rng(8)  # no gate is so near to its cap that rounding decides where the gradient goes
    monkeypatch.setattr(scan, "UNROLLED_STEPS", 3 if looped else 8)
    inputs = rng.normal(size=(3, 6, 4)).astype("float32")
    state = [rng.normal(size=(3, 5)).astype("float32") for _ in range(2)]
    mask = rng.random((3, 6)) < 0.7 if masked else None
    weights = [rng.normal(size=shape) for shape in ((4, 20), (5, 20), 20)]
    exact = []
    for each, other in on_both_paths(monkeypatch, inputs, state, mask, weights, **arguments):
        np.testing.assert_allclose(each, other, atol=1e-5, rtol=1e-5)
        exact.append(np.array(each))
    monkeypatch.setattr(gradients, "LARGE_KERNEL", 1)
    layer = layer_with(inputs, weights, dtype="mixed_bfloat16", **arguments)  # with the same masks
    rounded = tf.nest.flatten(values_and_gradients(layer, inputs, state, training=True, mask=mask))
    for each, other in zip(rounded, exact, strict=True):
        assert 0 < np.abs(np.array(each, "float32") - other).max() < 0.04 * np.abs(other).max()


@pytest.mark.parametrize("path", ["fast", "portable"])
def test_weight_drop_zeroes_elements_of_the_recurrent_matrix_in_training_only(rng, monkeypatch, path):
    if path == "portable":
        use_portable(monkeypatch)
    inputs = rng.normal(size=(3, 6, 4)).astype("float32")
    dropping, plain = LSTM(5, weight_drop=0.4, seed=7), LSTM(5)
    for layer in (dropping, plain):
        layer.build(inputs.shape)
    kernel, recurrent_kernel, bias = dropping.get_weights()
    mask = np.array(LSTM.from_config(dropping.get_config())._kernel_mask())
    assert set(np.unique(mask)) == {np.float32(0), np.float32(1 / 0.6)}
    plain.set_weights([kernel, recurrent_kernel * mask, bias])
    np.testing.assert_allclose(dropping(inputs, training=True), plain(inputs), atol=1e-6)
    again = np.array(dropping(inputs, training=True))
    assert np.abs(again - plain(inputs)).max() > 1e-3  # the next window has another mask
    plain.set_weights([kernel, recurrent_kernel, bias])
    np.testing.assert_allclose(dropping(inputs), plain(inputs), atol=1e-6)


def test_dropped_elements_of_the_recurrent_matrix_have_no_gradient(rng):
    inputs = rng.normal(size=(3, 6, 4)).astype("float32")
    layer = LSTM(5, weight_drop=0.4, seed=7)
    layer.build(inputs.shape)
    kept = np.array(LSTM.from_config(layer.get_config())._kernel_mask()) > 0
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(inputs, training=True))
    gradient = tape.gradient(loss, layer.cell.recurrent_kernel.value).numpy()
    np.testing.assert_array_equal(gradient != 0, kept)


def test_in_bfloat16_outputs_are_nearer_to_the_exact_ones_than_those_of_the_stock_layer(rng):
    inputs = rng.normal(size=(4, 30, 8)).astype("float32")
    ours, stock = pair(16, return_state=False, dtype="mixed_bfloat16")
    exact = keras.layers.LSTM(16, return_sequences=True, dtype="float64")
    for layer in (ours, stock, exact):
        layer.build(inputs.shape)
        layer.set_weights(ours.get_weights())
    error, stock_error = (np.abs(np.array(layer(inputs), "float64") - exact(inputs)).mean() for layer in (ours, stock))
    assert error < 0.75 * stock_error  # half on processors that compute in bfloat16, 0.6 where TensorFlow emulates it


def test_float64_stays_float64(rng):
    inputs = rng.normal(size=(2, 5, 3))
    ours, stock = pair(4, return_state=False, dtype="float64")
    for layer in (ours, stock):
        layer.build(inputs.shape)
        layer.set_weights(ours.get_weights())
    np.testing.assert_allclose(ours(inputs), stock(inputs), atol=1e-14)


def test_weight_drop_must_be_a_rate():
    with pytest.raises(ValueError, match=r"`weight_drop` must be in \[0, 1\). Received: weight_drop=1"):
        LSTM(5, weight_drop=1)


@pytest.mark.parametrize("method", ["next_states", "gates", "prepare", "recurrence_weights"])
def test_the_steps_of_a_subclass_are_those_that_run(rng, method):
    used = []

    def changed(self, *arguments):
        used.append(method)
        return getattr(LSTM, method)(self, *arguments)

    layer = type("Changed", (LSTM,), {method: changed})(5, return_sequences=True)
    inputs = rng.normal(size=(2, 3, 4)).astype("float32")
    outputs = layer(inputs)
    assert used
    plain = LSTM(5, return_sequences=True)
    plain.build(inputs.shape)
    plain.set_weights(layer.get_weights())
    np.testing.assert_allclose(outputs, plain(inputs), rtol=1e-5, atol=1e-6)
