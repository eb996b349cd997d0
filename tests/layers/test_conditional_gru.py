import keras
import numpy as np
import pytest

from keras_tying.layers import AnnotationAttention, ConditionalGRU
from keras_tying.layers.annotation_attention import masked_softmax
from tests.layers.numpy_gru import gru_step

MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]], bool)


def numpy_attention(query, annotations, query_kernel, key_kernel, bias, score_vector):
    """Attention of one query to the annotations of one sentence, position by position."""
    scores = np.array([np.tanh(query @ query_kernel + h @ key_kernel + bias) @ score_vector[:, 0] for h in annotations])
    weights = np.exp(scores) / np.exp(scores).sum()
    return weights @ annotations, weights


def numpy_step(word, state, annotations, w):
    """One decoder step of one sentence, from the equations of the docstrings."""
    middle = gru_step(word @ w["kernel"] + w["bias"], state @ w["recurrent_kernel"], state)
    context, weights = numpy_attention(
        middle, annotations, w["query_kernel"], w["key_kernel"], w["attention_bias"], w["score_vector"]
    )
    recurrent = middle @ w["second_recurrent_kernel"] + w["second_bias"]
    return gru_step(context @ w["second_kernel"], recurrent, middle), context, weights


def named_weights(layer):
    attention = {v.name: np.array(v) for v in layer.attention.weights}
    names = ("kernel", "recurrent_kernel", "bias", "second_kernel", "second_recurrent_kernel", "second_bias")
    own = {name: np.array(getattr(layer, name)) for name in names}
    return {**attention, "attention_bias": attention["bias"], **own}


@pytest.fixture
def decoder(rng):
    layer = ConditionalGRU(4)
    layer.build((None, None, 3), (None, None, 6))
    layer.set_weights([rng.normal(size=w.shape) for w in layer.get_weights()])
    return layer


@pytest.fixture
def sentences(rng):
    """Words, annotations and first states of three sentences."""
    return [rng.normal(size=shape).astype("float32") for shape in ((3, 7, 3), (3, 5, 6), (3, 4))]


def test_attention_equals_an_independent_computation(rng):
    attention = AnnotationAttention(8)
    query, annotations = (rng.normal(size=shape).astype("float32") for shape in ((3, 4), (3, 5, 6)))
    attention.build(query.shape, annotations.shape)
    attention.set_weights([rng.normal(size=w.shape) for w in attention.get_weights()])
    contexts, weights = attention(query, annotations, mask=MASK)
    for row in range(3):
        length = MASK[row].sum()
        expected = numpy_attention(query[row], annotations[row, :length], *attention.get_weights())
        np.testing.assert_allclose(contexts[row], expected[0], atol=1e-5)
        np.testing.assert_allclose(weights[row, :length], expected[1], atol=1e-5)
        assert not np.any(weights[row, length:])


def test_attention_uses_the_mask_of_its_annotations(rng):
    attention, embedding = AnnotationAttention(8), keras.layers.Embedding(9, 6, mask_zero=True)
    query, words = rng.normal(size=(2, 4)), np.array([[3, 4, 5], [6, 0, 0]])
    _, weights = attention(query, embedding(words))
    assert np.count_nonzero(weights[0]) == 3
    np.testing.assert_array_equal(weights[1], [1, 0, 0])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_masked_annotations_are_below_any_score(dtype):
    scores = keras.ops.convert_to_tensor([[-3e4, -3e4, 5e4], [-3e4, 0, 5e4]], dtype)
    weights = masked_softmax(scores, np.array([[True, True, False], [False, False, False]]))
    np.testing.assert_array_equal(keras.ops.cast(weights, "float32"), [[0.5, 0.5, 0], [0, 0, 0]])


def test_attention_to_several_queries_equals_one_query_at_a_time(rng):
    attention = AnnotationAttention(8)
    queries, annotations = (rng.normal(size=shape).astype("float32") for shape in ((3, 2, 4), (3, 5, 6)))
    attention.build(queries.shape, annotations.shape)
    contexts, weights = attention(queries, annotations, mask=MASK)
    for n in range(2):
        one = attention(queries[:, n], annotations, mask=MASK)
        np.testing.assert_allclose(contexts[:, n], one[0], atol=1e-6)
        np.testing.assert_allclose(weights[:, n], one[1], atol=1e-6)


def test_every_step_equals_an_independent_computation(decoder, sentences):
    words, annotations, first = sentences
    states, contexts, weights = map(np.array, decoder(words, decoder.memory(annotations, MASK), first))
    matrices = named_weights(decoder)
    for row in range(3):
        length, state = MASK[row].sum(), first[row]
        for t in range(7):
            state, context, attended = numpy_step(words[row, t], state, annotations[row, :length], matrices)
            np.testing.assert_allclose(states[row, t], state, atol=1e-5)
            np.testing.assert_allclose(contexts[row, t], context, atol=1e-5)
            np.testing.assert_allclose(weights[row, t, :length], attended, atol=1e-5)


def test_single_steps_equal_the_sequence(decoder, sentences):
    words, annotations, first = sentences
    memory = decoder.memory(annotations, MASK)
    states, contexts, weights = decoder(words, memory, first)
    state = first[:, None]
    for t in range(7):
        state, context, attended = decoder.step(words[:, t : t + 1], memory, state)
        np.testing.assert_allclose(state[:, 0], states[:, t], atol=1e-5)
        np.testing.assert_allclose(context[:, 0], contexts[:, t], atol=1e-5)
        np.testing.assert_allclose(attended[:, 0], weights[:, t], atol=1e-5)


@pytest.mark.parametrize("layer", [AnnotationAttention, ConditionalGRU])
def test_units_must_be_positive(layer):
    with pytest.raises(ValueError, match="Received: units=0"):
        layer(0)
