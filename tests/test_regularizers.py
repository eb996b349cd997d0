import keras
import numpy as np
import pytest

from keras_tying import zoo
from keras_tying.regularizers import ActivationRegularizer, ProjectionRegularizer, TemporalActivationRegularizer


def test_half_squared_norm_is_divided_by_the_batch(rng):
    projection = rng.normal(size=(5, 5)).astype("float32")
    penalty = ProjectionRegularizer(scale=0.15, batch_size=20)(projection)
    np.testing.assert_allclose(penalty, 0.15 * np.sum(projection**2) / 2 / 20, rtol=1e-6)


def test_frobenius_norm_is_not_squared(rng):
    projection = rng.normal(size=(5, 5)).astype("float32")
    penalty = ProjectionRegularizer(scale=0.15, norm="frobenius")(projection)
    np.testing.assert_allclose(penalty, 0.15 * np.linalg.norm(projection), rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale": -1}, "scale=-1"),
        ({"norm": "l1"}, "norm='l1'"),
        ({"batch_size": 0}, "batch_size=0"),
    ],
)
def test_arguments_out_of_range_raise(arguments, message):
    with pytest.raises(ValueError, match=f"Received: {message}"):
        ProjectionRegularizer(**arguments)


def test_activation_penalties_are_those_of_the_formulas(rng):
    hidden = rng.normal(size=(3, 7, 5)).astype("float32")
    np.testing.assert_allclose(ActivationRegularizer(scale=2.0)(hidden), 2 * 21 * np.mean(hidden**2), rtol=1e-5)
    changes = np.diff(hidden, axis=1)
    np.testing.assert_allclose(TemporalActivationRegularizer(scale=0.5)(hidden), 10.5 * np.mean(changes**2), rtol=1e-5)
    assert float(TemporalActivationRegularizer()(hidden[:, :1])) == 0


@pytest.mark.parametrize("kind", [ActivationRegularizer, TemporalActivationRegularizer])
def test_returned_states_are_not_penalized(rng, kind):
    inputs = rng.normal(size=(3, 7, 5)).astype("float32")
    layer = keras.layers.LSTM(4, return_sequences=True, return_state=True, activity_regularizer=kind())
    hidden, *_ = layer(inputs)
    np.testing.assert_allclose(float(sum(layer.losses)), float(kind()(hidden)) / 3, rtol=1e-5)


@pytest.mark.parametrize("kind", [ActivationRegularizer, TemporalActivationRegularizer])
def test_a_negative_scale_raises(kind):
    with pytest.raises(ValueError, match="Received: scale=-1"):
        kind(scale=-1)


def test_a_model_is_penalized_for_dropped_outputs_and_for_changes_of_raw_ones(rng):
    tokens = rng.integers(0, 11, (3, 7))
    sizes = {"vocabulary_size": 11, "embedding_size": 4, "units": 6, "num_layers": 1}
    model = zoo.awd_lstm(**sizes, word_dropout=0.0, input_dropout=0.0, weight_drop=0.0, output_dropout=0.5)
    model(tokens, training=True)
    hidden = model.embedding(tokens)
    raw = np.array(model.get_layer("recurrent_0")(hidden)[0])
    temporal, activation = (float(loss) for loss in model.losses)
    np.testing.assert_allclose(temporal, 7 * np.mean(np.diff(raw, axis=1) ** 2), rtol=1e-4)
    model(tokens)
    np.testing.assert_allclose(float(model.losses[1]), 2 * 7 * np.mean(raw**2), rtol=1e-4)
    assert not np.isclose(float(model.losses[1]), activation, rtol=1e-2)  # of outputs with dropout
