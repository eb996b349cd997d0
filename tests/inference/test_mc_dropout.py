import numpy as np
import pytest

from keras_tying.inference.language_model import mc_perplexity, stream_perplexity
from keras_tying.layers import TiedEmbedding
from keras_tying.zoo import VariationalDropout, recurrent_language_model

V = 11
DROPOUT = VariationalDropout(words=0.2, inputs=0.3, hidden=0.3, outputs=0.3)


@pytest.fixture
def ids(rng):
    return rng.integers(0, V, 60)


def test_without_dropout_the_mean_of_passes_is_the_perplexity(ids):
    model = recurrent_language_model(V, 8, initializer_range=0.5)
    np.testing.assert_allclose(mc_perplexity(model, ids, passes=3), stream_perplexity(model, ids), rtol=1e-5)


def test_probabilities_are_averaged_not_their_logarithms():
    class Coin:
        """Gives every word probability 0.2 and 0.6 in turn."""

        vocabulary_size = 1
        embedding = TiedEmbedding(1, 1)
        probability = 0.6

        def token_log_probabilities(self, inputs, targets, states, stochastic):
            if states is None:
                self.probability = 0.8 - self.probability
            return np.full(targets.shape, np.log(self.probability)), ()

    np.testing.assert_allclose(mc_perplexity(Coin(), np.zeros(100, int), passes=2, sequence_length=10), 1 / 0.4)


def test_passes_draw_masks_of_their_own(ids):
    model = recurrent_language_model(V, 8, initializer_range=0.5, dropout=DROPOUT)
    single = [mc_perplexity(model, ids, passes=1) for _ in range(3)]
    assert len(set(single)) == 3
    assert mc_perplexity(model, ids, passes=10) < max(single)


def test_no_passes_are_refused(ids):
    with pytest.raises(ValueError, match=r"`passes` must be at least 1. Received: passes=0"):
        mc_perplexity(recurrent_language_model(V, 8), ids, passes=0)
