"""Any Keras model is trained without keeping logits, as it is trained with them."""

import keras
import numpy as np
import pytest
from keras.layers import LSTM, Dense, Dropout, Embedding, ReversibleEmbedding

from keras_tying.layers import AdaptiveEmbedding, TiedDense, TiedEmbedding
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
    if head == "adaptive":
        embedding = AdaptiveEmbedding(WORDS, WIDTH, cutoffs=(10, 20), factor=2)
        return keras.Model(words, embedding(recurrent(embedding(words)), reverse=True))
    tied = {"tied": TiedEmbedding, "masked": TiedEmbedding}.get(head, ReversibleEmbedding)
    embedding = tied(WORDS, WIDTH, head != "untied", mask_zero=head == "masked", logit_soft_cap=5.0)
    return keras.Model(words, embedding(recurrent(embedding(words)), reverse=True))


HEADS = ["tied", "masked", "reversible", "untied", "tied dense", "dense", "adaptive"]


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
    with pytest.raises(ValueError, match=r"must be a functional or built Sequential model.* Received: Backbone"):
        without_logits(Backbone())
    with pytest.raises(ValueError, match=r"must be the name of one layer of the backbone. Received: 'none'"):
        BackboneModel(keras.Model(words, hidden), "none")
    with pytest.raises(ValueError, match=r"must be a TiedEmbedding, .* Received: Embedding 'words'"):
        BackboneModel(keras.Model(words, hidden), "words")


def scores(layer):
    """A `Sequential` model that ends with a layer."""
    layers = [Embedding(WORDS, WIDTH), Dense(WIDTH, "tanh"), layer]
    return keras.Sequential([keras.Input((None,), dtype="int32"), *layers])


def test_a_sequential_model_trains_as_before(batch):
    plain = scores(Dense(WORDS))
    model = without_logits(plain)
    model.compile("sgd")
    plain.compile("sgd", keras.losses.SparseCategoricalCrossentropy(True))
    expected = plain.evaluate(*batch, verbose=0)
    np.testing.assert_allclose(model.evaluate(*batch, verbose=0)[0], expected, rtol=1e-5)
    backbone = keras.Sequential([keras.Input((None,), dtype="int32"), Embedding(WORDS, WIDTH)])
    assert BackboneModel(backbone, Dense(WORDS))(batch[0]).shape == (6, 10, WORDS)


def test_trains_in_chunks_when_keras_compiles_for_xla(batch, monkeypatch):
    monkeypatch.setattr(fused_cross_entropy, "LOGITS_PER_CHUNK", 7 * WORDS)
    plain, model = scores(Dense(WORDS)), without_logits(scores(Dense(WORDS)))
    model.set_weights(plain.get_weights())
    plain.compile("sgd", keras.losses.SparseCategoricalCrossentropy(True))
    model.compile("sgd", jit_compile=True)
    for each in plain, model:
        each.fit(*batch, batch_size=4, shuffle=False, verbose=0)
    for one, other in zip(plain.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-6)


def test_layers_of_equal_names_are_told_apart_in_a_file(batch, tmp_path):
    states = keras.Input((None, WIDTH))
    nested = keras.Model(states, Dense(WIDTH, name="words")(states))
    words, embedding = keras.Input((None,), dtype="int32"), TiedEmbedding(WORDS, WIDTH, name="words")
    model = without_logits(keras.Model(words, embedding(nested(embedding(words)), reverse=True)))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(batch[0]), model(batch[0]))
    assert loaded.count_params() == model.count_params()


def test_scores_have_the_precision_of_the_head(batch):
    words = keras.Input((None,), dtype="int32")
    hidden = Embedding(WORDS, WIDTH, embeddings_initializer="normal", dtype="mixed_bfloat16")(words)
    plain = keras.Model(words, Dense(WORDS, dtype="float32")(hidden))
    plain.layers[-1].kernel.assign(30 * np.random.default_rng(1).normal(size=(WIDTH, WORDS)))
    model = without_logits(plain)
    plain.compile("sgd", keras.losses.SparseCategoricalCrossentropy(True))
    model.compile("sgd")
    np.testing.assert_allclose(model.evaluate(*batch, verbose=0)[0], plain.evaluate(*batch, verbose=0), rtol=1e-5)


def test_the_dtype_policy_is_that_of_the_model():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        plain = scores(Dense(WORDS))
    finally:
        keras.config.set_dtype_policy("float32")
    model = without_logits(plain)
    model.compile("adam")
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)


def test_a_subclassed_backbone_takes_a_built_head_and_exports_with_a_signature(batch, tmp_path):
    backbone, head = Backbone(), Dense(WORDS)
    backbone(batch[0])
    with pytest.raises(ValueError, match=r"`head` must be built.* call head.build\(\(None, width\)\) first"):
        BackboneModel(backbone, head)
    head.build((None, WIDTH))
    model = BackboneModel(backbone, head)
    assert model(batch[0]).shape == (6, 10, WORDS)
    with pytest.raises(ValueError, match=r"Give `input_signature`, a list of keras.InputSpec"):
        model.export(tmp_path / "exported", verbose=False)
    signature = [keras.InputSpec(shape=(None, None), dtype="int32")]
    model.export(tmp_path / "exported", verbose=False, input_signature=signature)


