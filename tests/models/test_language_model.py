import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import expit as sigmoid

from keras_tying import losses, metrics, zoo
from keras_tying.layers import LSTM, CarriedState, TiedEmbedding
from keras_tying.models import Example, LanguageModel, Losses
from keras_tying.optimizers import ClippedSGD
from keras_tying.regularizers import ProjectionRegularizer
from keras_tying.zoo import recurrent_language_model

V, H = 13, 4


def small(**arguments):
    return recurrent_language_model(V, H, **{"initializer_range": 0.5, **arguments})


def numpy_language_model(model, tokens, targets):
    """Logits, and the negative log-likelihood summed over steps and averaged over rows, from the equations."""
    embeddings = keras.ops.convert_to_numpy(model.embedding.embeddings)
    output = keras.ops.convert_to_numpy(model.embedding.output_embeddings)
    hidden = embeddings[tokens]
    for layer in model.recurrent_layers:
        kernel, recurrent, bias = (keras.ops.convert_to_numpy(v) for v in layer.trainable_variables)
        h, c, outputs = np.zeros((len(tokens), H)), np.zeros((len(tokens), H)), []
        for t in range(tokens.shape[1]):
            i, f, g, o = np.split(hidden[:, t] @ kernel + h @ recurrent + bias, 4, axis=-1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            outputs.append(h)
        hidden = np.stack(outputs, 1)
    for projection in model.hidden_layers[2:]:
        hidden = hidden @ keras.ops.convert_to_numpy(projection.kernel)
        if projection.bias is not None:
            hidden = hidden + keras.ops.convert_to_numpy(projection.bias)
    logits = hidden @ output.T + keras.ops.convert_to_numpy(model.embedding.bias)
    log_probabilities = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return logits, -np.take_along_axis(log_probabilities, targets[..., None], -1).sum() / len(tokens)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("projection", [{}, {"projection": True}, {"projection": True, "projection_bias": True}])
def test_model_equals_an_independent_computation(rng, tied, projection):
    model = small(tied=tied, **projection)
    tokens, targets = rng.integers(0, V, (2, 3, 6))
    logits, loss = numpy_language_model(model, tokens, targets)
    np.testing.assert_allclose(model.predict(tokens, verbose=0), logits, atol=1e-5)
    model.compile()
    results = model.evaluate(tokens, targets, batch_size=3, verbose=0, return_dict=True)
    np.testing.assert_allclose(results["loss"], loss, rtol=1e-5)
    np.testing.assert_allclose(results["perplexity"], np.exp(loss / 6), rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "parameters"),
    [
        ({"tied": False}, 4_651_600),
        ({"tied": True}, 2_651_600),
        ({"tied": False, "projection": True}, 4_691_600),
        ({"tied": True, "projection": True}, 2_691_600),
    ],
)
def test_small_model_has_the_published_size(arguments, parameters):
    assert zoo.ptb_small(**arguments).count_params() == parameters


@pytest.mark.parametrize(("tied", "parameters"), [(False, 66_022_000), (True, 51_022_000)])
def test_large_model_has_the_published_size(tied, parameters):
    assert zoo.ptb_large(tied=tied).count_params() == parameters


def test_training_loss_includes_the_projection_penalty(rng):
    tokens, targets = rng.integers(0, V, (2, 4, 5))
    model = small(projection=True, projection_regularizer=ProjectionRegularizer(scale=2.0, batch_size=4))
    projection = keras.ops.convert_to_numpy(model.hidden_layers[-1].kernel)
    _, nll = numpy_language_model(model, tokens, targets)
    model.compile()
    loss = model.train_on_batch(tokens, targets, return_dict=True)["loss"]
    np.testing.assert_allclose(loss, nll + 2.0 * np.sum(projection**2) / 2 / 4, rtol=1e-5)


