"""Embeddings that nested models share stay shared in files."""

import copy

import keras
import numpy as np
import pytest

import keras_tying as kt
from keras_tying.layers import AdaptiveEmbedding, TiedDense, TiedEmbedding
from tests.layers.own_projection import OwnProjection
from tests.layers.saved_models import saved_and_loaded

V, H = 20, 8


@keras.saving.register_keras_serializable("tests_shared_place")
class OwnEmbedding(TiedEmbedding):
    """A class that a user derives."""


@keras.saving.register_keras_serializable("tests_shared_place")
class EmbeddingMadeAnew(TiedEmbedding):
    """A class of a user that does not call `from_config` of its parent."""

    @classmethod
    def from_config(cls, config):
        return cls(**config)


@keras.saving.register_keras_serializable("tests_shared_place")
class Subclassed(keras.Model):
    """Keras visits the attributes of a model in the order of their names."""

    def __init__(self, encoder, decoder, **kwargs):
        super().__init__(**kwargs)
        self.encoder, self.decoder = encoder, decoder

    def call(self, inputs):
        return self.decoder([inputs[1], self.encoder(inputs[0])])

    def get_config(self):
        nested = {"encoder": self.encoder, "decoder": self.decoder}
        return {
            **super().get_config(),
            **{name: keras.saving.serialize_keras_object(each) for name, each in nested.items()},
        }

    @classmethod
    def from_config(cls, config):
        nested = {name: keras.saving.deserialize_keras_object(config.pop(name)) for name in ("encoder", "decoder")}
        return cls(**nested, **config)


def words():
    return keras.Input((None,), dtype="int32")


def encoder_of(embedding):
    inputs = words()
    return keras.Model(inputs, keras.layers.GRU(H)(embedding(inputs)), name="encoder")


def decoder_of(embedding, output=None, before=lambda vectors, ids: vectors):
    inputs, state = words(), keras.Input((H,))
    hidden = keras.layers.GRU(H, return_sequences=True)(before(embedding(inputs), inputs), initial_state=state)
    scores = output(hidden) if output else embedding(hidden, reverse=True)
    return keras.Model([inputs, state], scores, name="decoder")


def joined(encoder, decoder):
    source, target = words(), words()
    return keras.Model([source, target], decoder([target, encoder(source)]))


def encoder_and_decoder(embedding):
    return joined(encoder_of(embedding), decoder_of(embedding))


def scores_with_tied_dense(embedding):
    return joined(encoder_of(embedding), decoder_of(embedding, TiedDense(embedding)))


def scores_with_own_projection(embedding):
    embedding.build()
    return joined(encoder_of(embedding), decoder_of(embedding, OwnProjection(embedding)))


def with_another_embedding_in_the_decoder(embedding):
    another = type(embedding).from_config({**embedding.get_config(), "name": "another"})
    add = keras.layers.Add()
    return joined(
        encoder_of(embedding), decoder_of(embedding, before=lambda vectors, ids: add([another(ids), vectors]))
    )


def scores_outside(embedding):
    inputs, inner = words(), words()
    nested = keras.Model(inner, keras.layers.GRU(H, return_sequences=True)(embedding(inner)))
    return keras.Model(inputs, embedding(nested(inputs), reverse=True))


def looks_up_outside(embedding):
    inputs, states = words(), keras.Input((None, H))
    nested = keras.Model(states, embedding(states, reverse=True))
    return keras.Model(inputs, nested(keras.layers.Dense(H)(embedding(inputs))))


def two_sequential(embedding):
    first = keras.Sequential([keras.Input((None,), dtype="int32"), embedding, keras.layers.Dense(H)])
    second = keras.Sequential([keras.Input((None,), dtype="int32"), embedding, keras.layers.Dense(H)])
    source, target = words(), words()
    return keras.Model([source, target], keras.layers.Add()([first(source), second(target)]))


def beside_a_language_model(embedding):
    inputs = words()
    model = kt.models.LanguageModel(embedding, [kt.layers.LSTM(H, return_sequences=True, return_state=True)])
    return keras.Model(inputs, [embedding(inputs), model(inputs)])


def a_language_model_and_a_nested_one(embedding):
    inputs, inner = words(), words()
    model = kt.models.LanguageModel(embedding, [kt.layers.LSTM(H, return_sequences=True, return_state=True)])
    nested = keras.Model(inner, embedding(inner))
    return keras.Model(inputs, [model(inputs), nested(inputs)])