@keras.saving.register_keras_serializable("test_backbone_model")
class Scaled(Dense):
    def call(self, inputs, training=None):
        return 10 * super().call(inputs)


def test_heads_with_another_computation_are_refused():
    with pytest.raises(ValueError, match=r"that scores words as they do.* Received: Scaled"):
        without_logits(scores(Scaled(WORDS)))
    with pytest.raises(ValueError, match=r"must have no activity_regularizer.* Remove it"):
        without_logits(scores(Dense(WORDS, activity_regularizer="l2")))


def test_backbones_that_do_not_fit_are_refused(batch):
    words, embedding = keras.Input((None,), dtype="int32"), TiedEmbedding(WORDS, WIDTH, name="words")
    hidden = embedding(words)
    with pytest.raises(ValueError, match=r"must end with scores of words: call 'words' with reverse=True"):
        without_logits(keras.Model(words, hidden))
    with pytest.raises(ValueError, match=r"must have one output, the hidden states. Received: 2 outputs"):
        BackboneModel(keras.Model(words, [hidden, hidden]), "words")
    with pytest.raises(ValueError, match=r"width of the backbone, 3. Received: 'words', of width 6"):
        BackboneModel(keras.Model(words, Dense(3)(hidden)), "words")
    with pytest.raises(ValueError, match=r"Its layers that can score words: 'words'"):
        BackboneModel(keras.Model(words, hidden), "none")
    with pytest.raises(ValueError, match=r"`backbone` must be a keras.Model. Received: Dense"):
        BackboneModel(Dense(3), "none")
    for loss in ("sparse_categorical_crossentropy", keras.losses.SparseCategoricalCrossentropy()):
        with pytest.raises(ValueError, match=r"`loss` must take logits.* which takes probabilities"):
            BackboneModel(keras.Model(words, hidden), "words").compile("sgd", loss)


def test_a_subclassed_backbone_that_gives_scores_is_refused(batch):
    class Scores(Backbone):
        def call(self, inputs):
            return self.words(super().call(inputs), reverse=True)

    backbone = Scores()
    backbone(batch[0])
    model = BackboneModel(backbone, "words")
    model.compile("sgd")
    with pytest.raises(ValueError, match=rf"must have the embedding's size {WIDTH}. Received: .*{WORDS}\)"):
        model.fit(*batch, verbose=0)


def test_weights_of_rows_and_words_count_as_with_logits(batch, rng):
    plain = scores(Dense(WORDS))
    model = without_logits(plain)
    plain.compile("sgd", keras.losses.SparseCategoricalCrossentropy(True, reduction="sum"))
    model.compile("sgd", SequenceCrossEntropy(reduction="sum"))
    weights = rng.uniform(size=(6, 10))
    expected = plain.evaluate(*batch, sample_weight=weights, verbose=0)
    np.testing.assert_allclose(model.evaluate(*batch, sample_weight=weights, verbose=0)[0], expected, rtol=1e-5)


@pytest.mark.parametrize("head", [head for head in HEADS if head != "masked"])
def test_gradients_of_a_head_are_not_rounded_in_mixed_precision(head, batch, monkeypatch):
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = without_logits(functional(head))
    finally:
        keras.config.set_dtype_policy("float32")
    received = []
    from_hidden = SequenceCrossEntropy.from_hidden

    def noted(self, targets, hidden, output, *arguments):
        received.append(getattr(output, "head", output).embeddings.dtype)
        return from_hidden(self, targets, hidden, output, *arguments)

    monkeypatch.setattr(SequenceCrossEntropy, "from_hidden", noted)
    model(batch[0], targets=batch[1], training=True)
    assert [keras.backend.standardize_dtype(dtype) for dtype in received] == ["float32"]


def test_a_trained_head_of_a_frozen_backbone_is_trained_after_loading(tmp_path):
    words = keras.Input((None,), dtype="int32")
    embedding = ReversibleEmbedding(WORDS, WIDTH, name="words")
    hidden = LSTM(WIDTH, return_sequences=True, name="hidden")(embedding(words))
    model = BackboneModel(keras.Model(words, hidden), "words")
    model.backbone.trainable, model.output_embedding.trainable = False, True
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    names = [[each.name for each in either.trainable_variables] for either in (model, again)]
    assert names[0] == names[1] == ["embeddings"]
    assert not again.backbone.get_layer("hidden").trainable_variables


@pytest.mark.parametrize("head", ["dense", "untied", "tied"])
def test_a_compiled_model_with_a_quantized_head_is_loaded_compiled(head, batch, tmp_path):
    model = without_logits(functional(head))
    model.compile("sgd")
    model.quantize("int8")
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.compiled
    np.testing.assert_array_equal(loaded(batch[0]), model(batch[0]))
