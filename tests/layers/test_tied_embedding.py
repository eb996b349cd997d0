from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_tying.layers import LSTM, AdaptiveEmbedding, TiedEmbedding
from keras_tying.layers.lookup import embedding_matrix

V, H = 11, 6


def lookup_model(embedding, policy):
    """A model of one lookup, made under a dtype policy."""
    keras.config.set_dtype_policy(policy)
    try:
        words = keras.Input((None,), dtype="int32")
        return keras.Model(words, embedding(words))
    finally:
        keras.config.set_dtype_policy("float32")


def language_model(embedding):
    """The smallest language model: embed, square, score."""
    inputs = keras.Input((None,), dtype="int32")
    return keras.Model(inputs, embedding(embedding(inputs) ** 2, reverse=True))


def test_tied_layer_has_one_matrix_and_a_bias():
    embedding = TiedEmbedding(V, H)
    embedding(embedding(np.array([[1, 2]])), reverse=True)
    assert sorted(tuple(v.shape) for v in embedding.trainable_variables) == [(V,), (V, H)]


@pytest.mark.parametrize("layer", [TiedEmbedding, partial(AdaptiveEmbedding, cutoffs=(4,))])
@pytest.mark.parametrize("hidden", [np.ones((1, H + 1), "float32"), keras.KerasTensor((None, H + 1))])
def test_hidden_states_of_another_width_are_named(layer, hidden):
    with pytest.raises(ValueError, match=rf"the embedding's size {H}. Received: input_shape=\((1|None), {H + 1}\)"):
        layer(V, H)(hidden, reverse=True)


def test_untied_layer_has_a_matrix_for_each_role():
    embedding = TiedEmbedding(V, H, tie_weights=False, use_bias=False)
    embedding.build()
    assert sorted(tuple(v.shape) for v in embedding.trainable_variables) == [(H, V), (V, H)]


def test_the_separate_matrix_has_an_initializer_of_its_own():
    settings = {"tie_weights": False, "reverse_embeddings_initializer": "ones"}
    embedding = TiedEmbedding.from_config(TiedEmbedding(V, H, **settings).get_config())
    embedding.build()
    assert embedding.reverse_embeddings.shape == (H, V)
    assert (keras.ops.convert_to_numpy(embedding.reverse_embeddings) == 1).all()
    assert (np.abs(keras.ops.convert_to_numpy(embedding.embeddings)) <= 0.05).all()
    assert not embedding.tie_weights
    with pytest.raises(ValueError, match="needs `tie_weights=False`"):
        TiedEmbedding(V, H, reverse_embeddings_initializer="ones")


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("use_bias", [True, False])
def test_scores_are_products_with_the_matrix_plus_bias(rng, tied, use_bias):
    embedding = TiedEmbedding(V, H, tie_weights=tied, use_bias=use_bias, bias_initializer="uniform")
    embedding.build()
    hidden = rng.normal(size=(2, 3, H)).astype("float32")
    expected = hidden @ keras.ops.convert_to_numpy(embedding.output_embeddings).T
    if use_bias:
        expected = expected + keras.ops.convert_to_numpy(embedding.bias)
    np.testing.assert_allclose(embedding(hidden, reverse=True), expected, atol=1e-6)


def test_tied_gradient_is_the_sum_of_both_roles(rng):
    """Press and Wolf, section 3: the output role adds (p_k - [k = o]) h to row k, the input role changes row i only."""
    tied = TiedEmbedding(V, H, embeddings_initializer="normal", bias_initializer="normal")
    untied = TiedEmbedding(V, H, tie_weights=False)
    for layer in (tied, untied):
        layer.build()
    matrix = keras.ops.convert_to_numpy(tied.embeddings)
    untied.embeddings.assign(matrix)
    untied.reverse_embeddings.assign(matrix.T)
    untied.bias.assign(tied.bias)
    words, targets = np.array([[1, 4, 4, 9]]), np.array([[4, 2, 9, 1]])

    def gradients(layer, variables):
        with tf.GradientTape() as tape:
            logits = layer(layer(words) ** 2, reverse=True)
            loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits))
        return [tf.convert_to_tensor(g).numpy() for g in tape.gradient(loss, [v.value for v in variables])]

    (total,) = gradients(tied, [tied.embeddings])
    input_role, output_role = gradients(untied, [untied.embeddings, untied.reverse_embeddings])
    np.testing.assert_allclose(total, input_role + output_role.T, atol=1e-5)

    hidden = matrix[words[0]] ** 2
    scores = hidden @ matrix.T + keras.ops.convert_to_numpy(tied.bias)
    error = np.exp(scores) / np.exp(scores).sum(1, keepdims=True) - np.eye(V)[targets[0]]
    np.testing.assert_allclose(output_role.T, error.T @ hidden, atol=1e-5)
    by_formula = np.zeros((V, H))
    np.add.at(by_formula, words[0], (error @ matrix) * 2 * matrix[words[0]])
    np.testing.assert_allclose(input_role, by_formula, atol=1e-5)