MODELS = [
    encoder_and_decoder,
    scores_with_tied_dense,
    scores_with_own_projection,
    with_another_embedding_in_the_decoder,
    scores_outside,
    looks_up_outside,
    two_sequential,
    beside_a_language_model,
    a_language_model_and_a_nested_one,
]
EMBEDDINGS = {
    "tied": lambda: TiedEmbedding(V, H, bias_initializer="normal"),
    "untied": lambda: TiedEmbedding(V, H, tie_weights=False),
    "masked": lambda: TiedEmbedding(V, H, mask_zero=True),
    "derived": lambda: OwnEmbedding(V, H, bias_initializer="normal"),
    "adaptive": lambda: AdaptiveEmbedding(V, H, cutoffs=(9,)),
}
IMPOSSIBLE = {
    (scores_with_tied_dense, "adaptive"): "A TiedDense does not take an AdaptiveEmbedding",
    (scores_with_own_projection, "adaptive"): "An AdaptiveEmbedding has a bias in each band",
    (with_another_embedding_in_the_decoder, "derived"): "Keras numbers layers by class, and the place has another one",
}
CASES = [(make, kind) for make in MODELS for kind in EMBEDDINGS if (make, kind) not in IMPOSSIBLE]


def batch_for(model, rng):
    batch = [rng.integers(0, V, (2, 3), np.int32) for _ in model.inputs]
    return batch if len(batch) > 1 else batch[0]


def assert_same(ours, model, batch):
    assert ours.count_params() == model.count_params()
    for one, other in zip(keras.tree.flatten(ours(batch)), keras.tree.flatten(model(batch)), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("make", "kind"), CASES)
def test_a_loaded_model_shares_as_the_saved_one(make, kind, rng, tmp_path):
    model = make(EMBEDDINGS[kind]())
    batch = batch_for(model, rng)
    first = saved_and_loaded(model, tmp_path)
    assert_same(first, model, batch)
    assert_same(saved_and_loaded(first, tmp_path), model, batch)
    assert_same(copy.deepcopy(first), model, batch)


@pytest.fixture
def model():
    keras.utils.set_random_seed(3)
    return encoder_and_decoder(TiedEmbedding(V, H, bias_initializer="normal", name="words"))


