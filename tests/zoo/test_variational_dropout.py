import keras
import numpy as np
import pytest
from scipy.special import expit as sigmoid

from keras_tying import zoo
from keras_tying.layers import WordDropout
from keras_tying.losses import AugmentedLoss
from keras_tying.zoo import VariationalDropout, recurrent_language_model

V, H = 13, 40


def model_with(**rates):
    return recurrent_language_model(V, H, initializer_range=0.5, dropout=VariationalDropout(**rates))


def hidden_states(model, tokens):
    return np.array(model.hidden_states(tokens, training=True)[0])


def test_output_mask_holds_for_the_window(rng):
    hidden = hidden_states(model_with(outputs=0.5), rng.integers(0, V, (3, 6)))
    dropped = hidden == 0
    assert np.array_equal(dropped, np.repeat(dropped[:, :1], 6, axis=1))
    assert 0.3 < dropped.mean() < 0.7
    assert not np.array_equal(dropped[0], dropped[1])


def test_dropped_word_is_dropped_at_all_positions_of_the_row():
    model = model_with(words=0.5)
    tokens = np.tile(np.arange(V), (4, 3))
    word_dropout = model.hidden_layers[0]
    assert isinstance(word_dropout, WordDropout)
    embedded = np.array(word_dropout(model.embedding(tokens), tokens, training=True))
    dropped = np.all(embedded == 0, axis=-1).reshape(4, 3, V)
    assert np.array_equal(dropped, np.repeat(dropped[:, :1], 3, axis=1))
    assert 0.2 < dropped.mean() < 0.8
    kept = embedded[~dropped.reshape(4, -1)]
    np.testing.assert_allclose(kept, 2 * np.array(model.embedding(tokens))[~dropped.reshape(4, -1)], rtol=1e-6)


def test_recurrence_next_layer_and_output_share_a_mask(rng):
    """Both layers from the equations, with masks taken from the outputs."""
    model = model_with(hidden=0.5, shared=True)
    tokens = rng.integers(0, V, (2, 5))
    hidden = np.array(model.embedding(tokens))
    for layer in model.recurrent_layers:
        outputs, *_ = (np.array(o) for o in layer(hidden, training=True))
        mask = np.where(np.all(outputs == 0, axis=1), 0.0, 2.0)
        kernel, recurrent, bias = (keras.ops.convert_to_numpy(v) for v in layer.trainable_variables)
        h, c = np.zeros((2, H)), np.zeros((2, H))
        for t in range(5):
            i, f, g, o = np.split(hidden[:, t] @ kernel + (h * mask) @ recurrent + bias, 4, axis=-1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            np.testing.assert_allclose(outputs[:, t], h * mask, atol=1e-5)
        assert 0.3 < (mask == 0).mean() < 0.7
        hidden = outputs


def test_inputs_beside_shared_masks_drop_units_of_embedded_words_for_the_window(rng):
    model = model_with(inputs=0.5, hidden=0.5, shared=True)
    dropout, *others = model.hidden_layers
    assert [layer.name for layer in others] == ["recurrent_0", "recurrent_1"]
    assert [(layer.dropout, layer.recurrent_dropout) for layer in others] == [(0.0, 0.5)] * 2
    embedded = np.array(model.embedding(rng.integers(0, V, (3, 6))))
    dropped = np.array(dropout(embedded, training=True)) == 0
    assert np.array_equal(dropped, np.repeat(dropped[:, :1], 6, axis=1))
    assert 0.3 < dropped.mean() < 0.7


def test_carried_states_are_not_masked(rng):
    model = model_with(hidden=0.5, shared=True)
    _, states = model.hidden_states(rng.integers(0, V, (2, 5)), training=True)
    assert all(np.all(np.array(state) != 0) for state in states)


def test_nothing_is_dropped_without_training(rng):
    tokens = rng.integers(0, V, (2, 5))
    plain = recurrent_language_model(V, H)
    dropping = recurrent_language_model(V, H, dropout=VariationalDropout(0.5, 0.5, 0.5, 0.5))
    dropping.set_weights(plain.get_weights())
    np.testing.assert_array_equal(dropping.predict(tokens, verbose=0), plain.predict(tokens, verbose=0))


def test_model_with_variational_dropout_saves_and_loads(rng, tmp_path):
    model = zoo.vd_lstm_small(tied=True, vocabulary_size=V)
    model.compile("sgd", AugmentedLoss(target_gradient=True))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert [layer.recurrent_dropout for layer in again.recurrent_layers] == [0.3, 0.3]
    assert all(layer.drop_outputs and layer.shared_dropout_masks for layer in again.recurrent_layers)
    assert again.loss.get_config() == model.loss.get_config()


@pytest.mark.parametrize(("tied", "parameters"), [(False, 4_651_600), (True, 2_641_600)])
def test_vd_lstm_small_reuses_the_embedding_without_a_bias(tied, parameters):
    model = zoo.vd_lstm_small(tied=tied)
    assert model.count_params() == parameters
    assert (model.embedding.bias is None) == tied


@pytest.mark.parametrize(
    ("dropout", "message"),
    [
        ({"words": 1.0}, r"`words` must be in \[0, 1\). Received: words=1.0"),
        ({"hidden": -0.1}, r"`hidden` must be in \[0, 1\). Received: hidden=-0.1"),
        ({"hidden": 0.3, "outputs": 0.2, "shared": True}, r"must be 0: .* Received: outputs=0.2"),
        (1.0, r"`dropout` must be in \[0, 1\). Received: dropout=1.0"),
    ],
)
def test_rates_out_of_range_raise(dropout, message):
    with pytest.raises(ValueError, match=message):
        recurrent_language_model(V, H, dropout=dropout)
