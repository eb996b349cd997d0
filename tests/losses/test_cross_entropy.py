import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_tying.layers import LSTM, RecurrentHighway, TiedEmbedding, WordDropout
from keras_tying.losses import OutputProjection, SequenceCrossEntropy, linear_cross_entropy
from keras_tying.losses.fused_cross_entropy import losses_from_logits, token_losses
from keras_tying.metrics import Perplexity
from keras_tying.models import LanguageModel

B, T, H, V = 3, 4, 5, 17
KERAS_REDUCTIONS = ["sum", "mean", "sum_over_batch_size", "mean_with_sample_weight", "none", None]
MASK = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 1]], bool)


def batch(rng):
    """Targets and logits; the logits as a tensor, which can have a mask."""
    logits = rng.normal(size=(B, T, V)).astype("float32")
    return rng.integers(0, V, (B, T)), tf.constant(logits)


def masked(tensor, mask=MASK):
    keras.src.backend.set_keras_mask(tensor, tf.constant(mask))
    return tensor


def test_very_unlikely_words_have_a_finite_loss():
    output = OutputProjection(tf.constant([[0.0], [-1000.0]]))
    _, nll = token_losses(tf.ones([1, 1]), tf.constant([1]), output)
    np.testing.assert_allclose(nll, [1000.0])


def test_log_likelihoods_exclude_label_smoothing(rng):
    hidden, embeddings = (tf.constant(rng.normal(size=shape), "float32") for shape in ((4, H), (V, H)))
    targets = tf.constant(rng.integers(0, V, 4), "int32")
    _, nll = token_losses(hidden, targets, OutputProjection(embeddings, label_smoothing=0.2))
    np.testing.assert_array_equal(nll, token_losses(hidden, targets, OutputProjection(embeddings))[1])


@pytest.mark.parametrize("reduction", KERAS_REDUCTIONS)
@pytest.mark.parametrize("mask", [False, True], ids=["", "masked"])
@pytest.mark.parametrize("ignore_id", [None, 2])
def test_equals_the_loss_of_keras(rng, reduction, mask, ignore_id):
    targets, logits = batch(rng)
    targets[0, 0] = targets[2, 1] = 2
    logits = masked(logits) if mask else logits
    ours = SequenceCrossEntropy(reduction=reduction, ignore_id=ignore_id)
    keras_loss = keras.losses.SparseCategoricalCrossentropy(True, ignore_class=ignore_id, reduction=reduction)
    # Keras divides by the sum of the weights as given, which is that of all tokens for weights of tokens only.
    shapes = [(B, T), (B, T, 1), *([] if reduction == "mean_with_sample_weight" else [(), (B, 1)])]
    for weights in (None, *(rng.uniform(0.5, 2.0, shape).astype("float32") for shape in shapes)):
        received, expected = (loss(targets, logits, sample_weight=weights) for loss in (ours, keras_loss))
        assert received.shape == expected.shape
        np.testing.assert_allclose(received, expected, rtol=1e-5)


@pytest.mark.parametrize("reduction", ["sum_over_steps", "mean", "mean_with_sample_weight"])
def test_weights_of_rows_weigh_all_their_tokens(rng, reduction):
    targets, logits = batch(rng)
    loss, rows = SequenceCrossEntropy(reduction=reduction), np.array([0.5, 2.0, 0.1], "float32")
    expected = loss(targets, logits, sample_weight=np.repeat(rows[:, None], T, axis=1))
    for weights in (rows, rows[:, None]):
        np.testing.assert_allclose(loss(targets, logits, sample_weight=weights), expected, rtol=1e-6)


def test_sum_over_steps_sums_over_the_steps_and_averages_over_the_rows(rng):
    targets, logits = batch(rng)
    tokens = np.asarray(keras.losses.sparse_categorical_crossentropy(targets, logits, from_logits=True))
    np.testing.assert_allclose(SequenceCrossEntropy()(targets, logits), tokens.sum() / B, rtol=1e-5)
    np.testing.assert_allclose(SequenceCrossEntropy()(targets, masked(logits)), tokens[MASK].sum() / B, rtol=1e-5)


