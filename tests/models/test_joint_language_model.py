import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_tying as kt
from keras_tying.layers import SectionMeans, TiedEmbedding
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
    arguments = {
        "order": order,
        "embedding_size": D,
        "hidden_units": (5,),
        "initializer_range": initializer_range,
        **arguments,
    }
    if arguments.pop("global_context", False):
        return kt.zoo.nnjm_global(V, S, **{"window": 0, "sentence_length": L, **arguments})
    return kt.zoo.nnjm(V, S, **arguments) if "window" in arguments else kt.zoo.nnlm(V, **arguments)


def sample(model, rng, count=7):
    inputs = {"history": rng.integers(0, V, (count, model.order - 1), np.int32)}
    if model.window:
        inputs["window"] = rng.integers(0, S, (count, model.window), np.int32)
    if model.global_context:
        sentence = rng.integers(0, S, (count, L), np.int32)
        lengths = rng.integers(1, L + 1, count)
        inputs["sentence"] = np.where(np.arange(L) < lengths[:, None], sentence, np.int32(-1))
    return inputs, rng.integers(0, V, count, np.int32)


def numpy_log_probabilities(model, inputs, activation="tanh"):
    """Log-probabilities of all words, from the equations."""
    array = keras.ops.convert_to_numpy
    functions = {
        "tanh": np.tanh,
        "relu": lambda x: np.maximum(x, 0),
        "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    }
    activate = functions[activation]
    target = array(model.embedding.embeddings)
    features = []
    if model.window:
        features += [array(model.source_embedding.embeddings)[word] for word in inputs["window"].T]
    if model.global_context:
        source, rows = array(model.source_embedding.embeddings), []
        means, *own_layers = model.global_context
        for sentence in inputs["sentence"]:
            words = sentence[sentence >= 0].tolist()
            if means.split == "fixed":
                words += [words[-1]] * (L - len(words))
            parts = [[] for _ in range(means.sections)]
            for place, word in enumerate(words):
                if word >= means.stop_words:
                    parts[place * means.sections // len(words)].append(source[word])
            rows.append(np.concatenate([np.mean(part, 0) if part else np.zeros(D) for part in parts]))
        context = np.array(rows)
        for layer in own_layers:
            context = activate(context @ array(layer.kernel) + array(layer.bias))
        features.append(context)
    hidden = np.concatenate([*features, *(target[word] for word in inputs["history"].T)], -1)
    *hidden_layers, last = (layer for layer in model.hidden_layers if isinstance(layer, keras.layers.Dense))
    for layer in hidden_layers if model.tied else [*hidden_layers, last]:
        hidden = activate(hidden @ array(layer.kernel) + array(layer.bias))
    if model.tied:
        hidden = hidden @ array(last.kernel)
    output = target if model.tied else array(model.output_embedding.embeddings)
    logits = hidden @ output.T + array(model.output_embedding.bias)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


@pytest.fixture(params=VARIANTS)
def variant(request):
    return VARIANTS[request.param]


@pytest.fixture
def model(variant):
    return make(**variant)


@pytest.fixture
def activation(variant):
    return variant.get("activation", "tanh")


def test_model_equals_an_independent_computation(model, activation, rng):
    inputs, targets = sample(model, rng)
    expected = numpy_log_probabilities(model, inputs, activation)
    received = keras.ops.log_softmax(model.predict(inputs, verbose=0))
    np.testing.assert_allclose(keras.ops.convert_to_numpy(received), expected, atol=1e-5)
    nll = -expected[np.arange(len(targets)), targets]
    np.testing.assert_allclose(model.score(inputs, targets), -nll, atol=1e-5)
    model.compile()
    results = model.evaluate(inputs, targets, batch_size=3, verbose=0, return_dict=True)
    np.testing.assert_allclose(results["perplexity"], np.exp(nll.mean()), rtol=1e-5)


def test_training_step_has_the_mean_loss_of_the_samples(model, activation, rng):
    inputs, targets = sample(model, rng)
    expected = -numpy_log_probabilities(model, inputs, activation)[np.arange(len(targets)), targets].mean()
    model.compile(kt.optimizers.ClippedSGD(0.3))
    losses = [model.train_on_batch(inputs, targets, return_dict=True)["loss"] for _ in range(20)]
    np.testing.assert_allclose(losses[0], expected, rtol=1e-5)
    assert losses[-1] < losses[0]


def test_class_weights_are_sample_weights_of_the_words(rng):
    model = make()
    inputs, targets = sample(model, rng)
    model.compile(keras.optimizers.SGD(0.0))
    word, weights = targets[0], np.where(targets == targets[0], 5.0, 1.0)
    by_class = model.train_on_batch(inputs, targets, class_weight={int(word): 5.0}, return_dict=True)
    by_sample = model.train_on_batch(inputs, targets, sample_weight=weights, return_dict=True)
    np.testing.assert_allclose(by_class["loss"], by_sample["loss"], rtol=1e-6)


def test_model_saves_and_loads(model, rng, tmp_path):
    inputs, _ = sample(model, rng)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(inputs, verbose=0), model.predict(inputs, verbose=0))
    assert again.get_config() == model.get_config()


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
    assert kt.zoo.nnjm(V, S, window=0).count_params() == kt.zoo.nnlm(V).count_params()


def test_tied_model_scores_with_the_target_words_input_vectors():
    tied, untied = make(window=3, tied=True), make(window=3)
    assert tied.output_embedding is tied.embedding
    assert untied.count_params() - tied.count_params() == V * 5 - 5 * D  # an output matrix for a projection


def test_embedding_matrices_are_those_of_the_roles():
    model = make(window=3)
    assert {role: matrix.shape[0] for role, matrix in model.embedding_matrices().items()} == {
        "source": model.source_vocabulary_size,
        "input": V,
        "output": V,
    }
    assert list(make(window=3, tied=True).embedding_matrices()) == ["source", "tied"]
    assert list(make().embedding_matrices()) == ["input", "output"]


def test_frozen_bootstrapped_vectors_do_not_change(rng):
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
    with pytest.raises(ValueError, match=r"needs a model with source words.* Received: source vectors"):
        model.bootstrap(source=np.zeros((S, D)))
    model = make(window=3)
    before = model.word_vectors["source"]
    with pytest.raises(ValueError, match=r"`target` must have shape"):
        model.bootstrap(source=before + 1, target=np.zeros((V, 5)))
    np.testing.assert_array_equal(model.word_vectors["source"], before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"window": 4}, r"`window` must be odd.*Received: window=4"),
        ({"order": 1}, r"`order` must be at least 2.*Received: order=1"),
        ({"activation": "gelu"}, r"Received: activation='gelu'"),
        ({"hidden_units": ()}, r"Received: hidden_units=\(\)"),
    ],
)
def test_arguments_out_of_range_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        kt.zoo.nnjm(V, S, **arguments)


