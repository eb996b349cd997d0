import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import log_softmax

from keras_tying.layers import AdaptiveEmbedding
from keras_tying.layers.lookup import embedding_matrix
from keras_tying.models import LanguageModel, without_logits

V, H, CUTOFFS, FACTOR = 23, 12, (7, 15), 2
EDGES = [(0, 7), (7, 15), (15, 23)]


def adaptive(**arguments):
    """A built layer with random weights, also of its biases."""
    given = {"cutoffs": CUTOFFS, "factor": FACTOR, "bias_initializer": "normal", "embeddings_initializer": "normal"}
    embedding = AdaptiveEmbedding(V, H, **{**given, **arguments})
    embedding.build()
    return embedding


def arrays_of(embedding):
    return {each.name: keras.ops.convert_to_numpy(each) for each in embedding.variables}


def by_definition(hidden, arrays, vectors="band", projections="band"):
    """Log-probabilities of all words, from the formulas of the paper."""
    bias, cluster_bias = arrays.get("bias", np.zeros(V)), arrays.get("cluster_bias", np.zeros(2))
    first = np.concatenate([arrays[f"{vectors}_0_embeddings"], arrays["clusters"]])
    head = log_softmax(hidden @ first.T + np.concatenate([bias[:7], cluster_bias]), axis=-1)
    parts = [head[..., :7]]
    for k, (start, stop) in enumerate(EDGES[1:], start=1):
        narrow = hidden @ arrays[f"{projections}_{k}_projection"].T
        scores = narrow @ arrays[f"{vectors}_{k}_embeddings"].T + bias[start:stop]
        parts.append(head[..., 6 + k, None] + log_softmax(scores, axis=-1))
    return np.concatenate(parts, axis=-1)


def test_tied_layer_has_one_matrix_and_one_projection_for_each_band():
    sizes = {name: array.shape for name, array in arrays_of(adaptive()).items()}
    assert sizes == {
        **{"band_0_embeddings": (7, 12), "band_1_embeddings": (8, 6), "band_2_embeddings": (8, 3)},
        **{"band_1_projection": (6, 12), "band_2_projection": (3, 12), "clusters": (2, 12)},
        **{"bias": (V,), "cluster_bias": (2,)},
    }
    embedding = adaptive()
    embedding(embedding(np.array([[1, 9]])), reverse=True)
    assert len(embedding.variables) == len(embedding.trainable_variables) == 8


@pytest.mark.parametrize(
    ("arguments", "number"),
    [({"tie_weights": False}, 13), ({"tie_projections": False}, 10), ({"use_bias": False}, 6)],
    ids=str,
)
def test_roles_that_are_not_tied_have_variables_of_their_own(rng, arguments, number):
    embedding = adaptive(**arguments)
    arrays, hidden = arrays_of(embedding), rng.normal(size=(4, H)).astype("float32")
    assert len(arrays) == number
    vectors = "band" if embedding.tie_weights else "output_band"
    projections = "band" if embedding.tie_weights and embedding.tie_projections else "output_band"
    expected = by_definition(hidden, arrays, vectors, projections)
    np.testing.assert_allclose(embedding(hidden, reverse=True), expected, atol=1e-5)


def test_no_two_variables_start_with_the_same_numbers():
    arrays = arrays_of(adaptive(tie_weights=False))
    for k in range(3):
        assert not np.allclose(arrays[f"band_{k}_embeddings"], arrays[f"output_band_{k}_embeddings"])


def test_words_have_the_projected_vectors_of_their_bands():
    embedding = adaptive()
    arrays = arrays_of(embedding)
    rows = [arrays["band_0_embeddings"]]
    rows += [arrays[f"band_{k}_embeddings"] @ arrays[f"band_{k}_projection"] for k in (1, 2)]
    ids = np.arange(V).reshape(1, V)
    np.testing.assert_allclose(embedding(ids)[0], np.concatenate(rows), atol=1e-6)
    np.testing.assert_allclose(embedding_matrix(embedding), np.concatenate(rows), atol=1e-6)
    np.testing.assert_allclose(embedding.output_embeddings, np.concatenate(rows), atol=1e-6)


def test_scores_are_the_log_probabilities_of_the_definition(rng):
    embedding, hidden = adaptive(), 3 * rng.normal(size=(2, 5, H)).astype("float32")
    scores = embedding(hidden, reverse=True)
    np.testing.assert_allclose(scores, by_definition(hidden, arrays_of(embedding)), atol=2e-5)
    np.testing.assert_allclose(np.exp(scores).sum(axis=-1), np.ones((2, 5)), atol=1e-5)


def test_scores_are_those_of_pytorch_with_the_same_weights(rng):
    torch = pytest.importorskip("torch")
    embedding, hidden = adaptive(), rng.normal(size=(9, H)).astype("float32")
    embedding.bias.assign(np.where(np.arange(V) < 7, embedding.bias, 0))  # tails of PyTorch have no bias
    arrays = arrays_of(embedding)
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(H, V, [*CUTOFFS], div_value=FACTOR, head_bias=True)
    weights = {
        "head.weight": np.concatenate([arrays["band_0_embeddings"], arrays["clusters"]]),
        "head.bias": np.concatenate([arrays["bias"][:7], arrays["cluster_bias"]]),
        **{f"tail.{k}.0.weight": arrays[f"band_{k + 1}_projection"] for k in range(2)},
        **{f"tail.{k}.1.weight": arrays[f"band_{k + 1}_embeddings"] for k in range(2)},
    }
    theirs.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    expected = theirs.log_prob(torch.from_numpy(hidden)).detach().numpy()
    np.testing.assert_allclose(embedding(hidden, reverse=True), expected, atol=1e-5)


