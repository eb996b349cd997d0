import numpy as np
import pytest
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr

from keras_tying.metrics import nearest_neighbours, pair_correlation, pair_correlations, word_similarity
from keras_tying.metrics.neighbours import RESOLUTION


def cosines(matrix):
    return 1 - pdist(matrix, "cosine")


def on_grid(values):
    return np.rint(values * RESOLUTION)


@pytest.fixture
def matrices(rng):
    a = rng.normal(size=(60, 5))
    return {"a": a, "b": a + rng.normal(size=a.shape), "c": rng.normal(size=(60, 9))}


@pytest.mark.parametrize("block", [1, 1000, 10**6])
def test_correlation_over_all_pairs_equals_scipy(matrices, block, monkeypatch):
    monkeypatch.setattr(pair_correlation, "BLOCK", block)
    for (a, b), rho in pair_correlations(matrices).items():
        expected = spearmanr(cosines(matrices[a]), cosines(matrices[b])).statistic
        assert rho == pytest.approx(expected, abs=1e-6)


def test_equal_cosines_share_their_rank_as_in_scipy(rng):
    a, b = (rng.integers(-1, 2, (40, 3)) + 0.0 for _ in range(2))
    a[:, 0], b[:, 0] = 2, 2  # no rows of zeros, many equal cosines
    expected = spearmanr(on_grid(cosines(a)), on_grid(cosines(b))).statistic
    assert pair_correlations({"a": a, "b": b})["a", "b"] == pytest.approx(expected, abs=1e-6)


def test_correlation_of_equal_embeddings_is_not_defined():
    assert pair_correlations({"a": np.ones((4, 2)), "b": np.eye(4, 2)}) == {("a", "b"): None}


def test_correlation_needs_the_same_words(rng):
    with pytest.raises(ValueError, match=r"same words, at least three. Received: \[4, 5\]"):
        pair_correlations({"a": rng.normal(size=(4, 2)), "b": rng.normal(size=(5, 2))})


def test_word_similarity_equals_scipy_on_the_covered_pairs(rng):
    matrix, scores = rng.normal(size=(6, 4)), [5, 3, 3, 9, 1, 7]
    ids = {word: i for i, word in enumerate("abcdef")}
    pairs = [("a", "b"), ("C", "d"), ("e", "f"), ("a", "f"), ("a", "sun"), ("b", "e")]
    result = word_similarity(matrix, ids, pairs, scores)
    covered = [(0, 1), (2, 3), (4, 5), (0, 5), (1, 4)]
    expected = spearmanr([cosines(matrix[list(pair)])[0] for pair in covered], [5, 3, 3, 9, 7]).statistic
    assert result.spearman == pytest.approx(expected)
    assert (result.covered, result.pairs) == (5, 6)


def test_pairs_with_the_same_cosine_share_their_rank(rng):
    """The cosine of a word with itself is 1 for all words, also where float32 says 0.9999998."""
    matrix, scores = rng.normal(size=(60, 50)), rng.integers(0, 10, 80)
    ids = {f"w{i}": i for i in range(60)}
    pairs = [(f"W{i}", f"w{i}") for i in range(40)] + [(f"w{i}", f"w{i + 1}") for i in range(40)]
    expected = [1.0] * 40 + [cosines(matrix[[i, i + 1]])[0] for i in range(40)]
    result = word_similarity(matrix, ids, pairs, scores)
    assert set(result.cosines[:40]) == {1.0}
    assert result.spearman == pytest.approx(spearmanr(expected, scores).statistic)


@pytest.mark.parametrize(
    ("pairs", "scores"), [([("sun", "moon")], [1]), ([("a", "b")], [1]), ([("a", "b"), ("a", "b")], [1, 2]), ([], [])]
)
def test_word_similarity_of_too_few_pairs_is_not_defined(pairs, scores):
    result = word_similarity(np.eye(2), {"a": 0, "b": 1}, pairs, scores)
    assert result.spearman is None
    assert result.covered == sum("a" in pair for pair in pairs)


def test_nearest_neighbours_have_the_largest_cosines(rng):
    matrix = rng.normal(size=(30, 4))
    nearest, values = nearest_neighbours(matrix, np.array([7, 3]), 5)
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    for word, ids, found in zip([7, 3], nearest, values, strict=True):
        order = [i for i in np.argsort(-(unit @ unit[word])) if i != word]
        assert ids.tolist() == order[:5]
        np.testing.assert_allclose(found, (unit @ unit[word])[ids], rtol=1e-5)


def test_the_number_of_neighbours_is_limited_by_the_vocabulary():
    nearest, _ = nearest_neighbours(np.zeros((3, 2)), np.array([1]), 9)
    assert sorted(nearest[0].tolist()) == [0, 2]


def test_vectors_that_are_not_finite_are_refused(rng):
    matrix = rng.normal(size=(6, 3))
    other = matrix.copy()
    other[2] = np.nan
    with pytest.raises(ValueError, match=r"^Expected finite vectors\. Received: 'b' with NaN or infinity\."):
        pair_correlations({"a": matrix, "b": other})