def test_three_roles_share_one_variable(rng):
    embedding = TiedEmbedding(V, H)
    source, target = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    summary = keras.layers.GlobalAveragePooling1D()(embedding(source))
    decoded = LSTM(H, return_sequences=True)(embedding(target), initial_state=[summary, summary])
    model = keras.Model([source, target], embedding(decoded, reverse=True))
    assert [tuple(v.shape) for v in model.trainable_variables].count((V, H)) == 1


def test_saved_file_contains_the_matrix_once(tmp_path):
    model = language_model(TiedEmbedding(1000, 64))
    path = tmp_path / "model.keras"
    model.save(path)
    assert path.stat().st_size < 1.2 * 1000 * 64 * 4
    again = keras.saving.load_model(path)
    assert len(again.trainable_variables) == len(model.trainable_variables) == 2
    words = np.array([[1, 2, 3]])
    np.testing.assert_array_equal(again(words), model(words))


def test_config_round_trip():
    embedding = TiedEmbedding(V, H, tie_weights=False, bias_regularizer="l2", logit_soft_cap=30.0, mask_zero=True)
    assert TiedEmbedding.from_config(embedding.get_config()).get_config() == embedding.get_config()


def test_soft_cap_bounds_scores_with_their_bias():
    embedding = TiedEmbedding(V, H, bias_initializer=keras.initializers.Constant(100.0), logit_soft_cap=5.0)
    scores = embedding(np.ones((1, H), "float32"), reverse=True)
    assert 4.9 < float(keras.ops.max(scores)) <= 5.0


def test_mask_zero_marks_padding():
    embedding = TiedEmbedding(V, H, mask_zero=True)
    assert embedding(np.array([[3, 0]]))._keras_mask.numpy().tolist() == [[True, False]]


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_keeps_float32_variables(policy):
    embedding = TiedEmbedding(V, H, dtype=policy)
    hidden = embedding(np.array([[1, 2]]))
    scores = embedding(hidden, reverse=True)
    half = policy.removeprefix("mixed_")
    assert keras.backend.standardize_dtype(hidden.dtype) == half
    assert keras.backend.standardize_dtype(scores.dtype) == half
    assert embedding.embeddings.dtype == "float32"


@pytest.mark.parametrize("mode", ["int8", "int4"])
@pytest.mark.parametrize("tied", [True, False])
def test_quantized_model_gives_similar_scores_and_saves(tmp_path, mode, tied):
    embedding = TiedEmbedding(
        V, 32, tie_weights=tied, embeddings_initializer="normal", bias_initializer="normal", logit_soft_cap=30.0
    )
    model = language_model(embedding)
    words = np.arange(V)[None]
    before = model.predict(words, verbose=0)
    model.quantize(mode)
    after = model.predict(words, verbose=0)
    assert np.corrcoef(before.ravel(), after.ravel())[0, 1] > (0.999 if mode == "int8" else 0.98)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again.predict(words, verbose=0), after, atol=1e-6)


LORA_RANK, LORA_ALPHA = 2, 4


def with_lora(mode, tied, lora_first):
    """A layer with random LoRA variables, and its matrices of lookups and scores by formula, before quantization."""
    layer = TiedEmbedding(V, 8, tie_weights=tied, embeddings_initializer="normal", bias_initializer="normal")
    layer.build()
    matrices = [keras.ops.convert_to_numpy(matrix) for matrix in (layer.embeddings, layer.output_embeddings)]
    if mode and not lora_first:
        layer.quantize(mode)
    layer.enable_lora(LORA_RANK, LORA_ALPHA)
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 0.3, (V, LORA_RANK)), rng.normal(0, 0.3, (LORA_RANK, 8))
    layer.lora_embeddings_a.assign(a)
    layer.lora_embeddings_b.assign(b)
    if mode and lora_first:
        layer.quantize(mode)
    delta = LORA_ALPHA / LORA_RANK * a @ b
    return layer, matrices[0] + delta, matrices[1] + (delta if tied else 0)