def test_log_probabilities_are_float32_in_mixed_precision(rng):
    embedding = adaptive(dtype="mixed_bfloat16")
    scores = embedding(rng.normal(size=(4, H)), reverse=True)
    specification = embedding.compute_output_spec(keras.KerasTensor((4, H)), reverse=True)
    assert (specification.shape, specification.dtype) == (tuple(scores.shape), "float32")
    assert scores.dtype == tf.float32
    np.testing.assert_allclose(np.exp(scores).sum(axis=-1), np.ones(4), atol=1e-5)
    assert embedding(np.array([[1, 20]])).dtype == tf.bfloat16


def test_padding_has_a_mask():
    embedding, words = adaptive(mask_zero=True), np.array([[3, 20, 0]])
    for mask in (keras.src.backend.get_keras_mask(embedding(words)), embedding.compute_mask(words)):
        assert mask.numpy().tolist() == [[True, True, False]]


@pytest.mark.parametrize("word", [-1, V])
def test_a_word_outside_the_vocabulary_is_an_error(word):
    with pytest.raises(tf.errors.InvalidArgumentError, match="not in"):
        adaptive()(np.array([[word]]))


@pytest.mark.parametrize(
    ("arguments", "received"),
    [
        ({"cutoffs": (7, V)}, rf"cutoffs=\(7, {V}\)"),
        ({"cutoffs": (15, 7)}, r"cutoffs=\(15, 7\)"),
        ({"cutoffs": (7, 7)}, r"cutoffs=\(7, 7\)"),
        ({"cutoffs": ()}, r"cutoffs=\(\)"),
        ({"cutoffs": 7}, "cutoffs=7"),
        ({"cutoffs": (0, 7)}, "cutoffs=0"),
        ({"cutoffs": (2.5,)}, "cutoffs=2.5"),
        ({"factor": 0}, "factor=0"),
        ({"factor": 4}, "output_dim=12, factor=4"),
        ({"input_dim": 0}, "input_dim=0"),
        ({"output_dim": "a"}, "output_dim='a'"),
    ],
)
def test_bad_arguments_are_named_in_one_line(arguments, received):
    with pytest.raises(ValueError, match=rf"\A[^\n]*Received: [^\n]*{received}[^\n]*\Z"):
        AdaptiveEmbedding(**{"input_dim": V, "output_dim": H, "cutoffs": CUTOFFS, "factor": FACTOR, **arguments})


def test_quantization_is_refused_in_one_line_before_another_layer_is_quantized():
    words, head, embedding = keras.Input((None,), dtype="int32"), adaptive(), keras.layers.Embedding(V, H)
    model = without_logits(keras.Model(words, head(embedding(words), reverse=True)))
    for each, kind in ((head, NotImplementedError), (model, ValueError)):
        with pytest.raises(
            kind, match=r"\AAn AdaptiveEmbedding cannot be quantized[^\n]*Received: mode='int8'[^\n]*\Z"
        ):
            each.quantize("int8")
    assert embedding.quantization_mode is None
    model.quantize("int8", filters=lambda layer: layer is embedding)
    assert embedding.quantization_mode == "int8"


def test_lora_and_changed_copies_are_refused_in_one_line():
    layer = AdaptiveEmbedding(20, 8, cutoffs=(5, 10), factor=2)
    with pytest.raises(NotImplementedError, match="cannot have LoRA: use a TiedEmbedding"):
        layer.enable_lora(2)
    model = LanguageModel(layer, [keras.layers.Dense(8)])
    for change in (lambda: model.resized(25), model.untied_copy, model.without_lora):
        with pytest.raises(ValueError, match=r"Copies with other words, .*layer 'adapt.*', of class AdaptiveEmbedding"):
            change()


def test_other_layers_of_a_plain_model_are_quantized():
    words, embedding = keras.Input((None,), dtype="int32"), keras.layers.Embedding(V, H)
    model = keras.Model(words, adaptive()(embedding(words), reverse=True))
    with pytest.warns(UserWarning, match="An AdaptiveEmbedding cannot be quantized"):
        model.quantize("int8")
    assert embedding.quantization_mode == "int8"


def test_ids_and_gradients_are_not_rounded_in_mixed_precision():
    class Words(keras.Model):
        def __init__(self):
            super().__init__(dtype="mixed_float16", autocast=False)
            self.embedding = AdaptiveEmbedding(5_000, 4, cutoffs=(2_000, 4_000), factor=2, dtype="mixed_float16")

        def call(self, ids):
            return self.embedding(ids)

    model, ids = Words(), np.array([[257.0, 2049.0, 4999.0]])
    np.testing.assert_array_equal(model(ids), model(ids.astype("int32")))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(model(np.full((1, 4_000), 3)))
    gradient = tape.gradient(total, model.embedding.band_embeddings[0].value)
    np.testing.assert_array_equal(tf.convert_to_tensor(gradient)[3], 4_000.0)
