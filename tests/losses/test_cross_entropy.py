import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_tying.losses import OutputLayer, SequenceCrossEntropy, output_layer, output_layer_tensorflow

N, H, V = 23, 5, 17

VARIANTS = {
    "plain": {},
    "no bias": {"bias": None},
    "soft cap": {"soft_cap": 2.0},
    "temperature": {"temperature": 3.0},
    "label smoothing": {"label_smoothing": 0.1},
    "everything": {"soft_cap": 2.0, "temperature": 0.5, "label_smoothing": 0.2},
}


@pytest.fixture(params=VARIANTS, name="arrays")
def make_arrays(request, rng):
    arrays = {
        "hidden": rng.normal(size=(N, H)),
        "embeddings": rng.normal(size=(V, H)),
        "bias": rng.normal(size=V),
        "weights": rng.uniform(size=N) * (rng.uniform(size=N) > 0.3),
    }
    arrays = {name: tf.constant(value, "float32") for name, value in arrays.items()}
    return {**arrays, "targets": tf.constant(rng.integers(0, V, N), "int32"), "options": VARIANTS[request.param]}


def value_and_gradients(function, arrays):
    options = {"bias": arrays["bias"], **arrays["options"]}
    sources = [arrays["hidden"], arrays["embeddings"]] + ([arrays["bias"]] if options["bias"] is not None else [])
    with tf.GradientTape() as tape:
        tape.watch(sources)
        output = OutputLayer(arrays["embeddings"], **options)
        total = 3 * function(arrays["hidden"], arrays["targets"], arrays["weights"], output)
    return total, tape.gradient(total, sources)


@pytest.mark.parametrize("scores_per_chunk", [2**25, 5 * V, 1], ids=["one chunk", "five tokens", "one token"])
def test_fused_loss_and_gradients_equal_the_plain_computation(arrays, scores_per_chunk, monkeypatch):
    monkeypatch.setattr(output_layer_tensorflow, "SCORES_PER_CHUNK", scores_per_chunk)

    def fused(hidden, targets, weights, output):
        return output_layer_tensorflow.fused_cross_entropy(hidden, targets, weights, output)[0]

    def plain(hidden, targets, weights, output):
        return tf.reduce_sum(weights * output_layer.plain_token_losses(hidden, targets, output)[0])

    for mine, theirs in zip(
        tf.nest.flatten(value_and_gradients(fused, arrays)),
        tf.nest.flatten(value_and_gradients(plain, arrays)),
        strict=True,
    ):
        np.testing.assert_allclose(mine, theirs, atol=2e-5, rtol=1e-5)


def test_log_likelihoods_are_free_of_label_smoothing(arrays):
    output = OutputLayer(arrays["embeddings"], **{"bias": arrays["bias"], **arrays["options"]})
    _, nll = output_layer_tensorflow.token_losses(arrays["hidden"], arrays["targets"], output)
    _, expected = output_layer.plain_token_losses(arrays["hidden"], arrays["targets"], output)
    np.testing.assert_allclose(nll, expected, atol=1e-5)


def test_an_impossible_word_costs_its_score_and_not_infinity():
    output = OutputLayer(tf.constant([[0.0], [-1000.0]]))
    _, nll = output_layer_tensorflow.token_losses(tf.ones([1, 1]), tf.constant([1]), output)
    np.testing.assert_allclose(nll, [1000.0])


def test_sum_over_steps_is_the_mean_times_the_window(rng):
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
    from_hidden, _, _ = loss.from_hidden(targets, tf.constant(hidden), OutputLayer(tf.constant(embeddings)))
    np.testing.assert_allclose(from_hidden, loss(targets, hidden @ embeddings.T), rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale": "sum"}, "Received: scale='sum'"),
        ({"label_smoothing": 1.0}, "Received: label_smoothing=1.0"),
        ({"temperature": 0}, "Received: temperature=0"),
    ],
)
def test_arguments_out_of_range_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        SequenceCrossEntropy(**arguments)


def test_config_round_trip():
    loss = SequenceCrossEntropy("mean", label_smoothing=0.1, temperature=2.0, ignore_id=3)
    assert SequenceCrossEntropy.from_config(loss.get_config()).get_config() == loss.get_config()