def test_call_gives_the_loss_of_each_token(rng):
    targets, logits = batch(rng)
    expected = keras.losses.sparse_categorical_crossentropy(targets, logits, from_logits=True)
    np.testing.assert_allclose(SequenceCrossEntropy().call(targets, logits), expected, rtol=1e-5)
    np.testing.assert_allclose(SequenceCrossEntropy().call(targets[..., None], logits), expected, rtol=1e-5)


@pytest.mark.parametrize("outside", [-1, V])
def test_a_target_outside_the_vocabulary_is_no_word(rng, outside):
    targets, logits = batch(rng)
    targets[1, 2] = outside
    with pytest.raises(ValueError, match=rf"\[0, {V}\)\. Received: {outside}"):
        SequenceCrossEntropy()(targets, logits)
    tokens = SequenceCrossEntropy(reduction="none")(tf.constant(targets), logits)
    np.testing.assert_array_equal(np.isnan(tokens), targets == outside)
    assert np.all(np.isfinite(SequenceCrossEntropy(ignore_id=outside)(targets, logits)))
    targets, logits = np.where(MASK, 1, outside), tf.Variable(logits)
    with tf.GradientTape() as tape:
        total = SequenceCrossEntropy()(targets, masked(logits * 1))
    assert np.all(np.isfinite([total, *np.ravel(tape.gradient(total, logits))]))


def test_a_target_outside_the_vocabulary_spoils_the_gradients_too(rng):
    hidden, embeddings = (tf.constant(rng.normal(size=shape), "float32") for shape in ((2, H), (V, H)))

    @tf.function(jit_compile=True)  # where no operation checks ids, as on a GPU
    def gradients(targets):
        with tf.GradientTape() as tape:
            tape.watch([hidden, embeddings])
            total = tf.reduce_sum(linear_cross_entropy(hidden, targets, embeddings))
        return tape.gradient(total, [hidden, embeddings])

    of_hidden, of_embeddings = gradients(tf.constant([1, V]))
    np.testing.assert_array_equal(np.isnan(of_hidden).all(1), [False, True])
    assert np.isnan(of_embeddings).all()
    assert all(np.isfinite(each).all() for each in gradients(tf.constant([1, 2])))


@pytest.mark.parametrize("ignore_id", [-1, 2])
def test_ignored_targets_do_not_count_in_either_computation(rng, ignore_id):
    hidden, embeddings = (tf.constant(rng.normal(size=shape), "float32") for shape in ((B, T, H), (V, H)))
    targets = np.where(MASK, rng.integers(3, V, (B, T)), ignore_id)
    loss = SequenceCrossEntropy(reduction="mean", ignore_id=ignore_id)
    total, _, counted = loss.from_hidden(targets, hidden, OutputProjection(embeddings))
    np.testing.assert_array_equal(counted, MASK)
    np.testing.assert_allclose(total, loss(targets, hidden @ tf.transpose(embeddings)), rtol=1e-5)


def test_masks_count_in_training_from_hidden_states(rng):
    inputs, targets = rng.integers(1, V, (B, T)), rng.integers(0, V, (B, T))
    inputs[~MASK] = 0
    layers = [LSTM(H, return_sequences=True, return_state=True), WordDropout(V, 1e-9)]
    model = LanguageModel(TiedEmbedding(V, H, mask_zero=True), layers)
    assert not np.any(model.score(inputs, targets)[~MASK])
    tokens = -model.score(inputs, targets)[MASK]
    model.compile("sgd")
    logs = model.evaluate(inputs, targets, verbose=0, return_dict=True)
    assert logs["loss"] == pytest.approx(tokens.sum() / B, rel=1e-5)
    assert logs["perplexity"] == pytest.approx(np.exp(tokens.mean()), rel=1e-5)
    assert model.train_on_batch(inputs, targets, return_dict=True)["loss"] == pytest.approx(logs["loss"], rel=1e-5)
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    tokens = -model.score(inputs, targets)[MASK]
    logs = model.evaluate(inputs, targets, verbose=0, return_dict=True)
    assert logs["loss"] == pytest.approx(tokens.mean(), rel=1e-5)
    assert logs["perplexity"] == pytest.approx(np.exp(tokens.mean()), rel=1e-5)


