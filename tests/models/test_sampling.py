import keras
import numpy as np
import pytest

import keras_tying as kt
from keras_tying.models.sampling import EXCLUDED, candidate_scores
from keras_tying.zoo import recurrent_language_model

V, H = 13, 4


def small(**arguments):
    return recurrent_language_model(V, H, **{"initializer_range": 0.5, **arguments})


def test_score_is_the_logarithm_of_each_words_probability(rng):
    tokens, targets = rng.integers(0, V, (2, 3, 6))
    model = small(logit_soft_cap=1.5)
    probabilities = keras.ops.convert_to_numpy(keras.ops.softmax(model.predict(tokens, verbose=0)))
    expected = np.log(np.take_along_axis(probabilities, targets[..., None], -1)[..., 0])
    np.testing.assert_allclose(model.score(tokens, targets), expected, atol=1e-5)


def test_greedy_generation_follows_the_likeliest_word():
    model = small()
    text = [[1, 2]]
    for _ in range(5):
        text[0].append(int(np.argmax(model.predict(np.array(text), verbose=0)[0, -1])))
    assert model.generate([[1, 2]], 5, temperature=0).tolist() == [text[0][2:]]
    assert model.generate([[1, 2]], 5, top_k=1).tolist() == [text[0][2:]]
    assert model.generate([[1, 2]], 5, top_p=1e-9).tolist() == [text[0][2:]]


@pytest.mark.parametrize("mask_zero", [True, False])
def test_padding_is_never_drawn(mask_zero):
    likely = keras.initializers.Constant(9.0 * (np.arange(V) == 0))
    embedding = kt.layers.TiedEmbedding(V, H, mask_zero=mask_zero, bias_initializer=likely)
    model = kt.models.LanguageModel(embedding, [kt.layers.LSTM(H, return_sequences=True, return_state=True)])
    assert (0 in model.generate([[1], [2]], 30, seed=0)) != mask_zero


def test_generation_is_repeatable_by_seed():
    model = small()
    first, again, other = (model.generate([[1], [2]], 30, seed=seed).tolist() for seed in (1, np.int64(1), 2))
    assert first == again != other


def test_generation_follows_the_models_distribution():
    model = small()
    drawn = model.generate(np.ones((20_000, 1), int), 1, seed=0)[:, 0]
    expected = keras.ops.convert_to_numpy(keras.ops.softmax(model.predict(np.array([[1]]), verbose=0)))[0, 0]
    np.testing.assert_allclose(np.bincount(drawn, minlength=V) / 20_000, expected, atol=0.015)


@pytest.mark.parametrize("limits", [{}, {"top_k": 1}, {"top_p": 0.1}])
def test_a_tiny_temperature_chooses_as_temperature_zero(limits):
    model = recurrent_language_model(50, 4)
    model.embedding.bias.assign(np.where(np.arange(50) == 7, -2.0, -5.0))
    assert model.generate([[0]], 5, temperature=1e-9, seed=0, **limits).tolist() == [[7] * 5]


@pytest.mark.filterwarnings("error")
def test_a_temperature_beyond_float32_draws_all_words_alike():
    drawn = small().generate(np.ones((20_000, 1), int), 1, temperature=1e300, seed=0)[:, 0]
    np.testing.assert_allclose(np.bincount(drawn, minlength=V) / 20_000, np.full(V, 1 / V), atol=0.015)


def test_top_k_and_top_p_leave_only_the_likeliest_words():
    model = small()
    probabilities = keras.ops.convert_to_numpy(keras.ops.softmax(model.predict(np.array([[1]]), verbose=0)))[0, 0]
    ranked = np.argsort(-probabilities)
    prefix = np.ones((2000, 1), int)
    assert set(model.generate(prefix, 1, top_k=3, seed=0)[:, 0]) == set(ranked[:3])
    reach = probabilities[ranked[:4]].sum() - 1e-4
    assert set(model.generate(prefix, 1, top_p=float(reach), seed=0)[:, 0]) == set(ranked[:4])


def test_a_top_p_below_the_least_float32_leaves_the_likeliest_word():
    model = small()
    assert model.generate([[1]], 5, top_p=1e-50, seed=0).tolist() == model.generate([[1]], 5, top_k=1).tolist()


def test_top_p_of_one_leaves_all_words(rng):
    scores = rng.normal(scale=3, size=(64, 1000)).astype("float32")
    probabilities = np.exp(np.sort(scores[-1])[::-1].astype("float64"))
    half = np.searchsorted(np.cumsum(probabilities / probabilities.sum()), 0.5) + 1
    top_p = np.where(np.arange(64) < 63, 1, 0.5)[:, None]
    kept = keras.ops.convert_to_numpy(candidate_scores(scores, 1.0, 1000, top_p)) > EXCLUDED
    assert kept.sum(axis=1).tolist() == [1000] * 63 + [half]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"temperature": -1}, "temperature=-1"), ({"top_k": 0}, "top_k=0"), ({"top_p": 0}, "top_p=0")],
)
def test_sampling_options_out_of_range_raise(options, message):
    with pytest.raises(ValueError, match=f"Received: {message}"):
        small().generate([[1]], 1, **options)


def test_ids_outside_the_vocabulary_raise():
    for ask in (lambda: small().score([[V]], [[1]]), lambda: small().generate([[-1]], 1)):
        with pytest.raises(ValueError, match=r"Word ids must be in \[0, 13\)"):
            ask()


@pytest.mark.parametrize("limits", [(), (3, 1.0), (1, 1.0)])
def test_of_equal_scores_the_first_words_are_the_likeliest(limits):
    scores = np.array([[1.0, 2.0, 2.0, 2.0, 0.0], [3.0, 3.0, 3.0, 3.0, 3.0]])
    greedy, drawn = (keras.ops.convert_to_numpy(candidate_scores(scores, t, *limits)) > EXCLUDED for t in (0.0, 1.0))
    assert [np.flatnonzero(row).tolist() for row in greedy] == [[1], [0]]
    number = limits[0] if limits else 5
    assert drawn.sum(axis=1).tolist() == [number] * 2
    assert drawn[1, :number].all()
