"""Language models whose hidden layers contain layers that have another place in the model: copies share as they do."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_tying.layers import LSTM, TiedDense, TiedEmbedding
from keras_tying.models import LanguageModel
from tests.layers.own_projection import OwnProjection

V, H = 12, 4


@keras.saving.register_keras_serializable("tests_layers_within_layers")
class MeansOfWords(OwnProjection):
    """Means of embeddings, weighted by the probabilities of their words."""

    def call(self, hidden):
        return ops.matmul(ops.softmax(super().call(hidden)), self.embedding.output_embeddings)


def functional(*layers):
    hidden = outputs = keras.Input((None, H))
    for layer in layers:
        outputs = layer(outputs)
    return keras.Model(hidden, outputs)


def rescored(embedding):
    hidden = keras.Input((None, H))
    scores = embedding(hidden, reverse=True)
    return keras.Model(hidden, hidden + keras.layers.Dense(H)(keras.layers.Softmax()(scores)))


LAYERS = {
    "functional model": lambda embedding: [rescored(embedding)],
    "two functional models": lambda embedding: [rescored(embedding), rescored(embedding)],
    "TiedDense": lambda embedding: [TiedDense(embedding, activation="softmax"), keras.layers.Dense(H)],
    "TiedDense within": lambda embedding: [functional(TiedDense(embedding), keras.layers.Dense(H))],
    "layer of a user": lambda embedding: [MeansOfWords(embedding)],
    "a layer and a model of it": lambda _: [dense := keras.layers.Dense(H), keras.Sequential([dense])],
}

COPIES = {
    "recursive clone": lambda model: keras.models.clone_model(model, recursive=True),
    "clone of a clone": lambda model: keras.models.clone_model(keras.models.clone_model(model)),
    "JSON": lambda model: keras.models.model_from_json(model.to_json()),
}


def made(name):
    embedding = TiedEmbedding(V, H)
    recurrent = LSTM(H, return_sequences=True, return_state=True)
    return LanguageModel(embedding, [recurrent, *LAYERS[name](embedding)])


def trained(model, rng):
    model.compile("adam", run_eagerly=True)
    for words in rng.integers(0, V, (2, 2, 3)):
        model.train_on_batch(words, words)
    return model(words)


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", LAYERS)
def test_a_copy_shares_and_trains_as_the_model(name, way):
    model = made(name)
    copied = COPIES[way](model)
    assert copied.count_params() == model.count_params()
    copied.set_weights(model.get_weights())
    expected = trained(model, np.random.default_rng(0))
    np.testing.assert_allclose(trained(copied, np.random.default_rng(0)), expected, atol=1e-6)


@pytest.mark.parametrize("name", LAYERS)
def test_a_file_shares_and_what_it_gives_is_copied_again(name, tmp_path, rng):
    model, words = made(name), rng.integers(0, V, (2, 5))
    trained(model, rng)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(words), model(words))
    copied = keras.models.clone_model(loaded)
    assert copied.count_params() == loaded.count_params() == model.count_params()
    copied.set_weights(loaded.get_weights())
    np.testing.assert_array_equal(copied(words), model(words))


@pytest.mark.parametrize("name", LAYERS)
def test_changed_copies_compute_the_same(name, rng):
    model, words = made(name), rng.integers(0, V, (2, 5))
    trained(model, rng)
    untied = model.untied_copy()
    assert untied.count_params() == model.count_params() + V * H
    np.testing.assert_allclose(untied(words), model(words), atol=1e-6)
    copy = model.with_precision("mixed_bfloat16")
    np.testing.assert_allclose(copy(words), model(words), atol=0.01)
    layers = [layer for layer in copy._flatten_layers() if layer.weights and not isinstance(layer, keras.Model)]
    assert {layer.compute_dtype for layer in layers} == {"bfloat16"}


@pytest.mark.parametrize("name", ["layer of a user", "a layer and a model of it"])
def test_more_words_leave_layers_of_other_sizes_as_they_are(name, rng):
    model, words = made(name), rng.integers(0, V, (2, 5))
    larger = model.resized(V + 1)
    assert larger.count_params() == model.count_params() + H + 1
    assert name == "layer of a user" or np.allclose(larger(words)[..., :V], model(words), atol=1e-6)


def test_a_layer_that_depends_on_the_number_of_words_is_named():
    with pytest.raises(ValueError, match=r"Received: .*dense.*/kernel, whose shape \(12, 4\) would become \(13, 4\)"):
        made("TiedDense").resized(V + 1)


def test_a_copy_that_would_not_share_is_refused():
    dense = keras.layers.Dense(H)
    model = LanguageModel(TiedEmbedding(V, H), [functional(dense), functional(dense)])
    with pytest.raises(ValueError, match=r"Make one model .* Received: 1 places that share a layer, 0 in"):
        keras.models.clone_model(model)