@pytest.mark.parametrize("mode", [None, "int8", "int4"])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("lora_first", [True, False])
def test_both_roles_of_a_tied_matrix_have_the_lora_delta(rng, tmp_path, mode, tied, lora_first):
    layer, embeds, scores = with_lora(mode, tied, lora_first)
    atol = {None: 1e-5, "int8": 2e-3, "int4": 0.03}[mode]
    hidden = rng.normal(size=(3, 8)).astype("float32")
    words = np.arange(V)
    np.testing.assert_allclose(layer(words), embeds, atol=atol)
    np.testing.assert_allclose(embedding_matrix(layer), embeds, atol=atol)
    np.testing.assert_allclose(layer.output_embeddings, scores, atol=atol)
    expected = hidden @ np.asarray(layer.output_embeddings).T + np.asarray(layer.bias)
    np.testing.assert_allclose(layer(hidden, reverse=True), expected, atol=0.02)  # hidden states are quantized too
    model = language_model(layer)
    model.save(tmp_path / "model.keras")  # Keras merges the delta, and rounds the merged matrix
    again = keras.saving.load_model(tmp_path / "model.keras").layers[1]
    assert (again.lora_rank, again.lora_alpha) == (LORA_RANK, LORA_ALPHA)
    assert not np.any(again.lora_embeddings_b)
    np.testing.assert_allclose(again(words), embeds, atol=3 * atol)
    np.testing.assert_allclose(again.output_embeddings, scores, atol=3 * atol)


@pytest.mark.parametrize("mode", [None, "int8", "int4"])
def test_gradient_of_lora_is_the_sum_over_both_roles(mode):
    """The layer's gradient is that of its formula with the dequantized matrix, also through quantized scores."""
    layer, *_ = with_lora(mode, tied=True, lora_first=False)
    a, b = layer.lora_embeddings_a.value, layer.lora_embeddings_b.value
    base = layer.output_embeddings - LORA_ALPHA / LORA_RANK * tf.matmul(a, b)
    words, targets = np.array([1, 4, 4, 9]), np.array([4, 2, 9, 1])

    def loss(logits):
        return tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits))

    with tf.GradientTape(persistent=True) as tape:
        by_layer = loss(layer(2 * layer(words), reverse=True))
        matrix = base + LORA_ALPHA / LORA_RANK * tf.matmul(a, b)
        by_formula = loss(tf.matmul(2 * tf.gather(matrix, words), matrix, transpose_b=True) + layer.bias)
    for received, expected in zip(tape.gradient(by_layer, [a, b]), tape.gradient(by_formula, [a, b]), strict=True):
        np.testing.assert_allclose(received, expected, atol=0.02 * np.abs(expected).max())


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("place", ["alone", "float32", "mixed_bfloat16"])
def test_gradients_of_repeated_words_are_summed_in_full_precision(place, lora):
    layer = TiedEmbedding(V, H, dtype="mixed_bfloat16", lora_rank=2 if lora else None)
    layer.build()
    if lora:
        layer.lora_embeddings_a.assign(np.ones(layer.lora_embeddings_a.shape))
    call = layer if place == "alone" else lookup_model(layer, place)
    variable = layer.lora_embeddings_b if lora else layer.embeddings
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(tf.cast(call(np.full((1, 1000), 3)), tf.float32))
    gradient = np.array(tape.gradient(total, variable.value))
    np.testing.assert_allclose(gradient[0] if lora else gradient[3], 1000, rtol=2**-8)


def test_scores_in_float32_are_those_of_the_matrix_in_float32(rng):
    layer = TiedEmbedding(V, H, dtype="mixed_bfloat16", reverse_dtype="float32")
    layer.build()
    hidden = rng.normal(size=(5, H)).astype("float32")
    np.testing.assert_allclose(layer(hidden, reverse=True), hidden @ np.array(layer.embeddings).T, atol=1e-6)


def test_the_matrix_with_lora_has_the_precision_of_the_variables(rng):
    layer = TiedEmbedding(V, H, dtype="mixed_bfloat16", reverse_dtype="float32")
    layer.build()
    hidden = rng.normal(size=(5, H)).astype("float32")
    before = layer(hidden, reverse=True)
    layer.enable_lora(2)
    np.testing.assert_array_equal(layer(hidden, reverse=True), before)


@pytest.mark.parametrize("mode", ["int8", "int4"])
@pytest.mark.parametrize("inputs", [np.array([[1, 2]]), np.ones((1, 2, 8), "float32")], ids=["words", "hidden states"])
def test_a_quantized_layer_stays_as_it_is_while_it_computes(monkeypatch, mode, inputs):
    """Other threads may call it meanwhile."""
    layer, settings = TiedEmbedding(20, 8, logit_soft_cap=2.0), []
    layer.build()
    layer.quantize(mode)
    layer.enable_lora(2)
    parent = keras.layers.ReversibleEmbedding
    call = getattr(parent, f"_{mode}_call")

    def noting(*arguments, **options):
        settings.append((layer.logit_soft_cap, layer.lora_enabled))
        return call(*arguments, **options)

    monkeypatch.setattr(parent, f"_{mode}_call", noting)
    layer(inputs, reverse=inputs.ndim == 3)
    assert settings == [(2.0, True)]


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_quantized_lookup_has_the_type_of_the_specification(mode):
    model = lookup_model(TiedEmbedding(V, H, dtype="mixed_bfloat16"), "mixed_bfloat16")
    model.quantize(mode)
    assert keras.backend.standardize_dtype(model(np.array([[3, 1]])).dtype) == model.output.dtype == "bfloat16"


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_quantized_lookup_marks_padding(mode):
    embedding = TiedEmbedding(V, H, mask_zero=True)
    embedding.build()
    embedding.quantize(mode)
    assert embedding(np.array([[3, 0]]))._keras_mask.numpy().tolist() == [[True, False]]