def test_any_keras_loss_and_metric_trains_on_logits(rng):
    tokens, targets = rng.integers(0, V, (2, 4, 5))
    model = small()
    expected = np.mean(
        keras.losses.sparse_categorical_crossentropy(targets, model.predict(tokens, verbose=0), from_logits=True)
    )
    model.compile(
        "sgd",
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["sparse_categorical_accuracy"],
    )
    results = model.evaluate(tokens, targets, verbose=0, return_dict=True)
    np.testing.assert_allclose(results["loss"], expected, rtol=1e-5)
    np.testing.assert_allclose(results["perplexity"], np.exp(expected), rtol=1e-5)
    assert 0 <= results["sparse_categorical_accuracy"] <= 1


def test_perplexity_leaves_out_targets_that_the_loss_ignores(rng):
    tokens, targets = rng.integers(0, V, (2, 4, 5))
    targets[:, 2] = -1
    model, logs = small(), []
    for loss in (
        losses.SequenceCrossEntropy(reduction="mean", ignore_id=-1),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1),
    ):
        model.compile("sgd", loss, metrics=[metrics.Perplexity(ignore_id=-1, name="given")])
        logs.append(model.evaluate(tokens, targets, verbose=0, return_dict=True))
    expected = -model.score(tokens, np.maximum(targets, 0))[targets >= 0].mean()
    for result in logs:
        np.testing.assert_allclose([result["perplexity"], result["given"]], np.exp(expected), rtol=1e-5)
        assert np.isfinite(result["loss"])


def test_metrics_receive_logits_with_the_default_loss(rng):
    tokens, targets = rng.integers(0, V, (2, 4, 5))
    model = small()
    model.compile("sgd", metrics=["sparse_categorical_accuracy"])
    accuracy = model.evaluate(tokens, targets, verbose=0, return_dict=True)["sparse_categorical_accuracy"]
    np.testing.assert_allclose(accuracy, np.mean(np.argmax(model.predict(tokens, verbose=0), -1) == targets))


def test_carried_windows_give_the_loss_of_one_long_window(rng):
    tokens, targets = rng.integers(0, V, (2, 3, 12))
    model = small()
    model.compile()
    one_window = model.evaluate(tokens, targets, batch_size=3, verbose=0, return_dict=True)
    carried = keras.models.clone_model(model)
    carried.set_weights(model.get_weights())
    carried.carry_state(3)
    carried.compile()
    windows = [np.concatenate(np.split(a, 4, axis=1)) for a in (tokens, targets)]
    parts = carried.evaluate(*windows, batch_size=3, verbose=0, return_dict=True)
    np.testing.assert_allclose(parts["perplexity"], one_window["perplexity"], rtol=1e-5)
    np.testing.assert_allclose(4 * parts["loss"], one_window["loss"], rtol=1e-5)
    carried.reset_state()
    again = carried.evaluate(*windows, batch_size=3, verbose=0, return_dict=True)
    assert again == parts


def test_a_state_is_carried_also_if_the_model_was_trained_and_evaluated_without(rng):
    tokens, targets = rng.integers(0, V, (2, 6, 5))
    early, late = small(), small()
    late.set_weights(early.get_weights())
    for model in (early, late):
        model.compile(keras.optimizers.SGD(0.0))
    for work in (late.fit, late.evaluate):
        work(tokens, targets, batch_size=3, verbose=0)
    for model in (early, late):
        model.carry_state(3)
        model.fit(tokens, targets, batch_size=3, verbose=0)
    for ours, theirs in zip(late.carried.values, early.carried.values, strict=True):
        assert np.any(ours)
        np.testing.assert_array_equal(ours, theirs)
    assert late.evaluate(tokens, targets, batch_size=3, verbose=0) == early.evaluate(
        tokens, targets, batch_size=3, verbose=0
    )


def test_a_carried_state_needs_the_order_of_the_text(rng):
    tokens = rng.integers(0, V, (9, 5))
    losses = []
    for arguments in ({}, {"shuffle": False}):
        keras.utils.set_random_seed(3)
        model = small()
        model.carry_state(3)
        model.compile(ClippedSGD(0.1))
        losses.append(model.fit(tokens, tokens, 3, verbose=0, **arguments).history["loss"])
    assert losses[0] == losses[1]
    with pytest.raises(ValueError, match=r"in the order of the text: pass shuffle=False\. Received: shuffle=True"):
        model.fit(tokens, tokens, 3, verbose=0, shuffle=True)


