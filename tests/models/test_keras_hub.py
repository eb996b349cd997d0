"""A backbone of KerasHub trains without logits."""

import keras
import numpy as np
import pytest

import keras_tying as kt

VOCABULARY_SIZE, LENGTH = 2000, 16


@pytest.fixture(scope="module")
def backbone():
    models = pytest.importorskip("keras_hub.models")
    keras.utils.set_random_seed(0)
    sizes = {"num_layers": 2, "num_heads": 4, "hidden_dim": 32, "intermediate_dim": 64}
    return models.GPT2Backbone(VOCABULARY_SIZE, **sizes, max_sequence_length=LENGTH, dropout=0.0)


@pytest.fixture(scope="module")
def text():
    corpus = kt.data.load_corpus("embedded")
    text = kt.data.windows(corpus.ids("train", corpus.vocabulary(VOCABULARY_SIZE)), 8, LENGTH)
    inputs = {"token_ids": text.inputs[:80], "padding_mask": np.ones((80, LENGTH), bool)}
    inputs["padding_mask"][::2, -4:] = False
    return inputs, text.targets[:80], inputs["padding_mask"].astype("float32")


def with_logits(backbone):
    """The usual way: a head that gives all logits."""
    head = backbone.token_embedding
    return keras.Model(backbone.input, head(backbone.output, reverse=True))


def test_it_trains_as_with_logits(backbone, text, tmp_path):
    inputs, targets, weights = text
    model = kt.models.BackboneModel(backbone, head=backbone.token_embedding)
    start = model.get_weights()
    model.compile(keras.optimizers.Adam(1e-3), kt.losses.SequenceCrossEntropy(reduction="mean"))
    fit = {"batch_size": 8, "epochs": 2, "shuffle": False, "verbose": 0}
    received = model.fit(inputs, targets, sample_weight=weights, **fit).history["loss"]
    loaded_from = tmp_path / "model.keras"
    model.save(loaded_from)
    trained = model.predict(inputs, verbose=0)
    np.testing.assert_array_equal(keras.models.load_model(loaded_from).predict(inputs, verbose=0), trained)

    model.set_weights(start)
    plain = with_logits(backbone)
    plain.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    expected = plain.fit(inputs, targets, sample_weight=weights, **fit).history["loss"]
    assert received[1] < received[0]
    assert len(model.trainable_variables) == len(plain.trainable_variables)
    np.testing.assert_allclose(received, expected, rtol=1e-4)


def test_a_copy_with_more_words_trains_on(backbone, text, tmp_path):
    inputs, targets, weights = text
    model = kt.models.BackboneModel(backbone, head=backbone.token_embedding)
    model.compile(keras.optimizers.Adam(1e-3), kt.losses.SequenceCrossEntropy(reduction="mean"))
    fit = {"batch_size": 8, "shuffle": False, "verbose": 0}
    model.fit(inputs, targets, sample_weight=weights, **fit)
    larger, same = model.resized(VOCABULARY_SIZE + 10), model.with_rows(range(VOCABULARY_SIZE))
    assert larger.output_embedding is larger.backbone.token_embedding
    assert larger.count_params() == model.count_params() + 10 * 32
    few = {name: values[:8] for name, values in inputs.items()}
    logits = model.predict(few, verbose=0)
    np.testing.assert_allclose(larger.predict(few, verbose=0)[..., :VOCABULARY_SIZE], logits, atol=1e-5)
    expected, received = (
        each.fit(inputs, targets, sample_weight=weights, **fit).history["loss"] for each in (model, same)
    )
    np.testing.assert_allclose(received, expected, rtol=1e-6)
    larger.save_weights(tmp_path / "model.weights.h5")
    again = model.resized(VOCABULARY_SIZE + 10)
    again.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(again.predict(few, verbose=0), larger.predict(few, verbose=0))
    with pytest.raises(ValueError, match="must say how its embedding is tied"):
        model.untied_copy()


def test_a_causal_model_is_saved_and_resized(backbone, text, tmp_path):
    """Its inputs are those of the backbone, which a copy does not share."""
    inputs, _, _ = text
    few = {name: values[:8] for name, values in inputs.items()}
    models = pytest.importorskip("keras_hub.models")
    model = kt.models.without_logits(models.GPT2CausalLM(backbone=backbone, preprocessor=None))
    model.backbone.get_layer("gpt2_backbone").get_layer("transformer_layer_0").trainable = False
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    logits = model.predict(few, verbose=0)
    for copy in (loaded, model.resized(VOCABULARY_SIZE + 10), loaded.resized(VOCABULARY_SIZE + 10)):
        np.testing.assert_allclose(copy.predict(few, verbose=0)[..., :VOCABULARY_SIZE], logits, atol=1e-5)
        assert len(copy.trainable_weights) == len(model.trainable_weights)
    model.quantize("int8")
    model.save(tmp_path / "quantized.keras")
    loaded = keras.models.load_model(tmp_path / "quantized.keras")
    np.testing.assert_array_equal(loaded.predict(few, verbose=0), model.predict(few, verbose=0))
