"""Any Keras model is trained without keeping logits, as it is trained with them."""

import keras
import numpy as np
import pytest
from keras.layers import LSTM, Dense, Dropout, Embedding, ReversibleEmbedding

from keras_tying.layers import TiedDense, TiedEmbedding
from keras_tying.losses import AugmentedLoss, SequenceCrossEntropy, fused_cross_entropy
from keras_tying.models import BackboneModel, Losses, without_logits

WORDS, WIDTH = 40, 6


def functional(head):
    """A functional model that ends with a head of that kind."""
    words = keras.Input((None,), dtype="int32")
    recurrent = LSTM(WIDTH, return_sequences=True)
    if head == "dense":
        return keras.Model(words, Dense(WORDS)(recurrent(Embedding(WORDS, WIDTH)(words))))
    if head == "tied dense":
        embedding = TiedEmbedding(WORDS, WIDTH)
        return keras.Model(words, TiedDense(embedding)(recurrent(embedding(words))))
    tied = {"tied": TiedEmbedding, "masked": TiedEmbedding}.get(head, ReversibleEmbedding)
    embedding = tied(WORDS, WIDTH, head != "untied", mask_zero=head == "masked", logit_soft_cap=5.0)
    return keras.Model(words, embedding(recurrent(embedding(words)), reverse=True))


HEADS = ["tied", "masked", "reversible", "untied", "tied dense", "dense"]


@pytest.fixture
def batch(train_ids):
    text = train_ids[:61] % WORDS
    return text[:60].reshape(6, 10), text[1:].reshape(6, 10)


@pytest.mark.parametrize("head", HEADS)
def test_trains_as_the_functional_model_does(head, batch, monkeypatch):
    monkeypatch.setattr(fused_cross_entropy, "LOGITS_PER_CHUNK", 7 * WORDS)
    plain = functional(head)
    copy = keras.models.clone_model(plain)
    copy.set_weights(plain.get_weights())
    model = without_logits(copy)
    losses = keras.losses.SparseCategoricalCrossentropy(True), SequenceCrossEntropy(reduction="mean")
    for each, loss in zip((plain, model), losses, strict=True):
        each.compile(keras.optimizers.SGD(0.5), loss)
    histories = [each.fit(*batch, batch_size=3, epochs=2, shuffle=False, verbose=0) for each in (plain, model)]
    assert isinstance(model(batch[0], targets=batch[1]), Losses)
    np.testing.assert_allclose(*(history.history["loss"] for history in histories), rtol=1e-5)
    for one, other in zip(plain.get_weights(), copy.get_weights(), strict=True):  # the wrapped model is trained
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.predict(batch[0], verbose=0), copy.predict(batch[0], verbose=0), rtol=1e-5)
    np.testing.assert_allclose(model.evaluate(*batch, verbose=0)[0], plain.evaluate(*batch, verbose=0), rtol=1e-5)


@pytest.mark.parametrize("head", HEADS)
def test_saved_and_cloned_models_share_as_before(head, batch, tmp_path):
    model = without_logits(functional(head))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.count_params() == model.count_params() == BackboneModel.from_config(model.get_config()).count_params()
    np.testing.assert_array_equal(loaded(batch[0]), model(batch[0]))
    loaded.export(tmp_path / "exported", verbose=False)


@keras.saving.register_keras_serializable("test_backbone_model")
class Backbone(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.words = ReversibleEmbedding(WORDS, WIDTH, name="words")
        self.recurrent, self.dropout = LSTM(WIDTH, return_sequences=True), Dropout(0.5)

    def call(self, inputs, training=None):
        return self.dropout(self.recurrent(self.words(inputs)), training=training)


def test_a_subclassed_backbone_trains_evaluates_saves_and_loads(batch, tmp_path):
    backbone = Backbone()
    with pytest.raises(ValueError, match="`backbone` must be built: call it on a batch first"):
        BackboneModel(backbone, "words")
    backbone(batch[0])
    model = BackboneModel(backbone, "words")
    model.compile("adam", SequenceCrossEntropy(reduction="mean"), metrics=["accuracy"])
    history = model.fit(*batch, epochs=2, verbose=0).history
    assert history["perplexity"][1] < history["perplexity"][0]
    assert model.count_params() == backbone.count_params()
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(batch[0]), model(batch[0]))
    assert loaded.count_params() == model.count_params()


def test_trains_in_mixed_precision_with_gradient_accumulation_and_a_soft_target(batch):
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = without_logits(functional("tied"))
    finally:
        keras.config.set_dtype_policy("float32")
    assert model.compute_dtype == "bfloat16"
    optimizer = keras.optimizers.Adam(0.01, gradient_accumulation_steps=2)
    model.compile(optimizer, AugmentedLoss(reduction="mean", tau=5.0, target_gradient=True))
    losses = model.fit(*batch, batch_size=3, epochs=8, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


def test_what_cannot_be_a_head_is_named(batch):
    words = keras.Input((None,), dtype="int32")
    hidden = LSTM(WIDTH, return_sequences=True)(Embedding(WORDS, WIDTH, name="words")(words))
    with pytest.raises(ValueError, match=r"must have no activation.* Received: 'scores' with activation 'softmax'"):
        without_logits(keras.Model(words, Dense(WORDS, activation="softmax", name="scores")(hidden)))
    with pytest.raises(ValueError, match=r"must be a TiedEmbedding, .* Received: LSTM"):
        without_logits(keras.Model(words, hidden))
    with pytest.raises(ValueError, match=r"must be a functional model with one output.* Received: Backbone"):
        without_logits(Backbone())
    with pytest.raises(ValueError, match=r"must be the name of one layer of the backbone. Received: 'none'"):
        BackboneModel(keras.Model(words, hidden), "none")
    with pytest.raises(ValueError, match=r"must be a TiedEmbedding, .* Received: Embedding 'words'"):
        BackboneModel(keras.Model(words, hidden), "words")