def test_padding_between_words_is_skipped_from_a_given_state_too(rng):
    layers = [LSTM(H, return_sequences=True, return_state=True)]
    model = LanguageModel(TiedEmbedding(V, H, mask_zero=True), layers)
    words, padded = np.array([[3, 4, 5]]), np.array([[0, 0, 3, 0, 4, 5, 0]])
    states = [rng.normal(size=(1, H)).astype("float32") for _ in range(2)]
    (logits, after), (with_padding, after_padding) = (
        model(each, states=states, return_states=True) for each in (words, padded)
    )
    np.testing.assert_allclose(np.array(with_padding)[padded > 0], logits[0], atol=1e-6)
    np.testing.assert_allclose(after_padding, after, atol=1e-6)


def test_models_between_the_roles_of_the_embedding_pass_masks_on(rng):
    functional = keras.Sequential([keras.Input((None, H)), keras.layers.Dense(H, activation="tanh")])
    words = keras.Input((None, H))
    functional = keras.Model(words, functional(words))
    model = LanguageModel(TiedEmbedding(V, H, mask_zero=True), [functional])
    padded = rng.integers(0, 3, (4, 5))
    token_losses = keras.ops.convert_to_numpy(model(padded, targets=padded).token_losses)
    model.compile("sgd")
    assert model.evaluate(padded, padded, verbose=0)[0] == pytest.approx(
        token_losses[padded > 0].sum() / len(padded), rel=1e-5
    )
    unmasked = keras.layers.Flatten(name="flat")
    with pytest.raises(ValueError, match=r"must support masks.*\['flat'\]"):
        LanguageModel(TiedEmbedding(V, H, mask_zero=True), [keras.Sequential([keras.layers.Dense(H), unmasked])])


def test_validation_starts_from_zero_and_training_goes_on_from_its_own_state(rng):
    texts = rng.integers(0, V, (2, 2, 6, 5))
    states = []
    for validation in (None, tuple(texts[1])):
        keras.utils.set_random_seed(3)
        model = small()
        model.carry_state(3)
        model.compile(ClippedSGD(0.1))
        logs = model.fit(
            *texts[0], batch_size=3, epochs=2, shuffle=False, verbose=0, validation_data=validation
        ).history
        states.append([np.array(state) for state in model.carried.values])
    for alone, validated in zip(*states, strict=True):
        np.testing.assert_array_equal(alone, validated)
    model.reset_state()
    perplexities = [model.evaluate(*texts[1], batch_size=3, verbose=0, return_dict=True)["perplexity"] for _ in "ab"]
    assert perplexities[0] == perplexities[1] == pytest.approx(logs["val_perplexity"][-1], rel=1e-6)


def test_the_carried_state_has_the_precision_of_the_variables():
    for dtype, of_state in (("float64", "float64"), ("mixed_bfloat16", "float32")):
        assert small(dtype=dtype).carried.variable_dtype == of_state


def test_carried_state_adds_no_parameters():
    model = small()
    parameters = model.count_params()
    model.carry_state(3)
    assert model.count_params() == parameters
    assert len(model.get_weights()) == len(model.trainable_variables)


def test_carried_state_does_not_change_predictions(rng):
    tokens = rng.integers(0, V, (3, 6))
    model = small()
    before = model.predict(tokens[:2], verbose=0)
    model.carry_state(3)
    model.compile(ClippedSGD(1e-9))
    model.fit(tokens, tokens, verbose=0)
    np.testing.assert_allclose(model.predict(tokens[:2], verbose=0), before, atol=1e-5)


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_rows_of_the_carried_state_are_reset_in_training(rng, rate):
    carried = CarriedState([4, 3], reset_rate=rate, seed=5)
    carried.allocate(1000)
    values = [rng.normal(size=(1000, width)).astype("float32") for width in (4, 3)]
    carried.update(values)
    for received, value in zip(carried.start(), values, strict=True):
        np.testing.assert_array_equal(received, value)
    started = [np.array(state) for state in carried.start(training=True)]
    reset = np.all(started[0] == 0, axis=1)
    assert abs(reset.mean() - rate) < 0.05
    for state, value in zip(started, values, strict=True):
        np.testing.assert_array_equal(state, np.where(reset[:, None], 0, value))


