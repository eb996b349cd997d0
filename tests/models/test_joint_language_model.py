import keras
import numpy as np
import pytest

import keras_tying as kt
from keras_tying.models import JointLanguageModel

S, V, D, L = 11, 13, 4, 6

VARIANTS = {
    "NNLM": {},
    "NNJM": {"window": 3},
    "NNJM, tied": {"window": 3, "tied": True},
    "NNJM, two layers, relu": {"window": 3, "hidden_units": (5, 7), "activation": "relu"},
    "NNJM, leaky relu": {"window": 3, "activation": "leaky_relu"},
    "NNLM-Global": {"global_context": True},
    "NNJM-Global": {"window": 3, "global_context": True, "stop_words": 2},
    "NNJM-Global, fixed": {"window": 3, "global_context": True, "sections": 2, "split": "fixed"},
    "NNJM-Global, adaptive, layer": {"window": 3, "global_context": True, "sections": 3, "global_units": 8},
    "NNJM-Global, tied": {"window": 3, "global_context": True, "tied": True},
}


def make(order=3, initializer_range=0.5, **arguments):
    source = S if arguments.get("window") or arguments.get("global_context") else 0
    return JointLanguageModel(
        V,
        source,
        **{
            "order": order,
            "embedding_size": D,
            "hidden_units": (5,),
            "sentence_length": L,
            "initializer_range": initializer_range,
            **arguments,
        },
    )


def sample(model, rng, count=7):
    inputs = {"history": rng.integers(0, V, (count, model.order - 1), np.int32)}
    if model.window:
        inputs["window"] = rng.integers(0, S, (count, model.window), np.int32)
    if model.global_context:
        sentence = rng.integers(0, S, (count, L), np.int32)
        lengths = rng.integers(1, L + 1, count)
        inputs["sentence"] = np.where(np.arange(L) < lengths[:, None], sentence, np.int32(-1))
    return inputs, rng.integers(0, V, count, np.int32)


