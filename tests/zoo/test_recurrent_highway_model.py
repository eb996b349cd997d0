from functools import partial

import keras
import numpy as np
import pytest

from keras_tying import zoo
from keras_tying.layers import RecurrentHighway
from keras_tying.optimizers import ClippedSGD
from keras_tying.zoo import VariationalDropout, recurrent_language_model

V = 11


@pytest.mark.parametrize(("tied", "parameters"), [(False, 31_782_400), (True, 23_482_400)])
def test_rhn_has_the_published_size(tied, parameters):
    assert zoo.rhn(tied=tied).count_params() == parameters


@pytest.fixture
def model():
    return recurrent_language_model(V, 6, recurrent_layer=partial(RecurrentHighway, depth=3), initializer_range=0.5)


def test_model_equals_an_independent_computation(rng, model):
    tokens = rng.integers(0, V, (2, 5))
    embeddings = np.array(model.embedding.embeddings)
    hidden = embeddings[tokens]
    for layer in model.recurrent_layers:
        kernel, kernels, biases = (np.array(v) for v in layer.get_weights())
        state, outputs = np.zeros((2, 6)), []
        for t in range(5):
            for micro in range(3):
                gates = state @ kernels[micro] + biases[micro] + (hidden[:, t] @ kernel if micro == 0 else 0)
                transform = 1 / (1 + np.exp(-gates[:, 6:]))
                state = transform * np.tanh(gates[:, :6]) + (1 - transform) * state
            outputs.append(state)
        hidden = np.stack(outputs, 1)
    expected = hidden @ embeddings.T + np.array(model.embedding.bias)
    np.testing.assert_allclose(model.predict(tokens, verbose=0), expected, atol=1e-5)


def test_state_carries_from_window_to_window(rng, model):
    tokens = rng.integers(0, V, (2, 8))
    expected = model.score(tokens, tokens)
    first, states = model.token_log_probabilities(tokens[:, :3], tokens[:, :3])
    assert len(states) == 2
    rest = model.score(tokens[:, 3:], tokens[:, 3:], states)
    np.testing.assert_allclose(np.concatenate([first, rest], axis=1), expected, atol=1e-5)


def test_model_trains_saves_and_generates(rng, tmp_path):
    tokens = rng.integers(0, V, (4, 6))
    dropout = VariationalDropout(words=0.2, inputs=0.3, hidden=0.2, outputs=0.3)
    model = zoo.rhn(vocabulary_size=V, units=6, depth=2, dropout=dropout)
    model.carry_state(4)
    model.compile(ClippedSGD(0.5))
    assert np.isfinite(model.fit(tokens, tokens, batch_size=4, verbose=0).history["loss"][0])
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.score(tokens, tokens), model.score(tokens, tokens))
    assert again.generate(tokens[:1], 3, seed=0).shape == (1, 3)


def test_shared_masks_raise():
    with pytest.raises(ValueError, match=r"no `shared` masks; .* Received: dropout=VariationalDropout"):
        zoo.rhn(vocabulary_size=V, dropout=VariationalDropout(hidden=0.5, shared=True))