def test_layer_with_a_lora_rank_has_its_bias():
    layer = TiedEmbedding(V, H, lora_rank=2, lora_alpha=6)
    layer.build()
    assert {v.name for v in layer.trainable_variables} == {"bias", "lora_embeddings_a", "lora_embeddings_b"}
    assert layer.lora_alpha == 6


def test_hidden_states_of_another_width_are_named_by_a_quantized_layer():
    embedding = TiedEmbedding(V, H)
    embedding.build()
    embedding.quantize("int8")
    with pytest.raises(ValueError, match=rf"must have the embedding's size {H}"):
        embedding(np.ones((2, H + 1)), reverse=True)


@pytest.mark.parametrize("rank", [0, -1, 2.5, "4", True])
def test_a_rank_of_lora_that_is_no_positive_integer_is_refused(rank):
    embedding = TiedEmbedding(V, H)
    embedding.build()
    with pytest.raises(ValueError, match=r"`rank` must be .*Received: rank="):
        embedding.enable_lora(rank)
    assert not embedding.lora_enabled
    with pytest.raises(ValueError, match=r"`rank` must be .*Received: rank="):
        TiedEmbedding(V, H, lora_rank=rank).build()


@pytest.mark.parametrize(
    "initializer",
    ["uniform", keras.initializers.RandomUniform(-0.1, 0.1), keras.initializers.RandomUniform(-0.1, 0.1, seed=1)],
)
def test_untied_matrices_start_with_different_numbers(initializer):
    layer = TiedEmbedding(6, 4, tie_weights=False, embeddings_initializer=initializer)
    layer.build()
    assert not np.intersect1d(layer.embeddings, layer.reverse_embeddings).size


class Normal(keras.initializers.Initializer):
    """An initializer without `get_config`, which only saving needs."""

    def __init__(self, scale):
        self.scale = scale

    def __call__(self, shape, dtype=None):
        return self.scale * keras.random.normal(shape, dtype=dtype)


def test_both_untied_matrices_have_the_initializer_that_was_given():
    layer = TiedEmbedding(60, 40, tie_weights=False, embeddings_initializer=Normal(0.01))
    layer.build()
    for matrix in (layer.embeddings, layer.reverse_embeddings):
        assert np.std(matrix) == pytest.approx(0.01, rel=0.1)


@pytest.mark.parametrize("kind", [TiedEmbedding, partial(AdaptiveEmbedding, cutoffs=[5])])
def test_the_mask_of_padding_does_not_depend_on_the_other_layers_of_a_model(kind, rng):
    """The attention layer of Keras removes the mask that is an attribute of its inputs."""
    words = keras.Input((None,), dtype="int32")
    vectors = kind(9, 4, mask_zero=True)(words)
    hidden = keras.layers.Dense(4)(vectors)
    attended = keras.layers.MultiHeadAttention(2, 4)(hidden, hidden)
    pooled = keras.layers.GlobalAveragePooling1D()(hidden)
    padded = rng.integers(0, 3, (6, 5))
    padded[:, 0] = 1  # no row is all padding
    found, _ = keras.Model(words, [pooled, attended])(padded)
    every = keras.ops.convert_to_numpy(keras.Model(words, hidden)(padded))
    expected = [each[row > 0].mean(0) for each, row in zip(every, padded, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_weights_are_no_argument():
    with pytest.raises(
        ValueError, match=r"`weights` is not an argument here: build the layer, then call `set_weights`"
    ):
        TiedEmbedding(6, 4, weights=[np.ones((6, 4))])


def test_lora_trains_on_after_a_file(tmp_path):
    """Keras merges the delta into the file, and would leave both of its factors at zero."""
    words = keras.Input((None,), dtype="int32")
    embedding = TiedEmbedding(6, 4, use_bias=False)
    model = keras.Model(words, embedding(embedding(words), reverse=True))
    embedding.enable_lora(2)
    embedding.lora_embeddings_b.assign(np.ones((2, 4)))
    before = model(np.arange(6)[None])
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(np.arange(6)[None]), before, atol=1e-6)
    loaded.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    losses = loaded.fit(np.arange(6)[None], np.arange(6)[None], epochs=3, verbose=0).history["loss"]
    assert losses[2] < losses[1] < losses[0]