def numpy_log_probabilities(model, inputs):
    """Log-probabilities of all words, from the equations."""
    array = keras.ops.convert_to_numpy
    functions = {
        "tanh": np.tanh,
        "relu": lambda x: np.maximum(x, 0),
        "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    }
    activate = functions[model.activation]
    target = array(model.embedding.embeddings)
    features = []
    if model.window:
        features += [array(model.source_embedding.embeddings)[word] for word in inputs["window"].T]
    if model.global_context:
        source, rows = array(model.source_embedding.embeddings), []
        for sentence in inputs["sentence"]:
            words = sentence[sentence >= 0].tolist()
            if model.split == "fixed":
                words += [words[-1]] * (L - len(words))
            parts = [[] for _ in range(model.sections)]
            for place, word in enumerate(words):
                if word >= model.stop_words:
                    parts[place * model.sections // len(words)].append(source[word])
            rows.append(np.concatenate([np.mean(part, 0) if part else np.zeros(D) for part in parts]))
        context = np.array(rows)
        if model.global_layer is not None:
            context = activate(context @ array(model.global_layer.kernel) + array(model.global_layer.bias))
        features.append(context)
    hidden = np.concatenate([*features, *(target[word] for word in inputs["history"].T)], -1)
    for layer in model.hidden_layers:
        hidden = activate(hidden @ array(layer.kernel) + array(layer.bias))
    if model.tied:
        hidden = hidden @ array(model.projection.kernel)
    output = target if model.tied else array(model.output_embedding.embeddings)
    logits = hidden @ output.T + array(model.output_embedding.bias)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


@pytest.fixture(params=VARIANTS)
def model(request):
    return make(**VARIANTS[request.param])


def test_model_equals_an_independent_computation(model, rng):
    inputs, targets = sample(model, rng)
    expected = numpy_log_probabilities(model, inputs)
    received = keras.ops.log_softmax(model.predict(inputs, verbose=0))
    np.testing.assert_allclose(keras.ops.convert_to_numpy(received), expected, atol=1e-5)
    nll = -expected[np.arange(len(targets)), targets]
    np.testing.assert_allclose(model.score(inputs, targets), -nll, atol=1e-5)
    model.compile()
    results = model.evaluate(inputs, targets, batch_size=3, verbose=0, return_dict=True)
    np.testing.assert_allclose(results["perplexity"], np.exp(nll.mean()), rtol=1e-5)


def test_training_step_has_the_mean_loss_of_the_samples(model, rng):
    inputs, targets = sample(model, rng)
    expected = -numpy_log_probabilities(model, inputs)[np.arange(len(targets)), targets].mean()
    model.compile(kt.optimizers.ClippedSGD(0.3))
    losses = [model.train_on_batch(inputs, targets, return_dict=True)["loss"] for _ in range(20)]
    np.testing.assert_allclose(losses[0], expected, rtol=1e-5)
    assert losses[-1] < losses[0]


def test_model_survives_its_file_and_its_config(model, rng, tmp_path):
    inputs, _ = sample(model, rng)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(inputs, verbose=0), model.predict(inputs, verbose=0))
    assert again.get_config() == model.get_config()


def test_model_trains_in_mixed_precision(model, rng):
    half = JointLanguageModel.from_config({**model.get_config(), "dtype": "mixed_bfloat16"})
    half.compile(kt.optimizers.ClippedSGD(0.1))
    assert np.isfinite(half.train_on_batch(*sample(model, rng), return_dict=True)["loss"])
    assert all(v.dtype == "float32" for v in half.trainable_variables)


def test_joint_model_without_a_window_is_the_nnlm(rng):
    plain, joint = make(), make(window=3)
    window = 3 * D
    values = {
        layer.path.split("/", 1)[-1]: array for layer, array in zip(plain.weights, plain.get_weights(), strict=True)
    }
    assert len(values) == len(plain.weights)
    for name in ("embedding", "output_embedding"):
        getattr(joint, name).set_weights(getattr(plain, name).get_weights())
    kernel, bias = plain.hidden_layers[0].get_weights()
    joint.hidden_layers[0].set_weights([np.concatenate([np.zeros((window, 5)), kernel]), bias])
    inputs, targets = sample(joint, rng)
    history = {"history": inputs["history"]}
    np.testing.assert_allclose(joint.score(inputs, targets), plain.score(history, targets), atol=1e-6)
    assert kt.zoo.nnjm(V, 0, window=0).count_params() == kt.zoo.nnlm(V).count_params()


def test_tied_model_scores_with_the_target_words_input_vectors():
    tied, untied = make(window=3, tied=True), make(window=3)
    assert tied.output_embedding is tied.embedding
    assert untied.count_params() - tied.count_params() == V * 5 - 5 * D  # an output matrix for a projection


def test_bootstrapped_vectors_stay_when_frozen(rng):
    trained = make(window=3)
    model = make(window=3, global_context=True, trainable_embeddings=False)
    model.bootstrap(**trained.word_vectors)
    model.compile(kt.optimizers.ClippedSGD(0.3))
    model.fit(*sample(model, rng), verbose=0)
    for side, vectors in trained.word_vectors.items():
        np.testing.assert_array_equal(model.word_vectors[side], vectors)


def test_unknown_words_keep_their_vectors_when_bootstrapped():
    model = make()
    before = model.word_vectors["target"]
    vectors = np.full((V, D), np.nan)
    vectors[2] = 7
    model.bootstrap(target=vectors)
    np.testing.assert_array_equal(model.word_vectors["target"][2], [7] * D)
    np.testing.assert_array_equal(model.word_vectors["target"][3:], before[3:])
    with pytest.raises(ValueError, match=r"`target` must have shape \(13, 4\). Received: shape \(13, 5\)"):
        model.bootstrap(target=np.zeros((V, 5)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"window": 4}, r"`window` must be odd.*Received: window=4"),
        ({"order": 1}, r"`order` must be at least 2.*Received: order=1"),
        ({"activation": "gelu"}, r"Received: activation='gelu'"),
        ({"hidden_units": ()}, r"Received: hidden_units=\(\)"),
        ({"sections": 2}, r"need `global_context=True`. Received: sections=2"),
        ({"source_vocabulary_size": 5}, r"Received: source_vocabulary_size=5, window=0"),
    ],
)
def test_arguments_that_contradict_each_other_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        JointLanguageModel(V, **arguments)


def test_ids_outside_their_vocabulary_are_refused(rng):
    model = make(window=3)
    inputs, targets = sample(model, rng)
    inputs["window"][0, 0] = S
    with pytest.raises(ValueError, match=r"in \[0, 11\)\. Received: 11"):
        model.score(inputs, targets)


@pytest.mark.parametrize("name", ["nnlm", "nnjm", "nnjm_global"])
@pytest.mark.parametrize("tied", [True, False])
def test_zoo_builds_the_paper_s_models(name, tied):
    assert kt.zoo.create_model(name, tied=tied).embedding_size == 96
