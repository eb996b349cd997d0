"""Language models that are measured with a temperature, a neural cache or dynamic evaluation."""

import copy
from functools import partial
from itertools import product

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_tying.data import Vocabulary, windows
from keras_tying.inference import (
    DynamicEvaluation,
    NeuralCache,
    TemperedSoftmax,
    TrainedLanguageModel,
    dynamic_evaluation,
    neural_cache,
)
from keras_tying.inference.language_model import mc_perplexity, read_windows, stream_perplexity
from keras_tying.inference.neural_cache import cache_probabilities
from keras_tying.inference.temperature import TEMPERATURES
from keras_tying.layers import LSTM, TiedEmbedding
from keras_tying.models import LanguageModel
from keras_tying.zoo import recurrent_language_model

V = 11
WORDS = Vocabulary([*"012345678", "<unk>", "<eos>"])


def small():
    return recurrent_language_model(V, 6, initializer_range=0.8, dropout=0.5)


@pytest.fixture
def model():
    return small()


@pytest.fixture(scope="module")
def fitted():
    """Dynamic evaluation that was fitted on a text, the text, and its perplexity before `fit`; and the weights then."""
    keras.utils.set_random_seed(7)
    model = small()
    ids, own = np.random.default_rng(7).integers(0, V, 200), model.get_weights()
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(dynamic_evaluation, "STATISTICS_ROWS", 4)
        dynamic = DynamicEvaluation(model, ids, segment=5)
    before = dynamic.perplexity(ids)
    return dynamic.fit(ids), ids, before, own


def test_a_tempered_softmax_divides_the_logits(rng, model):
    ids = rng.integers(0, V, 700)
    tempered = TemperedSoftmax(model)
    np.testing.assert_allclose(tempered.perplexity(ids), stream_perplexity(model, ids), rtol=1e-5)
    tempered.fit(ids)
    logits = model.predict(ids[None, :-1], verbose=0)[0].astype("float64")
    perplexities = []
    for temperature in TEMPERATURES:
        scores = logits / temperature
        nll = np.log(np.exp(scores).sum(axis=-1)) - scores[np.arange(len(ids) - 1), ids[1:]]
        perplexities.append(np.exp(nll.mean()))
    np.testing.assert_allclose(tempered.perplexity(ids), min(perplexities), rtol=1e-5)


def test_the_cache_gives_words_the_share_of_states_like_the_present_one(rng):
    keys, words = rng.normal(size=(30, 4)), rng.integers(0, 5, 30)
    found = cache_probabilities(keys, words, 3, size=7, flatness=0.6)
    for t in range(3, 30):
        before = range(max(0, t - 7), t)
        shares = {i: np.exp(0.6 * keys[t] @ keys[i]) for i in before}
        expected = sum(shares[i] for i in before if words[i] == words[t]) / sum(shares.values())
        np.testing.assert_allclose(found[t - 3], expected, rtol=1e-6, atol=1e-12)


def test_without_weight_the_cache_changes_nothing(rng, model):
    ids = rng.integers(0, V, 1200)
    np.testing.assert_allclose(NeuralCache(model).perplexity(ids), stream_perplexity(model, ids), rtol=1e-5)


def test_a_cache_reaches_back_over_windows(rng, model, monkeypatch):
    monkeypatch.setattr(neural_cache, "read_windows", partial(read_windows, sequence_length=50))
    ids = np.tile(rng.integers(0, V, 60), 2)  # its second half repeats the first
    cached = NeuralCache(model, size=60)
    cached.flatness, cached.weight = 0.3, 0.2
    keys = np.array(model.hidden_states(ids[None, :-1], training=False)[0])[0]
    of_cache = cache_probabilities(keys, ids[1:], 0, 60, 0.3)
    of_model = np.exp(model.score(ids[None, :-1], ids[None, 1:]))[0].astype("float64")
    of_cache[0] = of_model[0]
    expected = np.exp(-np.mean(np.log(0.8 * of_model + 0.2 * of_cache)))
    np.testing.assert_allclose(cached.perplexity(ids), expected, rtol=1e-4)


def mean_loss(model, inputs, targets, states):
    hidden, states = model.hidden_states(inputs, states, training=False)
    logits = model.scores(hidden)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)), states


