import itertools

import keras
import numpy as np
import pytest

import keras_tying as kt
from keras_tying import backend
from keras_tying.models import beam_search

V, END = 4, 1
OTHER_PARAMETERS = 32_268_500  # parameters of the published model without embeddings and output bias


def small(tying="three_way", size=V, **arguments):
    return kt.zoo.dl4mt_small(size, size, tying, **{"embedding_size": 6, "units": 8, "dropout": 0.0, **arguments})


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(7)
    model, rng = small(), np.random.default_rng(7)
    model.set_weights([rng.normal(size=w.shape) for w in model.get_weights()])
    return model


@pytest.fixture
def source(rng):
    ids = rng.integers(0, V, (5, 6)).astype("int32")
    ids[1, 3:] = ids[3, 1:] = -1
    return ids


@pytest.mark.parametrize(
    ("tying", "source", "target", "millions"),
    [
        ("none", 87_000, 92_000, 167.9),
        ("decoder", 87_000, 92_000, 121.9),
        ("three_way", 94_000, 94_000, 79.4),
        ("none", 83_000, 91_000, 164.9),
    ],
)
def test_parameter_counts_are_those_of_the_published_models(tying, source, target, millions):
    def of_embeddings(source, target):
        separate = {"none": source + target, "decoder": source, "three_way": 0}[tying]
        return 500 * separate + 501 * target  # vectors and the bias of each target word

    assert kt.zoo.dl4mt(10, 10, tying).count_params() - of_embeddings(10, 10) == OTHER_PARAMETERS
    assert OTHER_PARAMETERS + of_embeddings(source, target) == pytest.approx(millions * 1e6, abs=0.05e6)


@pytest.mark.parametrize(("tying", "number"), [("none", 3), ("decoder", 2), ("three_way", 1)])
def test_tying_decides_how_many_embedding_matrices_there_are(tying, number):
    model = small(tying, size=50)
    assert sum(50 in v.shape and len(v.shape) == 2 for v in model.trainable_variables) == number
    assert len(model.embedding_matrices()) == number


def test_three_way_tying_sums_the_gradients_of_all_roles(source):
    untied, tied = small("none"), small("three_way")
    matrix = np.array(tied.embedding.embeddings)
    tied.embedding.bias.assign(np.zeros(V))
    for to, given in zip((untied.forwards, untied.backwards, untied.first_state, untied.decoder, *untied.readouts),
        (tied.forwards, tied.backwards, tied.first_state, tied.decoder, *tied.readouts), strict=True):  # fmt: skip
        to.set_weights(given.get_weights())
    untied.source_embedding.embeddings.assign(matrix)
    untied.embedding.embeddings.assign(matrix)
    untied.embedding.reverse_embeddings.assign(matrix.T)
    inputs = {"source": source, "target": source[:, :3]}
    found = {}
    for model in (untied, tied):
        before = [np.array(v) for v in model.trainable_variables]
        model.compile(keras.optimizers.SGD(1.0))
        model.train_on_batch(inputs, np.zeros((5, 3), "int32"))
        found[model.tying] = [b - np.array(v) for b, v in zip(before, model.trainable_variables, strict=True)]
    roles = [g if g.shape[0] == V else g.T for g in found["none"] if g.shape in ((V, 6), (6, V))]
    (total,) = (g for g in found["three_way"] if g.shape == (V, 6))
    assert len(roles) == 3
    np.testing.assert_allclose(total, sum(roles), atol=1e-4)


def test_padding_does_not_change_scores(model, source):
    target = np.array([[-1, 2, 3], [-1, 2, -1]], "int32")
    words = np.array([[2, 3, 1], [2, 1, -1]], "int32")
    together = model.score({"source": source[:2], "target": target}, words)
    alone = model.score({"source": source[1:2, :3], "target": target[1:, :2]}, words[1:, :2])
    np.testing.assert_allclose(together[1, :2], alone[0], atol=1e-5)
    assert together[1, 2] == 0
    losses = model({"source": source[:2], "target": target}, targets=words)
    np.testing.assert_allclose(losses.token_losses, -together, atol=1e-6)
    np.testing.assert_array_equal(losses.counted, words != -1)


def test_scores_need_a_target_for_each_previous_word(model, source):
    inputs = {"source": source, "target": np.zeros((len(source), 3), "int32")}
    with pytest.raises(ValueError, match="must have the shape"):
        model.score(inputs, np.zeros((len(source), 4), "int32"))


def test_inputs_must_have_names(model, source):
    with pytest.raises(ValueError, match=r"dictionary with \['source', 'target'\]. Received: ndarray"):
        model.score(source, source)
    with pytest.raises(ValueError, match=r"dictionary with \['source', 'target'\]. Received: tuple"):
        model((source, source))


def test_scores_are_log_probabilities_of_the_logits(model, source):
    inputs = {"source": source, "target": np.full((5, 1), -1)}
    logits = np.array(model(inputs), float)[:, 0]
    expected = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    for word in range(V):
        np.testing.assert_allclose(model.score(inputs, np.full((5, 1), word))[:, 0], expected[:, word], atol=1e-4)


def test_ids_outside_the_vocabulary_raise(model):
    with pytest.raises(ValueError, match=rf"\[0, {V}\)\. Received: 9"):
        model.translate(np.array([[9, 1]]), END)


def test_three_way_tying_needs_one_vocabulary():
    with pytest.raises(ValueError, match="source_vocabulary_size=4, target_vocabulary_size=5"):
        kt.zoo.dl4mt(4, 5, "three_way")


