"""Copies of a user's own models that have an `Embedding` and a `Dense` layer of Keras: tied, and with other words."""

import keras
import numpy as np
import pytest

import keras_tying as kt
from tests.models.copies import H, V, logits, train


def functional(embedding=None, width=H, **dense):
    words = keras.Input((None,), dtype="int32")
    hidden = (embedding or keras.layers.Embedding(V, H, name="words"))(words)
    hidden = keras.layers.LSTM(width, return_sequences=True)(hidden)
    return keras.Model(words, keras.layers.Dense(V, name="scores", **dense)(hidden))


def sequential():
    layers = [keras.layers.Embedding(V, H), keras.layers.Dense(H, "tanh"), keras.layers.Dense(V, use_bias=False)]
    return keras.Sequential([keras.Input((None,), dtype="int32"), *layers])


def nested():
    hidden = keras.Input((None, H))
    words = keras.Input((None,), dtype="int32")
    inner = keras.Sequential([keras.layers.Embedding(V, H, name="words"), keras.layers.Dense(H)])
    outer = keras.Model(hidden, keras.layers.Dense(H)(hidden))
    return keras.Model(words, keras.layers.Dense(V)(outer(inner(words))))


MAKE = {"functional": functional, "Sequential": sequential, "nested": nested}


def trained(make, text, optimizer="adam"):
    keras.utils.set_random_seed(0)
    model = kt.models.without_logits(make())
    model.compile(optimizer, run_eagerly=True)
    train(model, text)
    return model


def matrices(model):
    """The input and the output matrix `[V, H]`."""
    layers = model.embedding_arguments()
    return np.array(layers["embedding"].embeddings), np.array(model.output_projection.embeddings)


@pytest.mark.parametrize("matrix", ["input", "output", "mean"])
@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_both_layers_become_one_tied_embedding(make, matrix, text, tmp_path):
    model = trained(make, text)
    tied = model.tied_copy(matrix)
    before = dict(zip(("input", "output"), matrices(model), strict=True))
    expected = before.get(matrix, (before["input"] + before["output"]) / 2)
    for found in matrices(tied):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    if (bias := model.output_embedding.bias) is not None:
        np.testing.assert_array_equal(tied.embedding.bias, bias)
    assert tied.count_params() == model.count_params() - V * H
    assert np.isfinite(train(tied, text))
    tied.save(tmp_path / "model.keras")
    for copy in (keras.models.load_model(tmp_path / "model.keras"), tied.resized(V + 3).resized(V)):
        np.testing.assert_allclose(logits(copy, text), logits(tied, text), atol=1e-6)


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_a_copy_of_all_rows_trains_on_as_the_model(make, text):
    momentum = keras.optimizers.SGD(0.5, momentum=0.9)  # Keras squares gradients of repeated words one by one
    model = trained(make, text, momentum)
    copy = model.with_rows(range(V))
    np.testing.assert_allclose(logits(copy, text), logits(model, text), atol=1e-6)
    np.testing.assert_allclose([train(copy, text) for _ in range(3)], [train(model, text) for _ in range(3)], rtol=1e-5)
    for ours, its in zip(matrices(copy), matrices(model), strict=True):
        np.testing.assert_allclose(ours, its, atol=1e-5)


def test_padding_and_the_type_of_scores_are_kept(text):
    keras.utils.set_random_seed(0)
    embedding = keras.layers.Embedding(V, H, mask_zero=True, dtype="mixed_bfloat16", name="words")
    model = kt.models.without_logits(functional(embedding, dtype="float32"))
    tied, words = model.tied_copy("output"), np.where(text[0] == 1, 0, text[0])
    assert tied.embedding.mask_zero
    assert tied(words).dtype == "float32"
    counted = [np.array(each(words, targets=text[1]).counted) for each in (tied, model)]
    assert counted[0].sum() < words.size
    np.testing.assert_array_equal(*counted)


@pytest.mark.parametrize("places", [[1, 3], [2]])
def test_frozen_layers_stay_frozen(places):
    plain = functional()
    for place in places:
        plain.layers[place].trainable = False
    copy = kt.models.without_logits(plain).with_rows(range(V))
    assert copy.embedding.trainable == (1 not in places)
    assert copy.backbone.layers[2].trainable == (2 not in places)


