"""Exports contain a tied matrix once: their bytes show it."""

import importlib.util
import json
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_tying as kt

V, H = 5000, 64
MATRIX = V * H * 4
"""Bytes of a matrix in float32."""


def language_model(tied):
    model = kt.zoo.recurrent_language_model(V, H, num_layers=1, tied=tied)
    model(np.zeros((1, 7), "int32"))
    return model


def matrices(path: Path) -> float:
    """Size of a file or folder, in matrices."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files) / MATRIX


@pytest.mark.parametrize(("tied", "expected"), [(True, 1), (False, 2)])
def test_a_saved_model_that_takes_text(tmp_path, tied, expected):
    words = kt.data.Vocabulary.from_tokens([f"w{i}" for i in range(V)], V)
    model = kt.zoo.recurrent_language_model(len(words), H, num_layers=1, tied=tied)
    kt.export.export_language_model(model, words, tmp_path / "saved_model")
    assert expected < matrices(tmp_path / "saved_model") < expected + 0.8  # with the texts of the words


def test_a_saved_model_with_an_adaptive_embedding(tmp_path):
    words = kt.data.Vocabulary.from_tokens([f"w{i}" for i in range(V)], V)
    embedding = kt.layers.AdaptiveEmbedding(
        V, 4 * H, cutoffs=(1000, 3000), factor=2, embeddings_initializer="random_normal"
    )
    model = kt.models.LanguageModel(embedding, [keras.layers.Dense(4 * H)])
    kt.export.export_language_model(model, words, tmp_path / "saved_model")
    once = 4 * model.count_params() / MATRIX
    assert 2.0 < once < matrices(tmp_path / "saved_model") < once + 0.8  # a second copy of the bands has the size 2.0
    sentences = [" ".join(words.words[i] for i in ids) for ids in ([1, 4000, 2000], [4999, 0])] + ["unheard of"]
    served = tf.saved_model.load(tmp_path / "saved_model").signatures["score"](sentences=tf.constant(sentences))
    expected = kt.inference.TrainedLanguageModel(model, words).score(sentences)
    np.testing.assert_allclose(served["log_probability"], [each.log_probability for each in expected], rtol=1e-5)
    assert served["tokens"].numpy().tolist() == [4, 3, 3]


@pytest.mark.parametrize(("tied", "expected"), [(True, 1), (False, 2)])
def test_litert(tmp_path, tied, expected):
    path = tmp_path / "model.tflite"
    signature = [keras.InputSpec(shape=(1, 7), dtype="int32")]
    language_model(tied).export(path, format="litert", input_signature=signature, verbose=False)
    assert expected < matrices(path) < expected + 0.3


@pytest.mark.parametrize(("tied", "expected"), [(True, 1), (False, 2)])
def test_savings_of_keras_export(tmp_path, tied, expected):
    """Keras writes each variable of any model twice, once in a list of its own."""
    language_model(tied).export(tmp_path / "saved_model", verbose=False)
    assert 2 * expected < matrices(tmp_path / "saved_model") < 2 * expected + 0.6


ONNX = """
import json, sys
import keras, numpy as np
import keras_tying as kt
import onnxruntime
words = np.arange(7, dtype="int32")[None]
signature = [keras.InputSpec(shape=(1, 7), dtype="int32")]
differences = []
for path, tied in zip(sys.argv[1:], (True, False)):
    model = kt.zoo.recurrent_language_model(5000, 64, num_layers=1, tied=tied)
    expected = keras.ops.convert_to_numpy(model(words))
    model.export(path, format="onnx", verbose=False, input_signature=signature)
    session = onnxruntime.InferenceSession(path)
    (received,) = session.run(None, {session.get_inputs()[0].name: words})
    differences.append(float(np.abs(received - expected).max()))
print(json.dumps(differences))
"""


def test_onnx_from_pytorch(run_python, tmp_path):
    for package in ("torch", "onnxscript", "onnxruntime"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    paths = tmp_path / "tied.onnx", tmp_path / "untied.onnx"
    differences = json.loads(run_python("-c", ONNX, *paths, KERAS_BACKEND="torch").stdout.splitlines()[-1])
    assert max(differences) < 1e-5
    for expected, path in enumerate(paths, start=1):
        assert expected < matrices(path) < expected + 0.3