def test_dynamic_evaluation_equals_an_independent_computation(rng, model, monkeypatch):
    monkeypatch.setattr(dynamic_evaluation, "STATISTICS_ROWS", 4)
    train, text = rng.integers(0, V, 200), rng.integers(0, V, 24)
    dynamic = DynamicEvaluation(model, train, segment=5)
    dynamic.learning_rate, dynamic.epsilon, dynamic.decay = 1e-3, 2e-4, 0.3
    found, variables = dynamic.perplexity(text), [each.value for each in model.trainable_variables]
    trained = [variable.numpy() for variable in variables]
    cut = windows(train, 4, 5)
    inputs, targets = cut.block(0, cut.batches)
    squares, states = [np.zeros(each.shape) for each in trained], model.zero_states(4)
    for batch in zip(inputs, targets, strict=True):
        with tf.GradientTape() as tape:
            loss, states = mean_loss(model, *batch, states)
        for total, gradient in zip(squares, tape.gradient(loss, variables), strict=True):
            total += tf.convert_to_tensor(gradient).numpy() ** 2
    roots = [np.sqrt(total / cut.batches) for total in squares]
    mean, total, states = np.concatenate([root.ravel() for root in roots]).mean(), 0.0, model.zero_states(1)
    for start in range(0, 23, 5):
        segment = text[None, start : start + 6]
        with tf.GradientTape() as tape:
            loss, states = mean_loss(model, segment[:, :-1], segment[:, 1:], states)
        total += float(loss) * (segment.shape[1] - 1)
        for variable, gradient, root, own in zip(
            variables, tape.gradient(loss, variables), roots, trained, strict=True
        ):
            pull = np.minimum(1, 0.3 * root / mean) * (own - variable.numpy())
            variable.assign_add(pull - 1e-3 * tf.convert_to_tensor(gradient).numpy() / (root + 2e-4))
    np.testing.assert_allclose(found, np.exp(total / 23), rtol=1e-4)


def test_the_model_has_its_own_weights_after_dynamic_evaluation(fitted):
    dynamic, ids, before, own = fitted
    np.testing.assert_allclose(before, stream_perplexity(dynamic.model, ids), rtol=1e-5)
    assert dynamic.perplexity(ids) < stream_perplexity(dynamic.model, ids)
    for weight, value in zip(dynamic.model.get_weights(), own, strict=True):
        np.testing.assert_array_equal(weight, value)


def test_settings_of_dynamic_evaluation_are_better_than_their_neighbours(fitted):
    dynamic, ids = copy.copy(fitted[0]), fitted[1]
    best, found = dynamic.perplexity(ids), [dynamic.learning_rate, dynamic.epsilon, dynamic.decay]
    assert found[0] != dynamic_evaluation.START["learning_rate"]
    for i, factor in product(range(3), (2, 0.5)):
        dynamic.learning_rate, dynamic.epsilon, dynamic.decay = [*found[:i], found[i] * factor, *found[i + 1 :]]
        assert not dynamic.perplexity(ids) < best * (1 - dynamic_evaluation.GAIN)


def test_dynamic_evaluation_that_diverges_later_gets_a_lower_rate(rng, model, monkeypatch):
    monkeypatch.setattr(dynamic_evaluation, "STATISTICS_ROWS", 4)
    monkeypatch.setattr(dynamic_evaluation, "TRIED_WORDS", 6)  # nothing is learned before their end
    monkeypatch.setattr(dynamic_evaluation, "START", {"learning_rate": 1.0, "epsilon": 1e-5, "decay": 0.005})
    ids = rng.integers(0, V, 200)
    dynamic = DynamicEvaluation(model, ids, segment=5).fit(ids)
    assert dynamic.learning_rate < 1
    assert dynamic.perplexity(ids) < stream_perplexity(model, ids)
    np.testing.assert_allclose(dynamic.fitted_perplexity, dynamic.perplexity(ids), rtol=1e-5)


@pytest.fixture
def few_temperatures(monkeypatch):
    """Less to trace, in tests that are not about the temperatures."""
    monkeypatch.setattr("keras_tying.inference.temperature.TEMPERATURES", (0.8, 1.0, 1.3))