def test_a_model_resets_states_only_in_training(rng):
    tokens = rng.integers(0, V, (3, 6))
    losses = []
    for rate in (0.0, 1 - 1e-7):
        keras.utils.set_random_seed(2)
        layer = LSTM(4, return_sequences=True, return_state=True)
        model = LanguageModel(TiedEmbedding(V, 4, embeddings_initializer="normal"), [layer], state_reset_rate=rate)
        model.carry_state(3)
        model.compile(ClippedSGD(1e-9))
        model.carried.update([np.full((3, 4), 0.9, "float32")] * 2)
        trained = model.fit(tokens, tokens, batch_size=3, verbose=0).history["loss"][0]
        windows = np.concatenate([tokens, tokens])
        losses.append((trained, model.evaluate(windows, windows, batch_size=3, verbose=0, return_dict=True)["loss"]))
    (kept, evaluated), (reset, evaluated_too) = losses
    np.testing.assert_allclose(evaluated_too, evaluated, rtol=1e-5)
    assert abs(reset - kept) > 1e-3


def test_batch_of_another_size_than_the_carried_state_raises(rng):
    model = small()
    model.carry_state(3)
    model.compile()
    with pytest.raises(ValueError, match=r"batches of 3 rows: .* Received: a batch of 2 rows"):
        model.train_on_batch(*rng.integers(0, V, (2, 2, 6)))
    model.compile()
    batches = [np.ones((2, *shape), "int32") for shape in ((3, 3), (3, 6), (2, 6))]  # of unknown shape in the graph
    with pytest.raises(tf.errors.InvalidArgumentError, match="needs batches of 3 rows"):
        model.fit((tuple(batch) for batch in batches), shuffle=False, verbose=0)
    model.compile()
    with pytest.raises(tf.errors.InvalidArgumentError, match="needs batches of 3 rows"):  # the last of 3, 3 and 2
        model.fit(*rng.integers(0, V, (2, 8, 6)), batch_size=3, shuffle=False, verbose=0)


@pytest.mark.parametrize("mode", ["int8", "int4"])
@pytest.mark.parametrize("tied", [True, False])
def test_quantized_model_gives_similar_scores(rng, mode, tied):
    tokens, targets = rng.integers(0, V, (2, 3, 6))
    model = recurrent_language_model(V, 32, tied=tied, initializer_range=1.0)
    before = model.score(tokens, targets)
    model.quantize(mode, filters=["embedding"])
    after = model.score(tokens, targets)
    assert np.std(before) > 0.5
    assert np.corrcoef(before.ravel(), after.ravel())[0, 1] > (0.999 if mode == "int8" else 0.97)
    logits = model.predict(tokens, verbose=0)
    exact = keras.ops.convert_to_numpy(keras.ops.log_softmax(logits))
    chosen = np.take_along_axis(exact, targets[..., None], -1)[..., 0]
    np.testing.assert_allclose(after, chosen, atol=0.05)  # predict quantizes hidden states too
    assert model.generate(tokens, 4, temperature=0).shape == (3, 4)