@keras.saving.register_keras_serializable("test_joined_embedding")
class Doubled(keras.layers.Layer):
    """A layer that asks an embedding for its mask."""

    def __init__(self, embedding, **kwargs):
        super().__init__(**kwargs)
        self.embedding = embedding

    def call(self, words):
        return 2.0 * self.embedding(words)

    def compute_mask(self, words, mask=None):
        return self.embedding.compute_mask(words)

    def get_config(self):
        return {**super().get_config(), "embedding": keras.saving.serialize_keras_object(self.embedding)}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "embedding": keras.saving.deserialize_keras_object(config["embedding"])})


def test_a_layer_that_asks_for_the_mask_gets_it():
    words = keras.Input((None,), dtype="int32")
    hidden = Doubled(keras.layers.Embedding(V, H, mask_zero=True))(words)
    model = kt.models.without_logits(keras.Model(words, keras.layers.Dense(V)(keras.layers.Dense(H)(hidden))))
    ids = np.array([[3, 1, 0, 0]])
    for each in (model, model.tied_copy("output")):
        np.testing.assert_array_equal(each(ids, targets=ids).counted, [[1, 1, 0, 0]])


def test_weights_without_decay_are_those_of_the_model(text):
    model = kt.models.without_logits(functional())
    optimizer = keras.optimizers.SGD(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["embeddings", "bias"])  # the matrix of the copy has such a name
    model.compile(optimizer)
    train(model, text)
    copy = model.with_rows(range(V))
    for each in (model, copy):
        train(each, text)
    for ours, its in zip(matrices(copy), matrices(model), strict=True):
        np.testing.assert_allclose(ours, its, atol=1e-5)


def test_an_optimizer_that_goes_by_paths_is_refused(text):
    model = kt.models.without_logits(functional())
    model.compile(keras.optimizers.Muon(0.01))
    train(model, text)
    with pytest.raises(ValueError, match=r"by the same rule .* Received: Muon, .*reverse_embeddings by another rule"):
        model.tied_copy("output")
    model = kt.models.without_logits(functional())
    model.compile(keras.optimizers.Muon(0.01, exclude_layers=["scores"]))
    train(model, text)
    assert np.isfinite(train(model.tied_copy("output"), text))


def with_lora():
    model = functional()
    model.layers[1].enable_lora(2)
    return model


def frozen():
    model = functional()
    model.layers[1].trainable = False
    return model


def two_lookups():
    words = keras.Input((None,), dtype="int32")
    hidden = [keras.layers.Embedding(V, width, name=f"width_{width}")(words) for width in (H, 3)]
    return keras.Model(words, keras.layers.Dense(V)(keras.layers.Dense(H)(keras.layers.Concatenate()(hidden))))


def scores_within():
    words, dense = keras.Input((None,), dtype="int32"), keras.layers.Dense(V, name="scores")
    dense.build((None, H))
    hidden = keras.layers.Dense(H)(dense(keras.layers.Embedding(V, H)(words)))
    return keras.Model(words, dense(hidden))


def shared_by_models():
    words, embedding = keras.Input((None,), dtype="int32"), keras.layers.Embedding(V, H, name="words")
    models = [keras.Sequential([embedding, keras.layers.Dense(H)]) for _ in range(2)]
    return keras.Model(words, keras.layers.Dense(V)(keras.layers.Add()([model(words) for model in models])))


WRONG = {
    "another width": (lambda: functional(width=5), "Received: 'scores' of width 5 and 'words' of width 6"),
    "two lookups": (two_lookups, "need exactly one .* its 40 words; .* 'width_"),
    "of a subclass": (lambda: functional(kt.layers.TiedEmbedding(V, H)), "Received: no such layer"),
    "a regularizer": (lambda: functional(kernel_regularizer="l2"), "Received: kernel_regularizer of 'scores'"),
    "LoRA": (with_lora, "Received: LoRA of 'words'"),
    "two places": (shared_by_models, "must describe the keras.layers.Embedding in one place, .* 'words' in 2 places"),
    "scores that are read": (scores_within, "not called within the backbone. Received: 'scores'"),
    "variables of two types": (lambda: functional(dtype="float64"), "Received: variables in float32 and float64"),
    "one frozen": (frozen, "Received: 'words' and 'scores', of which one is frozen"),
}


@pytest.mark.parametrize(("make", "message"), WRONG.values(), ids=WRONG)
def test_layers_that_cannot_become_one_are_named(make, message):
    model = kt.models.without_logits(make())
    for change in (lambda: model.tied_copy("output"), lambda: model.resized(V + 3), model.untied_copy):
        with pytest.raises(ValueError, match=message):
            change()


def test_an_untied_model_has_no_untied_copy():
    with pytest.raises(ValueError, match="Received: one that is untied already"):
        kt.models.without_logits(functional()).untied_copy()