def compose(**changes):
    arguments = {"embedding": TiedEmbedding(V, D), "hidden_layers": [keras.layers.Dense(D)], **changes}
    return JointLanguageModel(**arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window": 3}, r"source_embedding=None, window=3"),
        ({"source_embedding": keras.layers.Embedding(S, D)}, r"window=0, global_context=None"),
        (
            {"source_embedding": keras.layers.Embedding(S, D), "global_context": [keras.layers.Dense(3)]},
            r"begins with a SectionMeans",
        ),
        ({"embedding": keras.layers.Embedding(V, D)}, r"must be a TiedEmbedding.*output_embedding=None"),
        ({"output_embedding": TiedEmbedding(V + 1, D)}, rf"one vocabulary. Received: {V} and {V + 1} words"),
        ({"hidden_layers": [keras.layers.Dense(7)]}, rf"output embedding, {D}.*a last layer of width 7"),
    ],
)
def test_unsuitable_layers_raise(changes, message):
    with pytest.raises(ValueError, match=message):
        compose(**changes)


def test_any_layers_make_the_hidden_states_and_the_context(rng):
    model = compose(
        source_embedding=keras.layers.Embedding(S, D),
        global_context=[SectionMeans(sections=2), keras.layers.Dropout(0.5), keras.layers.Dense(3)],
        sentence_length=L,
        hidden_layers=[keras.layers.Dropout(0.5), keras.layers.LayerNormalization(), keras.layers.Dense(D)],
    )
    inputs, targets = sample(model, rng)
    hidden = [np.array(model.hidden_states(inputs, training=training)) for training in (False, False, True)]
    np.testing.assert_array_equal(hidden[0], hidden[1])
    assert not np.allclose(hidden[0], hidden[2])
    model.compile("sgd")
    assert np.isfinite(model.train_on_batch(inputs, targets, return_dict=True)["loss"])


def test_ids_outside_the_vocabulary_raise(rng):
    model = make(window=3)
    inputs, targets = sample(model, rng)
    inputs["window"][0, 0] = S
    with pytest.raises(ValueError, match=r"in \[0, 11\)\. Received: 11"):
        model.score(inputs, targets)


@pytest.mark.parametrize("name", ["nnlm", "nnjm", "nnjm_global"])
@pytest.mark.parametrize("tied", [True, False])
def test_zoo_models_have_the_published_embedding_size(name, tied):
    assert kt.zoo.create_model(name, tied=tied).embedding_size == 96


def test_a_copy_shares_the_layers_that_the_model_shares():
    embedding, twice = TiedEmbedding(V, D), keras.layers.Dense(D)
    model = JointLanguageModel(embedding, [keras.layers.Dense(D), twice, twice], source_embedding=embedding, window=3)
    again = keras.models.clone_model(model)
    assert again.count_params() == model.count_params()
    assert again.source_embedding is again.embedding
    assert again.hidden_layers[1] is again.hidden_layers[2]
    assert again.get_config() == model.get_config()


def test_scores_need_all_inputs():
    model = kt.zoo.nnjm(30, 30)
    for use in (model, lambda inputs: model.score(inputs, [4])):
        with pytest.raises(ValueError, match=r"dictionary with \['history', 'window'\]. Received: \['history'\]"):
            use({"history": np.array([[1, 2, 3]])})


def test_batches_of_a_size_that_is_known_at_run_time_are_scored(rng):
    model = kt.zoo.nnjm_global(9, 9, window=3, order=3, embedding_size=4, hidden_units=(5,), sentence_length=6)
    sizes = {"history": 2, "window": 3, "sentence": 6}
    inputs = {name: rng.integers(0, 9, (4, sizes[name])).astype("int32") for name in model.input_signature}
    spec = {name: tf.TensorSpec((None, None), tf.int32) for name in inputs}
    scores = tf.function(lambda given: model(given), input_signature=[spec])(inputs)
    np.testing.assert_allclose(scores, model(inputs), rtol=1e-5, atol=1e-6)
