"""On JAX, models keep their weights when `fit` fails, and stacked cells have states."""

import pytest

PROGRAM = """
import json, sys
sys.modules["tensorflow"] = None  # Keras imports it with a seed, for seconds
import keras
import numpy as np
import keras_tying as kt

words = np.random.default_rng(0).integers(1, 30, (8, 5))

def model_of(layer, **compiled):
    model = kt.models.LanguageModel(kt.layers.TiedEmbedding(30, 8), [layer])
    model.compile(kt.optimizers.ClippedSGD(0.1), **compiled)
    return model

def lstm():
    return kt.layers.LSTM(8, return_sequences=True, return_state=True)

def failure(action):
    try:
        action()
    except (RuntimeError, ValueError) as error:
        return str(error)

def kept(model, action):
    before = model.get_weights()
    error = failure(action)
    same = all(np.array_equal(*pair) for pair in zip(before, model.get_weights(), strict=True))
    return {"error": error, "same": same}

model = model_of(lstm())
found = {
    "fit": kept(model, lambda: model.fit(words, verbose=0)),
    "evaluate": kept(model, lambda: model.evaluate(words, verbose=0)),
    "predict": kept(model, lambda: model.predict(words[..., None, None], verbose=0)),
    "short": kept(model, lambda: model.fit(words, words[:, :3], verbose=0)),
}
model.fit(words, words, verbose=0)
found["again"] = kept(model, lambda: model.fit(words, words[:, :3], verbose=0))

def batches():
    yield words, words
    yield words, words
    yield words, words[:, :3]
    yield words, words

model = model_of(lstm(), steps_per_execution=4)
found["third"] = failure(lambda: model.fit(batches(), steps_per_epoch=4, verbose=0))
found["iterations"] = int(model.optimizer.iterations)
found["score"] = model.score(words, words).tolist()

model = model_of(lstm())
model.carry_state(8)
model.fit(words, words, batch_size=8, verbose=0)
found["rows"] = kept(model, lambda: model.evaluate(words[:3], words[:3], batch_size=3, verbose=0))

cells = [keras.layers.LSTMCell(8), keras.layers.GRUCell(8)]
model = model_of(keras.layers.RNN(cells, return_sequences=True, return_state=True))
logits = keras.ops.log_softmax(model(words), -1)
found["stacked"] = model.score(words, words).tolist()
found["from logits"] = np.take_along_axis(np.asarray(logits), words[..., None], -1)[..., 0].tolist()
found["generated"] = model.generate(words[:1], 2, seed=np.int64(3)).shape
model.carry_state(8)
found["losses"] = model.fit(words, words, batch_size=8, epochs=2, verbose=0).history["loss"]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(printed_on):
    return printed_on("jax", PROGRAM)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("fit", "need `y`"),
        ("evaluate", "need `y`"),
        ("predict", "expected ndim=3"),
        ("short", "Targets must have the shape"),
        ("again", "Targets must have the shape"),
        ("rows", "needs batches of 8 rows"),
    ],
)
def test_a_call_that_fails_leaves_the_weights(found, call, error):
    assert error in found[call]["error"]
    assert found[call]["same"]


def test_a_call_of_several_steps_keeps_those_before_the_one_that_failed(found):
    assert "Targets must have the shape" in found["third"]
    assert found["iterations"] == 2
    assert len(found["score"]) == 8


def test_stacked_cells_score_generate_and_carry_a_state(found):
    for row, expected in zip(found["stacked"], found["from logits"], strict=True):
        assert row == pytest.approx(expected, abs=1e-5)
    assert found["generated"] == [1, 2]
    assert found["losses"][1] < found["losses"][0]
