import keras
import numpy as np
import pytest

from keras_tying.layers import LSTM, TiedEmbedding
from keras_tying.models import LanguageModel
from keras_tying.optimizers import ClippedSGD

V, H = 13, 4


STATES = {"return_sequences": True, "return_state": True}


@keras.saving.register_keras_serializable("tests")
class CausalBlock(keras.layers.Layer):
    """A causal Transformer block."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.attention = keras.layers.MultiHeadAttention(2, 3)
        self.norm = keras.layers.LayerNormalization()
        self.dense = keras.layers.Dense(H)

    def call(self, inputs):
        hidden = inputs + self.attention(inputs, inputs, use_causal_mask=True)
        return hidden + self.dense(self.norm(hidden))


LAYERS = {
    "Keras LSTM": lambda: [keras.layers.LSTM(5, **STATES), keras.layers.Dense(H)],
    "Keras GRU": lambda: [keras.layers.GRU(H, **STATES)],
    "cells": lambda: [keras.layers.RNN([keras.layers.GRUCell(3), keras.layers.LSTMCell(H)], **STATES)],
    "simple cell": lambda: [keras.layers.RNN(keras.layers.SimpleRNNCell(H), **STATES), keras.layers.Dropout(0.5)],
    "convolution": lambda: [keras.layers.Conv1D(H, 3, padding="causal", activation="tanh")],
    "Transformer": lambda: [CausalBlock()],
    "LSTM and convolution": lambda: [LSTM(6, **STATES), keras.layers.Conv1D(H, 2, padding="causal")],
}


@pytest.fixture(params=LAYERS)
def composed(request, rng):
    model = LanguageModel(TiedEmbedding(V, H), LAYERS[request.param]())
    model.set_weights([rng.normal(size=w.shape) / 2 for w in model.get_weights()])
    return model


def test_any_layers_train_and_save(composed, rng, tmp_path):
    tokens, targets = rng.integers(0, V, (2, 4, 6))
    composed.carry_state(4)
    composed.compile(ClippedSGD(0.5))
    first = composed.train_on_batch(tokens, targets, return_dict=True)["loss"]
    history = composed.fit(tokens, targets, batch_size=4, epochs=20, verbose=0).history["loss"]
    assert history[-1] < first
    composed.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(tokens, verbose=0), composed.predict(tokens, verbose=0))
    assert sum(len(v.shape) == 2 and V in v.shape for v in again.trainable_variables) == 1  # it is tied
    copy = keras.models.clone_model(composed)
    assert [v.shape for v in copy.trainable_variables] == [v.shape for v in composed.trainable_variables]


def test_generation_of_any_model_is_that_of_its_logits(composed):
    text = [[1, 2, 5]]
    for _ in range(4):
        text[0].append(int(np.argmax(composed.predict(np.array(text), verbose=0)[0, -1])))
    assert composed.generate([[1, 2, 5]], 4, temperature=0).tolist() == [text[0][3:]]


@pytest.mark.parametrize("name", ["Keras LSTM", "Keras GRU", "cells", "simple cell"])
def test_recurrent_layers_of_keras_carry_their_states(name, rng):
    model, tokens = LanguageModel(TiedEmbedding(V, H), LAYERS[name]()), rng.integers(0, V, (2, 8))
    assert model.reads_word_by_word
    first, states = model(tokens[:, :5], return_states=True)
    second = model(tokens[:, 5:], states=states)
    np.testing.assert_allclose(np.concatenate([first, second], 1), model(tokens), atol=1e-6)


def test_models_with_convolution_or_attention_do_not_read_word_by_word():
    for name in ("convolution", "Transformer", "LSTM and convolution"):
        assert not LanguageModel(TiedEmbedding(V, H), LAYERS[name]()).reads_word_by_word


@pytest.mark.parametrize(
    ("embedding", "layers", "message"),
    [
        (TiedEmbedding(V, H), [keras.layers.GRU(H)], r"GRU 'gru.*' with return_sequences=False, return_state=False"),
        (TiedEmbedding(V, H), [LSTM(H, return_state=True)], r"with return_sequences=False, return_state=True"),
        (TiedEmbedding(V, H), [keras.layers.Conv1D(H, 3, padding="same", name="c")], r"later words.* \['c'\]"),
        (
            TiedEmbedding(V, H),
            [LSTM(H, return_sequences=True, return_state=True, go_backwards=True, name="r")],
            r"later words.* \['r'\]",
        ),
        (
            TiedEmbedding(V, H),
            [keras.Sequential([keras.layers.Bidirectional(keras.layers.GRU(H), name="b")])],
            r"later words.* \['b'\]",
        ),
        (TiedEmbedding(V, H), [keras.layers.Dense(7)], rf"width of the embedding, {H}; .* layer of width 7"),
        (
            keras.layers.Embedding(V, H),
            [],
            r"`embedding` must be a TiedEmbedding or AdaptiveEmbedding. Received: embedding=<Embedding",
        ),
    ],
)
def test_unsuitable_layers_raise(embedding, layers, message):
    with pytest.raises(ValueError, match=message):
        LanguageModel(embedding, layers)