@pytest.mark.parametrize("arguments", [{"tying": "both"}, {"dropout": 1.0}])
def test_arguments_out_of_range_raise(arguments):
    (name, value), *_ = arguments.items()
    with pytest.raises(ValueError, match=f"Received: {name}={value!r}"):
        kt.zoo.dl4mt(4, 4, **arguments)


def test_loaded_model_gives_the_same_translations(model, source, tmp_path):
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.get_config() == model.get_config()
    np.testing.assert_array_equal(again.translate(source, END).words, model.translate(source, END).words)


def greedy(model, source, limit):
    """Greedy translation from the logits, without the search."""
    words = []
    while len(words) < limit and END not in words:
        target = np.array([[-1, *words]])
        words.append(int(np.argmax(model({"source": source, "target": target})[0, -1])))
    return words


def test_a_beam_of_one_is_greedy(model, source):
    found = model.translate(source, END, beam_size=1, maximum_length=6).words[:, 0]
    for row in range(len(source)):
        assert [w for w in found[row] if w >= 0] == greedy(model, source[row : row + 1], 6)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_a_wide_beam_finds_the_best_of_all_sequences(model, source, length_penalty):
    """All sequences of at most three words. Sequences of three words may be truncated before the end id."""
    complete = [[*body, END] for n in range(3) for body in itertools.product([0, 2, 3], repeat=n)]
    truncated = [list(body) for body in itertools.product([0, 2, 3], repeat=3)]
    sequences = complete + truncated
    best = []
    for row in range(len(source)):
        scores = []
        for sequence in sequences:
            inputs = {"source": source[row : row + 1], "target": np.array([[-1, *sequence[:-1]]])}
            total = model.score(inputs, np.array([sequence])).sum()
            scores.append(total / len(sequence) ** length_penalty)
        order = np.argsort(scores)[::-1]
        best.append([(sequences[i], scores[i]) for i in order[:2]])
    found = model.translate(source, END, beam_size=64, n_best=2, length_penalty=length_penalty, maximum_length=3)
    for row, expected in enumerate(best):
        for n, (sequence, score) in enumerate(expected):
            assert [w for w in found.words[row, n] if w >= 0] == sequence
            np.testing.assert_allclose(found.scores[row, n], score, atol=1e-4)


def test_where_fewer_translations_are_possible_the_others_have_no_words(model, source):
    found = model.translate(source[:2], END, beam_size=9, n_best=9, maximum_length=1)
    possible = model.target_vocabulary_size
    for words, scores in zip(found.words[:, :, 0], found.scores, strict=True):
        assert sorted(words[:possible]) == [*range(possible)]
        np.testing.assert_array_equal(words[possible:], -1)
        np.testing.assert_array_equal(scores[possible:], np.float32(-1e9))
        assert scores[possible - 1] > -100


@pytest.mark.parametrize("beam_size", [1, 3])
def test_batches_and_single_sentences_give_the_same_translations(model, source, beam_size):
    together = model.translate(source, END, beam_size)
    for row in range(len(source)):
        alone = model.translate(source[row : row + 1, : (source[row] >= 0).sum()], END, beam_size)
        length = alone.words.shape[2]
        np.testing.assert_array_equal(together.words[row, :, :length], alone.words[0])
        assert np.all(together.words[row, :, length:] == -1)


def test_finished_sentences_leave_the_batch(model, source, monkeypatch):
    batch_sizes = []
    advance = beam_search.advance

    def counted(model, end_id, step, beam, draw=None):
        batch_sizes.append(beam.scores.shape[0])
        return advance(model, end_id, step, beam, draw)

    monkeypatch.setattr(beam_search, "advance", counted)
    monkeypatch.setattr(beam_search, "compile_function", lambda model, function: function)
    limits = np.array([1, 1, 1, 4, 9], "int32")
    backend.portable(beam_search.search)(model, source, limits, 1, 1.0, END)
    assert batch_sizes[0] == 8  # five, padded to a power of two
    assert batch_sizes[-1] <= 2


def test_drawn_translations_follow_the_models_probabilities(model, source):
    one = np.repeat(source[:1], 4000, axis=0)
    words = model.sample(one, END, maximum_length=1, seed=3).words[:, 0, 0]
    expected = np.exp([model.score({"source": source[:1], "target": [[-1]]}, [[w]])[0, 0] for w in range(V)])
    np.testing.assert_allclose(np.bincount(words, minlength=V) / 4000, expected, atol=0.03)


def test_same_seed_gives_the_same_translations(model, source):
    first, second, other = (model.sample(source, END, number=3, seed=seed).words for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_temperature_zero_draws_the_greedy_translation(model, source):
    drawn = model.sample(source, END, temperature=0.0, seed=1).words[:, 0]
    np.testing.assert_array_equal(drawn, model.translate(source, END, beam_size=1).words[:, 0])


@pytest.fixture(params=["float64", "float16"])
def floatx(request):
    keras.config.set_floatx(request.param)
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")


def test_the_default_precision_of_keras_changes_no_translation(model, source, floatx):
    other = small()
    other.set_weights(model.get_weights())
    assert other.compute_dtype == floatx
    for translate in (lambda m: m.translate(source, END), lambda m: m.sample(source, END, temperature=0.0)):
        expected, found = translate(model), translate(other)
        np.testing.assert_array_equal(found.words[:, 0], expected.words[:, 0])
        np.testing.assert_allclose(found.scores[:, 0], expected.scores[:, 0], rtol=1e-2)


def test_n_best_above_the_beam_size_raises(model, source):
    with pytest.raises(ValueError, match="beam_size=2, n_best=3"):
        model.translate(source, END, beam_size=2, n_best=3)


def test_no_sentences_give_no_translations(model):
    assert model.translate(np.zeros((0, 3), "int32"), END).words.shape[0] == 0