def test_perplexity_leaves_out_masked_tokens_and_takes_small_weights(rng):
    targets, logits = batch(rng)
    _, tokens = losses_from_logits(logits, tf.constant(targets))
    metric = Perplexity()
    metric.update_state(targets, masked(logits), sample_weight=np.full((B, T), 0.01))
    np.testing.assert_allclose(metric.result(), np.exp(np.mean(np.array(tokens)[MASK])), rtol=1e-5)


def test_perplexity_of_a_long_text_loses_no_token(rng):
    metric, add = Perplexity(), tf.function(Perplexity.update_losses)
    losses = rng.uniform(0, 8, 2000).astype("float32")
    for loss in losses:
        add(metric, tf.constant([loss]), tf.constant([300_001.0]))
    assert float(metric.count) + float(metric.count_rest) == 2000 * 300_001
    np.testing.assert_allclose(metric.result(), np.exp(np.mean(losses, dtype="float64")), rtol=3e-7)


@pytest.mark.parametrize(
    ("targets", "weights", "message"),
    [
        ((B, T + 1), None, rf"y_true of shape \({B}, {T + 1}\), outputs of shape \({B}, {T}, {V}\)"),
        ((B,), None, rf"y_true of shape \({B},\)"),
        ((B, T), (T,), rf"sample_weight of shape \({T},\) for targets of shape \({B}, {T}\)"),
    ],
)
def test_shapes_that_do_not_fit_raise(rng, targets, weights, message):
    weights = None if weights is None else np.ones(weights)
    with pytest.raises(ValueError, match=message):
        SequenceCrossEntropy()(np.zeros(targets, int), batch(rng)[1], sample_weight=weights)


def test_a_model_needs_a_reduction():
    with pytest.raises(ValueError, match="Received: reduction=None"):
        SequenceCrossEntropy(reduction=None).from_hidden(tf.zeros((B, T)), tf.zeros((B, T, H)), None)


def test_targets_have_the_shape_of_the_hidden_states():
    with pytest.raises(ValueError, match="y_true of shape"):
        SequenceCrossEntropy().from_hidden(tf.zeros((T, B)), tf.zeros((B, T, H)), None)


def test_a_model_with_padding_needs_layers_that_keep_masks():
    layers = [RecurrentHighway(H, depth=1, return_sequences=True, return_state=True, name="highway")]
    with pytest.raises(ValueError, match="Received: \\['highway'\\]"):
        LanguageModel(TiedEmbedding(V, H, mask_zero=True), layers)


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
        ({"reduction": "steps"}, "Received: reduction='steps'"),
        ({"label_smoothing": 1.0}, "Received: label_smoothing=1.0"),
        ({"temperature": 0}, "Received: temperature=0"),
    ],
)
def test_arguments_out_of_range_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        SequenceCrossEntropy(**arguments)


def test_config_round_trip():
    loss = SequenceCrossEntropy(reduction="mean", label_smoothing=0.1, temperature=2.0, ignore_id=3)
    assert SequenceCrossEntropy.from_config(loss.get_config()).get_config() == loss.get_config()


def test_a_given_dtype_is_in_the_configuration():
    loss = SequenceCrossEntropy(dtype="float64")
    assert SequenceCrossEntropy.from_config(loss.get_config()).dtype == "float64"
    assert "dtype" not in SequenceCrossEntropy().get_config()


def test_perplexity_in_float64(rng):
    targets, logits = batch(rng)
    keras.config.set_floatx("float64")
    try:
        metric = Perplexity()
        metric.update_state(targets, np.asarray(logits, "float64"))
        result = metric.result()
    finally:
        keras.config.set_floatx("float32")
    _, tokens = losses_from_logits(logits, tf.constant(targets))
    np.testing.assert_allclose(result, np.exp(np.mean(tokens)), rtol=1e-5)