def test_a_loaded_model_trains_as_the_saved_one(model, rng, tmp_path):
    batch = batch_for(model, rng)
    ours = saved_and_loaded(model, tmp_path)
    for each in (model, ours):
        each.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        each.fit(batch, batch[1], epochs=2, verbose=0)
    for one, other in zip(ours.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_loaded_model_quantizes_both_roles(model, rng, tmp_path):
    batch = batch_for(model, rng)
    ours = saved_and_loaded(model, tmp_path)
    for each in (model, ours):
        each.quantize("int8")
    assert_same(ours, model, batch)
    assert_same(saved_and_loaded(ours, tmp_path), model, batch)


def test_lora_of_the_first_place_is_in_all(model, rng, tmp_path):
    batch = batch_for(model, rng)
    ours = saved_and_loaded(model, tmp_path)
    embedding = ours.get_layer("encoder").get_layer("words")
    assert ours.get_layer("decoder").get_layer("words").embedding is embedding
    embedding.enable_lora(2)
    embedding.lora_embeddings_b.assign(np.ones((2, H)))
    assert np.abs(ours(batch) - model(batch)).max() > 1e-3
    assert len(ours.trainable_variables) == len(model.trainable_variables) + 1  # two factors instead of the matrix
    assert ours.summary() is None


def test_a_nested_model_is_saved_alone(model, rng, tmp_path):
    decoder = saved_and_loaded(model, tmp_path).get_layer("decoder")
    batch = [rng.integers(0, V, (2, 3), np.int32), rng.normal(size=(2, H)).astype("float32")]
    assert_same(saved_and_loaded(decoder, tmp_path), model.get_layer("decoder"), batch)


def test_weights_are_those_of_the_saved_model(model, rng, tmp_path):
    ours = saved_and_loaded(model, tmp_path)
    for each in model.weights:
        each.assign(each + 0.5)
    model.save_weights(tmp_path / "model.weights.h5")
    ours.load_weights(tmp_path / "model.weights.h5")
    assert_same(ours, model, batch_for(model, rng))


def test_a_frozen_embedding_stays_frozen(model, tmp_path):
    model.get_layer("encoder").get_layer("words").trainable = False
    ours = saved_and_loaded(saved_and_loaded(model, tmp_path), tmp_path)
    assert [each.path for each in ours.trainable_variables] == [each.path for each in model.trainable_variables]
    assert not any(each.shape == (V, H) for each in ours.trainable_variables)


def test_what_is_frozen_beside_shared_embeddings_stays_so(tmp_path):
    embedding = TiedEmbedding(V, H, name="words")
    source, target, state = words(), words(), keras.Input((H,))
    hidden = keras.layers.GRU(H, return_sequences=True)(embedding(target), initial_state=state)
    decoder = keras.Model([target, state], hidden, name="decoder")
    encoder = encoder_of(embedding)
    backbone = keras.Model([source, target], decoder([target, encoder(source)]))
    model = kt.models.BackboneModel(backbone, embedding)
    (gru,) = [each for each in encoder.layers if isinstance(each, keras.layers.GRU)]
    gru.trainable = False
    ours = saved_and_loaded(saved_and_loaded(model, tmp_path), tmp_path)
    shapes = [sorted(tuple(each.shape) for each in either.trainable_variables) for either in (model, ours)]
    assert shapes[0] == shapes[1]
    assert (V, H) in shapes[0]


def test_a_model_that_was_quantized_before_is_saved(model, rng, tmp_path):
    model.quantize("int8")
    assert_same(saved_and_loaded(saved_and_loaded(model, tmp_path), tmp_path), model, batch_for(model, rng))


def test_places_do_not_round_what_the_embedding_does_not(rng, tmp_path):
    embedding = TiedEmbedding(V, H, dtype="mixed_bfloat16", reverse_dtype="float32", bias_initializer="normal")
    inputs, states, inner = keras.Input((None,)), keras.Input((None, H)), keras.Input((None,))
    lookup, scores = keras.Model(inner, embedding(inner)), keras.Model(states, embedding(states, reverse=True))
    model = keras.Model([inputs, states], [lookup(inputs), scores(states)])
    batch = [rng.integers(0, V, (2, 3)).astype("float32"), rng.normal(size=(2, 3, H)).astype("float32")]
    assert_same(saved_and_loaded(model, tmp_path), model, batch)
    large = TiedEmbedding(1000, 2, dtype="mixed_bfloat16")
    model = keras.Model(inputs, [large(inputs), keras.Model(inner, large(inner))(inputs)])
    assert_same(saved_and_loaded(model, tmp_path), model, np.full((2, 3), 999, "float32"))


def test_a_class_that_is_made_anew_shares_in_one_graph(rng, tmp_path):
    embedding, inputs = EmbeddingMadeAnew(V, H), words()
    model = keras.Model(inputs, TiedDense(embedding)(embedding(inputs)))
    assert_same(saved_and_loaded(model, tmp_path), model, batch_for(model, rng))


def test_a_subclassed_model_shares_between_its_nested_models(rng, tmp_path):
    embedding = TiedEmbedding(V, H, bias_initializer="normal")
    model, batch = Subclassed(encoder_of(embedding), decoder_of(embedding)), [rng.integers(0, V, (2, 3)) for _ in "ab"]
    model(batch)
    first = saved_and_loaded(model, tmp_path)
    assert_same(first, model, batch)
    assert_same(saved_and_loaded(first, tmp_path), model, batch)


@pytest.mark.parametrize("shared", [True, False])
def test_a_model_of_two_language_models_is_loaded(shared, rng, tmp_path):
    embeddings = [TiedEmbedding(V, H)] * 2 if shared else [TiedEmbedding(V, H), TiedEmbedding(V, H)]
    parts = [kt.models.LanguageModel(each, [keras.layers.Dense(H)]) for each in embeddings]
    inputs, ids = words(), rng.integers(0, V, (2, 3))
    model = keras.Model(inputs, keras.layers.Average()([part(inputs) for part in parts]))
    loaded = saved_and_loaded(model, tmp_path)
    assert loaded.count_params() == model.count_params()
    np.testing.assert_array_equal(loaded(ids), model(ids))


def test_weights_of_a_nested_model_are_loaded_where_it_has_a_place(model, rng, tmp_path):
    ours = saved_and_loaded(model, tmp_path)
    for each in model.weights:
        each.assign(each + 0.5)
    model.get_layer("decoder").save_weights(tmp_path / "decoder.weights.h5")
    ours.get_layer("decoder").load_weights(tmp_path / "decoder.weights.h5")
    batch = [rng.integers(0, V, (2, 3), np.int32), rng.normal(size=(2, H)).astype("float32")]
    assert_same(ours.get_layer("decoder"), model.get_layer("decoder"), batch)


def test_a_place_is_given_to_other_layers_as_its_embedding(model, tmp_path):
    place = saved_and_loaded(model, tmp_path).get_layer("decoder").get_layer("words")
    assert TiedDense(place).embedding is place.embedding
    assert repr(place) == f"<SharedPlace of {place.embedding!r}>"
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = place.no_such_name


COPIED = {
    "clone": keras.models.clone_model,
    "recursive clone": lambda model: keras.models.clone_model(model, recursive=True),
    "JSON": lambda model: model.to_json(),
    "configuration": lambda model: type(model).from_config(model.get_config()),
}


@pytest.mark.parametrize("copied", COPIED)
def test_a_loaded_model_is_not_copied_untied(copied, model, tmp_path):
    with pytest.raises(ValueError, match=r"only be copied with copy\.deepcopy .* Received: .* of 'words'"):
        COPIED[copied](saved_and_loaded(model, tmp_path))


def test_a_loaded_model_trains_without_logits(rng, tmp_path):
    model = scores_outside(TiedEmbedding(V, H, bias_initializer="normal"))
    ours = kt.models.without_logits(saved_and_loaded(model, tmp_path))
    ours.compile("sgd", kt.losses.SequenceCrossEntropy())
    batch = batch_for(model, rng)
    assert_same(ours, model, batch)
    ours.fit(batch, batch, verbose=0)
    assert_same(saved_and_loaded(ours, tmp_path), ours, batch)
