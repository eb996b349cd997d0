import keras
import numpy as np
import pytest
from keras import ops

from keras_tying.layers import SectionMeans


def looped(vectors, ids, lengths, sections, split, stop_words):
    """The section means, word by word."""
    rows = []
    for row, length in zip(range(len(ids)), lengths, strict=True):
        if split == "fixed":
            length = ids.shape[1]
        found = [[] for _ in range(sections)]
        for place in range(length):
            if ids[row, place] >= stop_words:
                found[place * sections // length].append(vectors[row, place])
        means = [np.mean(each, axis=0) if each else np.zeros(vectors.shape[-1]) for each in found]
        rows.append(np.concatenate(means))
    return np.array(rows)


@pytest.mark.parametrize("split", ["adaptive", "fixed"])
@pytest.mark.parametrize("sections", [1, 2, 3, 4])
@pytest.mark.parametrize("stop_words", [0, 3])
def test_sections_equal_a_loop_over_words(rng, sections, split, stop_words):
    lengths = np.array([0, 2, 3, 5, 8])
    vectors, ids = rng.normal(size=(5, 8, 3)).astype("float32"), rng.integers(0, 6, (5, 8))
    received = SectionMeans(sections=sections, split=split, stop_words=stop_words)(vectors, ids, lengths)
    expected = looped(vectors, ids, lengths, sections, split, stop_words)
    np.testing.assert_allclose(ops.convert_to_numpy(received), expected, atol=1e-6)


@pytest.mark.parametrize("split", ["adaptive", "fixed"])
def test_sentences_of_any_length_in_a_model(rng, split):
    inputs = keras.Input((None, 3)), keras.Input((None,), dtype="int32"), keras.Input((), dtype="int32")
    model = keras.Model(inputs, SectionMeans(sections=2, split=split)(*inputs))
    for length in (4, 6):
        vectors, ids = rng.normal(size=(2, length, 3)).astype("float32"), rng.integers(0, 6, (2, length))
        lengths = np.array([length, 2])
        received = model.predict((vectors, ids, lengths), verbose=0)
        np.testing.assert_allclose(received, looped(vectors, ids, lengths, 2, split, 0), atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sections": 0}, r"`sections` must be at least 1. Received: sections=0"),
        ({"split": "half"}, r"Received: split='half'"),
        ({"stop_words": -1}, r"Received: stop_words=-1"),
    ],
)
def test_arguments_out_of_range_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        SectionMeans(**arguments)