@pytest.mark.usefixtures("few_temperatures")
def test_a_mixed_precision_model_adapts(rng, monkeypatch):
    monkeypatch.setattr(dynamic_evaluation, "STATISTICS_ROWS", 4)
    ids = rng.integers(0, V, 200)
    half = recurrent_language_model(V, 6, dtype="mixed_bfloat16", tied=False)
    for way in (TemperedSoftmax(half), NeuralCache(half, 20), DynamicEvaluation(half, ids, segment=5)):
        assert way.fit(ids).perplexity(ids) < 1.05 * stream_perplexity(half, ids)
    assert keras.backend.standardize_dtype(half.compute_dtype) == "bfloat16"


@pytest.mark.usefixtures("few_temperatures")
def test_the_perplexity_of_the_fitted_text_is_known(fitted):
    dynamic, ids, *_ = fitted
    ways = TemperedSoftmax(dynamic.model), NeuralCache(dynamic.model, 20)
    for way in ways:
        assert way.fitted_perplexity is None
        way.fit(ids)
    for way in (*ways, dynamic):
        np.testing.assert_allclose(way.fitted_perplexity, way.perplexity(ids), rtol=1e-5)


def test_dynamic_evaluation_names_the_words_that_it_needs():
    model = recurrent_language_model(30, 4, num_layers=1)
    with pytest.raises(ValueError, match=r"needs a training text of at least 600 words\. Received: 599"):
        DynamicEvaluation(model, np.zeros(599, "int32"), segment=5)


def test_dynamic_evaluation_refuses_a_model_that_sees_a_segment_only(rng):
    model = LanguageModel(TiedEmbedding(V, 6), [keras.layers.Conv1D(6, 3, padding="causal")])
    with pytest.raises(ValueError, match=r"have a state or process each word alone.* Received: \['Conv1D'\]"):
        DynamicEvaluation(model, rng.integers(0, V, 2000))


def masking_model():
    return LanguageModel(TiedEmbedding(V, 6, mask_zero=True), [LSTM(6, return_sequences=True, return_state=True)])


@pytest.mark.parametrize(
    "measure",
    [
        lambda model, ids: stream_perplexity(model, ids),
        lambda model, ids: mc_perplexity(model, ids, passes=1),
        lambda model, ids: TemperedSoftmax(model).perplexity(ids),
        lambda model, ids: NeuralCache(model).perplexity(ids),
        lambda model, ids: TrainedLanguageModel(model, WORDS).perplexity(["1 2", "0"]),
        lambda model, ids: TrainedLanguageModel(model, WORDS).score(["1 2 0"]),
        lambda model, ids: TrainedLanguageModel(model, WORDS).next_words("1 0"),
        lambda model, ids: TrainedLanguageModel(model, WORDS).generate("1 0", 3),
    ],
)
def test_padding_in_a_text_is_refused(measure):
    with pytest.raises(ValueError, match="A text must not contain id 0, which is padding"):
        measure(masking_model(), np.array([1, 2, 3, 0, 4, 5]))


def test_dynamic_evaluation_refuses_padding(rng, monkeypatch):
    monkeypatch.setattr(dynamic_evaluation, "STATISTICS_ROWS", 4)
    dynamic = DynamicEvaluation(masking_model(), rng.integers(1, V, 200), segment=5)
    with pytest.raises(ValueError, match="A text must not contain id 0, which is padding"):
        dynamic.perplexity(np.array([1, 2, 3, 0, 4, 5]))


def test_a_text_without_padding_is_measured_by_a_model_with_masks(rng):
    model, ids = masking_model(), rng.integers(1, V, 50)
    model.compile()
    inputs, targets = ids[None, :-1], ids[None, 1:]
    expected = model.evaluate(inputs, targets, verbose=0, return_dict=True)["perplexity"]
    for found in (stream_perplexity(model, ids), np.exp(-np.mean(model.score(inputs, targets)))):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_score_of_padding_is_zero():
    inputs, targets = np.array([[1, 2, 0, 0], [3, 4, 5, 6]]), np.array([[2, 7, 0, 0], [4, 5, 6, 1]])
    model = masking_model()
    scores = model.score(inputs, targets)
    np.testing.assert_allclose(scores[0, :2], model.score(inputs[:1, :2], targets[:1, :2])[0], rtol=1e-5)
    np.testing.assert_array_equal(scores[0, 2:], 0)
    assert np.all(scores[1] < 0)
