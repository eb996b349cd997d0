"""Copies of a user's own models with other words, tied, untied, without LoRA and in another precision."""

import keras
import numpy as np
import pytest

import keras_tying as kt
from tests.models.copies import H, V, logits, train


def functional(kind, tied=True):
    embedding = kind(V, H, tie_weights=tied, name="words")
    words = keras.Input((None,), dtype="int32")
    hidden = keras.layers.LSTM(H, return_sequences=True)(kt.layers.WordDropout(V, 0.1)(embedding(words), ids=words))
    return keras.Model(words, embedding(hidden, reverse=True))


def sequential(kind):
    embedding = kind(V, H, name="words")
    hidden = keras.layers.LSTM(H, return_sequences=True)
    return keras.Sequential([keras.Input((None,), dtype="int32"), embedding, hidden, kt.layers.TiedDense(embedding)])


def nested(kind):
    """A model in which the embedding has places within two models."""
    embedding = kind(V, H, name="words")
    words = keras.Input((None,), dtype="int32")
    models = [keras.Model(words, keras.layers.LSTM(H, return_sequences=True)(embedding(words))) for _ in range(2)]
    hidden = keras.layers.Add()([model(words) for model in models])
    return keras.Model(words, embedding(hidden, reverse=True))


OURS, KERAS = kt.layers.TiedEmbedding, keras.layers.ReversibleEmbedding
MAKE = {
    "functional": lambda: functional(OURS),
    "functional, of Keras": lambda: functional(KERAS),
    "functional, untied": lambda: functional(OURS, tied=False),
    "functional, of Keras, untied": lambda: functional(KERAS, tied=False),
    "Sequential": lambda: sequential(OURS),
    "Sequential, of Keras": lambda: sequential(KERAS),
}


def trained(name, text, lora=None):
    """A model after a pass over the text."""
    keras.utils.set_random_seed(0)
    model = kt.models.without_logits(MAKE[name]())
    if lora:
        model.embedding.enable_lora(lora)
    model.compile(keras.optimizers.Adam(0.01), run_eagerly=True)
    train(model, text)
    return model


@pytest.mark.parametrize("name", ["Sequential", "Sequential, of Keras"])  # the others have dropout
def test_a_copy_of_all_rows_trains_on_as_the_model(name, text):
    model = trained(name, text)
    copy = model.with_rows(range(V))
    assert train(copy, text) == train(model, text)
    for ours, its in zip(copy.weights, model.weights, strict=True):
        np.testing.assert_array_equal(ours, its)


@pytest.mark.parametrize("name", MAKE)
def test_a_larger_model_has_the_mean_of_all_words(name, text, tmp_path):
    model = trained(name, text)
    larger = model.resized(V + 3)
    np.testing.assert_allclose(logits(larger, text)[..., :V], logits(model, text), atol=1e-6)
    new = np.array(larger.output_projection.embeddings)[V:]
    np.testing.assert_allclose(new, [np.array(model.output_projection.embeddings).mean(0)] * 3, rtol=1e-5)
    assert np.isfinite(train(larger, text))
    assert larger.with_rows(range(5)).count_params() < model.count_params()
    larger.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(logits(keras.models.load_model(tmp_path / "model.keras"), text), logits(larger, text))


def test_dropout_of_words_knows_the_new_words():
    source, target = (keras.Input((None,), dtype="int32") for _ in range(2))
    embeddings = OURS(50, H, name="source_words"), OURS(V, H, name="words")
    looked_up = [
        kt.layers.WordDropout(each.input_dim, 0.3, name=f"{each.name}_dropout")(each(ids), ids=ids)
        for each, ids in zip(embeddings, (source, target), strict=True)
    ]
    hidden = keras.layers.Add()(looked_up)
    model = kt.models.without_logits(keras.Model([source, target], embeddings[1](hidden, reverse=True)))
    copy = model.resized(V + 3)
    sizes = {each.name: each.vocabulary_size for each in copy.backbone.layers if "dropout" in each.name}
    assert sizes == {"source_words_dropout": 50, "words_dropout": V + 3}
    words = np.arange(8)[None]
    np.testing.assert_allclose(copy([words + 42, words])[..., :V], model([words + 42, words]), atol=1e-6)


