"""Options of a request are numbers for all rows or numbers of each row, as a server that joins requests needs."""

import functools

import numpy as np
import pytest
import tensorflow as tf

PREFIXES = ["The value is a", "", "Ünïcode of the list"]
SOURCES = {"source": ["a b c", "c"], "alignment": ["0-0 2-1", ""], "history": ["x y", ""]}
OPTIONS = {
    "length": [6, 0, 3],
    "temperature": [1.5, 0.0, 0.7],
    "top_k": [0, 3, 7],
    "top_p": [1.0, 0.5, 0.9],
    "seed": [5, 6, 5],
}
CALLS = [
    ("language_model", "next_word", {"prefix": PREFIXES, "k": [2, 1, 4]}),
    ("language_model", "generate", {"prefix": PREFIXES, **OPTIONS}),
    ("joint_language_model", "next_word", {**SOURCES, "k": [1, 3]}),
    ("word_vectors", "similar_words", {"words": ["king", "xyzzy", "rose"], "k": [1, 2, 3]}),
]


@functools.cache
def signatures(folder):
    return tf.saved_model.load(folder).signatures


def call(folder, signature, inputs):
    served = signatures(folder)[signature]
    types = {name: spec.dtype for name, spec in served.structured_input_signature[1].items()}
    return {
        name: value.numpy()
        for name, value in served(**{name: tf.constant(value, types[name]) for name, value in inputs.items()}).items()
    }


@pytest.mark.parametrize(("model", "signature", "inputs"), CALLS)
def test_each_row_gets_with_its_own_numbers_what_it_gets_alone(exports, model, signature, inputs):
    together = call(exports / model, signature, inputs)
    for row in range(len(next(iter(inputs.values())))):
        texts = {name: [values[row]] for name, values in inputs.items() if isinstance(values[row], str)}
        numbers = {name: values[row] for name, values in inputs.items() if name not in texts}
        for name, alone in call(exports / model, signature, {**texts, **numbers}).items():
            values = np.ravel(together[name][row])
            received, padding = values[: alone.size], values[alone.size :]
            if alone.dtype == object:
                assert received.tolist() == alone.ravel().tolist()
                assert padding.tolist() == [b""] * padding.size
            else:
                np.testing.assert_allclose(received, alone.ravel(), rtol=1e-5)
                assert not padding.any()


@pytest.mark.parametrize(("model", "signature", "inputs"), CALLS)
def test_a_batch_of_no_rows_gives_no_rows(exports, model, signature, inputs):
    answers = call(exports / model, signature, {name: values[:0] for name, values in inputs.items()})
    assert all(len(values) == 0 for values in answers.values())


def test_rows_of_one_request_draw_different_texts_from_one_seed(exports):
    options = {"length": 12, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 1}
    text = call(exports / "language_model", "generate", {"prefix": ["the"] * 3, **options})["text"]
    assert len(set(text)) == 3


def test_a_number_out_of_range_in_any_row_is_refused(exports):
    with pytest.raises(tf.errors.InvalidArgumentError, match="k must be at least 1"):
        call(exports / "language_model", "next_word", {"prefix": ["the", "a"], "k": [3, 0]})


@pytest.mark.parametrize(("model", "signature", "inputs"), CALLS)
def test_an_option_of_another_number_of_rows_is_named(exports, model, signature, inputs):
    rows = len(next(iter(inputs.values())))
    for name in (name for name, values in inputs.items() if not isinstance(values[0], str)):
        for numbers in ([1] * (rows + 1), [1], [[1] * rows]):
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"{name} must be a number, or a list with"):
                call(exports / model, signature, {**inputs, name: numbers})