@pytest.mark.parametrize("mode", [None, "int8"])
def test_lora_of_a_tied_model_is_in_scores_predictions_and_training(rng, mode):
    tokens, targets = rng.integers(0, V, (2, 3, 6))
    model = recurrent_language_model(V, 32, tied=True, initializer_range=0.5)
    if mode:
        model.quantize(mode)
    plain = model.score(tokens, targets)
    model.embedding.enable_lora(2)
    model.embedding.lora_embeddings_b.assign(rng.normal(size=(2, 32)))
    scores = keras.ops.log_softmax(model.predict(tokens, verbose=0))
    chosen = np.take_along_axis(np.asarray(scores), targets[..., None], -1)[..., 0]
    np.testing.assert_allclose(model.score(tokens, targets), chosen, atol=0.1 if mode else 1e-4)
    assert np.abs(chosen - plain).max() > 0.5
    matrix = np.array(model.embedding_matrices()["tied"])
    frozen = [np.array(v) for v in model.embedding.non_trainable_variables]
    model.compile(keras.optimizers.SGD(0.1))
    losses = model.fit(tokens, targets, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert np.abs(np.array(model.embedding_matrices()["tied"]) - matrix).max() > 1e-3
    for before, variable in zip(frozen, model.embedding.non_trainable_variables, strict=True):
        np.testing.assert_array_equal(before, variable)


def test_states_are_arguments_and_results_of_a_call(rng):
    tokens = rng.integers(0, V, (2, 8))
    model = small()
    expected = model(tokens)
    first, states = model(tokens[:, :5], return_states=True)
    second = model(tokens[:, 5:], states=states)
    np.testing.assert_allclose(np.concatenate([first, second], 1), expected, atol=1e-6)


def test_second_batch_size_for_the_carried_state_raises():
    model = small()
    model.carry_state(3)
    with pytest.raises(ValueError, match="allocated for 3 rows"):
        model.carry_state(4)


def test_a_model_that_has_scored_and_generated_is_exported(rng, tmp_path):
    model, words = zoo.recurrent_language_model(20, 4, num_layers=1), rng.integers(0, 20, (1, 3))
    model.score(words, words)
    model.generate(words, length=2)
    model.export(tmp_path / "1", verbose=False)
    exported = tf.saved_model.load(tmp_path / "1")
    np.testing.assert_allclose(exported.serve(tf.constant(words, tf.int32)), model.predict(words, verbose=0), atol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_penalties_and_averages_have_the_type_of_the_weights(dtype):
    regularizer = ProjectionRegularizer()
    model = recurrent_language_model(20, 4, dtype=dtype, projection=True, projection_regularizer=regularizer)
    model.compile(ClippedSGD(0.1, average_momentum=0.9))
    losses = model.fit(np.ones((2, 3), int), np.ones((2, 3), int), epochs=3, verbose=0).history["loss"]
    assert losses[2] < losses[0]


def test_clipped_update_has_the_length_of_the_clip_norm(rng):
    tokens, targets = rng.integers(0, V, (2, 4, 5))
    model = small()
    model.compile(ClippedSGD(learning_rate=0.5, clip_norm=0.01))
    before = model.get_weights()
    model.train_on_batch(tokens, targets)
    moved = np.sqrt(sum(np.sum((a - b) ** 2) for a, b in zip(model.get_weights(), before, strict=True)))
    np.testing.assert_allclose(moved, 0.5 * 0.01, rtol=1e-3)
    assert float(model.optimizer.gradient_norm) > 0.01


def test_unclipped_update_is_the_gradient(rng):
    tokens, targets = rng.integers(0, V, (2, 4, 5))
    model = small()
    twin = keras.models.clone_model(model)
    twin.set_weights(model.get_weights())
    model.compile(ClippedSGD(0.1, clip_norm=1e6))
    twin.compile(keras.optimizers.SGD(0.1))
    for each in (model, twin):
        each.train_on_batch(tokens, targets)
    for received, expected in zip(model.get_weights(), twin.get_weights(), strict=True):
        np.testing.assert_allclose(received, expected, atol=1e-6)


def test_perplexity_is_exact_over_uneven_batches(rng):
    metric = metrics.Perplexity()
    logits, targets = rng.normal(size=(7, V)).astype("float32"), rng.integers(0, V, 7)
    metric.update_state(targets[:5], logits[:5])
    metric.update_state(targets[5:], logits[5:])
    expected = keras.losses.sparse_categorical_crossentropy(targets, logits, from_logits=True)
    np.testing.assert_allclose(float(metric.result()), np.exp(np.mean(expected)), rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dropout": 1.0}, "Received: dropout=1.0"),
        ({"projection_regularizer": "l2"}, "no effect without projection=True"),
    ],
)
def test_invalid_arguments_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        small(**arguments)


def test_scoring_leaves_no_losses_of_its_graph(rng):
    tokens = rng.integers(0, V, (2, 5))
    model = zoo.awd_lstm(vocabulary_size=V, embedding_size=H, units=6)
    model.score(tokens, tokens)
    assert all(np.isfinite(float(loss)) for loss in model.losses)


def test_call_with_targets_returns_losses(rng):
    tokens, targets = rng.integers(0, V, (2, 3, 6))
    model = small()
    _, expected = numpy_language_model(model, tokens, targets)
    for outputs in (model(tokens, targets=targets), model(Example(tokens, targets))):
        assert isinstance(outputs, Losses)
        np.testing.assert_allclose(outputs.loss, expected, rtol=1e-5)
        np.testing.assert_allclose(np.sum(outputs.token_losses), 3 * expected, rtol=1e-5)
        assert outputs.hidden.shape == (3, 6, H)
        assert outputs.logits is None
    assert model(tokens).shape == model(Example(tokens)).shape == (3, 6, V)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    assert model(tokens, targets=targets).logits.shape == (3, 6, V)


def test_only_examples_update_the_carried_state(rng):
    tokens, targets = rng.integers(0, V, (2, 3, 6))
    model = small()
    model.carry_state(3)
    model(tokens, targets=targets)
    assert not any(np.any(value) for value in model.carried.values)
    model(Example(tokens, targets))
    assert all(np.any(value) for value in model.carried.values)


def test_sample_weights_apply_to_loss_and_perplexity(rng):
    tokens, targets = rng.integers(0, V, (2, 3, 6))
    weights = rng.uniform(size=(3, 6)).astype("float32")
    model = small()
    nll = -model.score(tokens, targets)
    model.compile("sgd")
    results = model.evaluate(tokens, targets, sample_weight=weights, verbose=0, return_dict=True)
    np.testing.assert_allclose(results["loss"], np.sum(weights * nll) / 3, rtol=1e-5)
    np.testing.assert_allclose(results["perplexity"], np.exp(np.sum(weights * nll) / weights.sum()), rtol=1e-5)


def test_training_needs_one_loss_and_targets():
    model = small()
    with pytest.raises(ValueError, match=r"must be one loss, .* Received: loss=\[<"):
        model.compile("sgd", [losses.AugmentedLoss()])
    with pytest.raises(ValueError, match=r"use sample weights or another learning rate. Received: loss_weights=2.0\Z"):
        model.compile("sgd", loss_weights=2.0)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), loss_weights=2.0)
    model.compile("sgd")
    for ask in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=r"need `y`, the word ids to predict. Received: y=None\Z"):
            ask(np.ones((2, 3), int), verbose=0)