@pytest.mark.parametrize("name", [name for name in MAKE if "untied" not in name])
def test_an_untied_copy_computes_the_same_and_returns(name, text):
    model = trained(name, text)
    untied = model.untied_copy()
    assert untied.count_params() == model.count_params() + V * H
    np.testing.assert_array_equal(logits(untied, text), logits(model, text))
    again = untied.tied_copy("mean")
    assert again.count_params() == model.count_params()
    np.testing.assert_array_equal(logits(again, text), logits(model, text))
    for before, after in zip(model.optimizer.variables, again.optimizer.variables, strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in MAKE if "untied" not in name])
def test_lora_is_merged(name, text):
    model = trained(name, text, lora=2)
    assert np.any(np.array(model.embedding.lora_embeddings_b))
    merged = model.without_lora()
    assert not merged.embedding.lora_enabled
    np.testing.assert_allclose(logits(merged, text), logits(model, text), atol=1e-5)
    assert np.isfinite(train(merged, text))


@pytest.mark.parametrize("name", MAKE)
def test_a_copy_in_another_precision_computes_nearly_the_same(name, text):
    model = trained(name, text)
    copy = model.with_precision("mixed_bfloat16")
    assert copy.embedding.compute_dtype == copy.compute_dtype == "bfloat16"
    np.testing.assert_allclose(logits(copy, text).astype("float32"), logits(model, text), atol=0.02)


def test_frozen_layers_stay_frozen(text):
    model = trained("Sequential", text)
    model.backbone.layers[-1].trainable = False
    copy = model.resized(V + 3)
    assert [each.name for each in copy.trainable_weights] == [each.name for each in model.trainable_weights]


def test_an_embedding_within_models_is_changed_in_all_its_places():
    model, words = kt.models.without_logits(nested(OURS)), np.arange(8)[None]
    for copy in (model.resized(V + 3), model.resized(V + 9).resized(V + 3)):
        assert copy.count_params() == model.count_params() + 3 * (H + 1)
        np.testing.assert_allclose(copy(words)[..., :V], model(words), atol=1e-6)
    np.testing.assert_array_equal(keras.models.clone_model(model).count_params(), model.count_params())


def test_a_copy_that_would_not_share_is_refused():
    model = kt.models.without_logits(nested(KERAS))
    for copy in (lambda: model.resized(V + 3), lambda: keras.models.clone_model(model)):
        with pytest.raises(ValueError, match="Models within a model can share embeddings of keras_tying"):
            copy()


@keras.saving.register_keras_serializable("test_changed_copies_of_backbones")
class Backbone(keras.Model):
    def __init__(self, words=V, **kwargs):
        super().__init__(**kwargs)
        self.words, self.dense = KERAS(words, H, name="words"), keras.layers.Dense(H)

    def call(self, inputs):
        return self.dense(self.words(inputs))


def subclassed():
    backbone = Backbone()
    backbone(np.zeros((1, 3)))
    return kt.models.BackboneModel(backbone, "words")


@keras.saving.register_keras_serializable("test_changed_copies_of_backbones")
class Sized(Backbone):
    """A model that makes its layers itself, of a number of words that its configuration has."""

    def __init__(self, vocabulary_size, input_dim=3, **kwargs):  # `input_dim` is about something else
        super().__init__(vocabulary_size, **kwargs)
        self.sizes = {"vocabulary_size": vocabulary_size, "input_dim": input_dim}

    def get_config(self):
        return {**super().get_config(), **self.sizes}


def sized():
    backbone = Sized(V)
    backbone(np.zeros((1, 3)))
    return kt.models.BackboneModel(backbone, "words")


