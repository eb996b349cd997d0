import keras
import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from scipy.stats import chisquare

from keras_tying import zoo
from keras_tying.data import windows
from keras_tying.inference.language_model import stream_perplexity
from keras_tying.losses import OutputProjection, SampledCrossEntropy
from keras_tying.losses.sampled_cross_entropy import PARTS, log_uniform_words, sampled_token_losses
from keras_tying.optimizers import ClippedSGD

N, H, V = 23, 5, 17
Q = np.log1p(1 / np.arange(1, V + 1)) / np.log(V + 1)


@pytest.fixture
def arrays(rng):
    hidden, embeddings = rng.normal(size=(N, H)).astype("float32"), rng.normal(size=(V, H)).astype("float32")
    return hidden, rng.integers(0, V, N).astype("int32"), embeddings, rng.normal(size=V).astype("float32")


def test_draws_follow_the_log_uniform_distribution():
    drawn = keras.ops.convert_to_numpy(SampledCrossEntropy(samples=50_000).draw(V, seed=1))
    assert chisquare(np.bincount(drawn, minlength=V), 50_000 * Q).pvalue > 0.001


def test_each_of_a_million_words_is_drawn_as_often_as_the_loss_corrects_for():
    """The chance of a word is the share of evenly spaced places that give it. Looks at the rarest words only."""
    words, parts, places = 1_000_000, PARTS - np.arange(1, 5), 2**18
    rows = np.meshgrid((parts + 0.5) / PARTS, (np.arange(places) + 0.5) / places)
    ids = log_uniform_words(np.stack(rows).reshape(2, -1).astype("float32"), words)
    counts = np.bincount(keras.ops.convert_to_numpy(ids), minlength=words)
    first = counts.nonzero()[0].min() + 1  # of the one before, some places are in an earlier part
    expected = np.log1p(1 / np.arange(first + 1, words + 1)) / np.log(words + 1)
    np.testing.assert_allclose(counts[first:] / (PARTS * places), expected, rtol=0.05)


@pytest.mark.parametrize("options", [{}, {"temperature": 2.0}, {"logit_soft_cap": 3.0, "temperature": 0.5}], ids=str)
def test_loss_equals_the_formula(arrays, options):
    hidden, targets, embeddings, bias = arrays
    drawn = np.array([0, 3, 3, 16, 5], "int32")
    z = hidden @ embeddings.T + bias
    if cap := options.get("logit_soft_cap"):
        z = cap * np.tanh(z / cap)
    z = z / options.get("temperature", 1)
    expected = []
    for scores, target in zip(z, targets, strict=True):
        scores = scores - np.log(Q)
        expected.append(logsumexp(scores[[target, *drawn]]) - scores[target])
    losses = sampled_token_losses(hidden, targets, drawn, OutputProjection(embeddings, bias, **options))
    np.testing.assert_allclose(keras.ops.convert_to_numpy(losses), expected, rtol=1e-5, atol=1e-5)


def test_the_loss_of_a_target_outside_the_vocabulary_is_nan(arrays):
    hidden, targets, *parameters = arrays
    targets[:2] = -1, V
    losses = sampled_token_losses(hidden, targets, np.array([0, 3], "int32"), OutputProjection(*parameters))
    np.testing.assert_array_equal(np.isnan(losses), np.arange(N) < 2)


def test_gradient_vanishes_at_the_distribution_of_the_targets(rng):
    """Three samples are enough. The hidden state is 1, the one-dimensional embeddings are log p."""
    p = rng.dirichlet(np.ones(V))
    targets, drawn = rng.choice(V, 40_000, p=p), rng.choice(V, (40_000, 3), p=Q)
    ids = np.concatenate([targets[:, None], drawn], axis=1)

    def mean_gradient(scores):
        share = softmax((scores - np.log(Q))[ids], axis=1)
        share[:, 0] -= 1
        return np.bincount(ids.reshape(-1), share.reshape(-1), V) / len(ids)

    assert np.abs(mean_gradient(np.log(p))).max() < 0.006
    assert np.abs(mean_gradient(np.zeros(V))).max() > 0.03


def test_training_lowers_the_exact_perplexity(train_ids, vocabulary):
    keras.utils.set_random_seed(0)
    model = zoo.ptb_small(tied=True, vocabulary_size=len(vocabulary))
    model.carry_state(20)
    model.compile(ClippedSGD(0.5), SampledCrossEntropy(samples=64))
    text = windows(train_ids[:20_001], 20, 20)
    model.fit(text.inputs, text.targets, batch_size=20, shuffle=False, epochs=2, verbose=0)
    assert stream_perplexity(model, train_ids[:4000], 20) < 100


def test_arguments_out_of_range_raise():
    with pytest.raises(ValueError, match="samples=0"):
        SampledCrossEntropy(samples=0)
    with pytest.raises(ValueError, match="needs the scores of all words"):
        SampledCrossEntropy(label_smoothing=0.1)


def test_config_round_trip():
    loss = SampledCrossEntropy(samples=7, temperature=2.0, ignore_id=0)
    assert SampledCrossEntropy.from_config(loss.get_config()).get_config() == loss.get_config()
