import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_tying.losses import OutputProjection, SequenceCrossEntropy
from keras_tying.losses.cross_entropy import linear_token_losses

H, V = 5, 17


def test_very_unlikely_words_have_a_finite_loss():
    output = OutputProjection(tf.constant([[0.0], [-1000.0]]))
    _, nll = linear_token_losses(tf.ones([1, 1]), tf.constant([1]), output)
    np.testing.assert_allclose(nll, [1000.0])


def test_log_likelihoods_exclude_label_smoothing(rng):
    hidden, embeddings = (tf.constant(rng.normal(size=shape), "float32") for shape in ((4, H), (V, H)))
    targets = tf.constant(rng.integers(0, V, 4), "int32")
    _, nll = linear_token_losses(hidden, targets, OutputProjection(embeddings, label_smoothing=0.2))
    np.testing.assert_array_equal(nll, linear_token_losses(hidden, targets, OutputProjection(embeddings))[1])


def test_sum_over_steps_is_the_mean_times_the_sequence_length(rng):
    targets = rng.integers(0, V, (3, 8))
    logits = rng.normal(size=(3, 8, V)).astype("float32")
    summed, mean = (float(SequenceCrossEntropy(scale)(targets, logits)) for scale in ("sum_over_steps", "mean"))
    expected = keras.losses.sparse_categorical_crossentropy(targets, logits, from_logits=True)
    np.testing.assert_allclose(mean, np.mean(expected), rtol=1e-5)
    np.testing.assert_allclose(summed, 8 * mean, rtol=1e-5)


def test_ignored_targets_do_not_count(rng):
    targets = np.array([[1, 0, 2], [0, 3, 0]])
    logits = rng.normal(size=(2, 3, V)).astype("float32")
    loss = SequenceCrossEntropy("mean", ignore_id=0)
    kept = targets != 0
    expected = keras.losses.sparse_categorical_crossentropy(targets[kept], logits[kept], from_logits=True)
    np.testing.assert_allclose(float(loss(targets, logits)), np.mean(expected), rtol=1e-5)


def test_hidden_states_and_logits_give_the_same_loss(rng):
    hidden = rng.normal(size=(2, 4, H)).astype("float32")
    embeddings = rng.normal(size=(V, H)).astype("float32")
    targets = rng.integers(0, V, (2, 4))
    loss = SequenceCrossEntropy(label_smoothing=0.1, temperature=2.0)
    from_hidden, _, _ = loss.from_hidden(targets, tf.constant(hidden), OutputProjection(tf.constant(embeddings)))
    np.testing.assert_allclose(from_hidden, loss(targets, hidden @ embeddings.T), rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale": "sum"}, "Received: scale='sum'"),
        ({"label_smoothing": 1.0}, "Received: label_smoothing=1.0"),
        ({"temperature": 0}, "Received: temperature=0"),
    ],
)
def test_arguments_out_of_range_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        SequenceCrossEntropy(**arguments)


def test_config_round_trip():
    loss = SequenceCrossEntropy("mean", label_smoothing=0.1, temperature=2.0, ignore_id=3)
    assert SequenceCrossEntropy.from_config(loss.get_config()).get_config() == loss.get_config()