@pytest.mark.parametrize("within", [False, True])
def test_a_model_that_makes_its_layers_itself_and_knows_the_number_of_words(within, tmp_path):
    model, words = sized(), np.arange(8)[None]
    if within:
        inputs = keras.Input((None,), dtype="int32")
        backbone = keras.Model(inputs, keras.layers.Dense(H)(model.backbone(inputs)))
        model = kt.models.BackboneModel(backbone, model.output_embedding)
    model.output_embedding.trainable = False
    larger = model.resized(V + 3)
    np.testing.assert_allclose(larger(words)[..., :V], model(words), atol=1e-6)
    larger.save(tmp_path / "model.keras")
    for copy in (larger, keras.models.clone_model(larger), keras.models.load_model(tmp_path / "model.keras")):
        assert not copy.output_embedding.trainable
        assert len(copy.trainable_weights) == len(model.trainable_weights)
    model.embedding.enable_lora(2)
    np.testing.assert_allclose(model.without_lora()(words), model(words), atol=1e-6)


@keras.saving.register_keras_serializable("test_changed_copies_of_backbones")
class Branched(keras.layers.Layer):
    """A layer that makes layers when it is built, of which one contains the other, and a weight that is a number."""

    def build(self, input_shape):
        self.dense, self.factor = keras.layers.Dense(H), self.add_weight(shape=(), initializer="ones", name="factor")
        self.block = keras.Sequential([self.dense, keras.layers.Activation("tanh")])
        self.block.build(input_shape)

    def call(self, inputs):
        return self.factor * self.block(inputs) + self.dense(inputs)


def test_layers_within_one_layer_are_its_own_affair(tmp_path):
    embedding, words = OURS(V, H), keras.Input((None,), dtype="int32")
    functional_model = keras.Model(words, embedding(Branched()(embedding(words)), reverse=True))
    models = kt.models.without_logits(functional_model), kt.models.LanguageModel(OURS(V, H), [Branched()])
    ids = np.arange(8)[None]
    for model in models:
        expected = model(ids)
        np.testing.assert_allclose(model.resized(V + 3)(ids)[..., :V], expected, atol=1e-6)
        model.save_weights(tmp_path / "model.weights.h5")
        copy = keras.models.clone_model(model)
        copy(ids)
        copy.load_weights(tmp_path / "model.weights.h5")
        np.testing.assert_array_equal(copy(ids), expected)


def with_a_head_of_its_own():
    words = keras.Input((None,), dtype="int32")
    backbone = keras.Model(words, OURS(V, H, name="words")(words))
    return kt.models.BackboneModel(backbone, OURS(V, H, name="words"))


def two_of_one_name():
    words, hidden = keras.Input((None,), dtype="int32"), keras.Input((None, H))
    embedding = OURS(V, H, name="words")
    inner = keras.Model(hidden, keras.layers.Dense(H)(OURS(V, H, name="words")(hidden, reverse=True)))
    return kt.models.without_logits(keras.Model(words, embedding(inner(embedding(words)), reverse=True)))


WRONG = {
    "made by the backbone": (subclassed, "the number of words, .* Received: Backbone .*, without that of 'words'"),
    "outside": (with_a_head_of_its_own, "a head that embeds the words of the backbone too. Received: 'words'"),
    "made by the backbone, untied": (sized, "how its embedding is tied .* with 4 weights. Received: one with 3"),
    "two of one name": (two_of_one_name, "the only one of its name and class. .* TiedEmbedding and words, of several"),
}


@pytest.mark.parametrize(("make", "message"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_copied_is_named(make, message):
    model = make()
    for change in (lambda: model.resized(V + 3), model.untied_copy)[make is sized :]:
        with pytest.raises(ValueError, match=message):
            change()


def test_a_model_that_makes_its_layers_itself_has_a_copy_in_another_precision():
    model = subclassed()
    words = np.arange(8)[None]
    np.testing.assert_allclose(model.with_precision("mixed_bfloat16")(words), model(words), atol=0.02)