def test_class_weights_of_sequences_raise(rng):
    model, words = small(), rng.integers(0, V, (2, 3))
    model.compile()
    message = r"`class_weight` needs `y`, an array \[B\] of word ids.*Received: ndarray of shape \(2, 3\)"
    with pytest.raises(ValueError, match=message):
        model.fit(words, words, class_weight={0: 0.5}, verbose=0)
    with pytest.raises(ValueError, match=message):
        model.fit(words, words, 2, 1, 0, None, 0.0, None, False, {0: 0.5})
    with pytest.raises(ValueError, match=message):
        model.train_on_batch(words, words, class_weight={0: 0.5})
    with pytest.raises(ValueError, match=r"an array \[B\] of word ids.*Received: list of shape None"):
        model.train_on_batch(words, words.tolist(), class_weight={0: 0.5})
    model.fit(words, words, 2, 1, 0, None, 0.0, None, False, None)


def test_loss_is_the_one_given_to_compile(rng):
    model = small()
    model.compile("sgd")
    assert type(model.loss) is losses.SequenceCrossEntropy
    model.compile("sgd", losses.SequenceCrossEntropy(reduction="mean_with_sample_weight"))
    assert model.loss.reduction == "mean_with_sample_weight"


def test_initializer_objects_draw_other_numbers_for_each_variable():
    model = small(kernel_initializer=keras.initializers.GlorotUniform(seed=1))
    first, second = (layer.trainable_variables[0] for layer in model.recurrent_layers)
    assert not np.intersect1d(first, second).size
