import json

import numpy as np
import pytest

import keras_tying as kt
from keras_tying.data import Subwords
from keras_tying.export import export_translator
from keras_tying.inference import TrainedTranslator

SENTENCES = [
    "\ufeffa\u00a0rose\u2028is\x85a\u3000rose\x00",
    "",
    " \u3000\u200b",
    "eine 漢 Rose ☃",
    "two dogs " * 40,
    "a\x0brose\x1cis\x1f\x85a rose",
]
CLIENT = """
import json, sys
import tensorflow as tf, tensorflow_text
served = tf.saved_model.load(sys.argv[1]).signatures["translate"]
found = served(sentences=tf.constant(json.loads(sys.argv[2])))
none = served(sentences=tf.constant([], tf.string))
assert "keras_tying" not in sys.modules
print(json.dumps({"translations": [t.decode() for t in found["translations"].numpy()],
    "n_best": [[t.decode() for t in row] for row in found["n_best"].numpy()],
    "scores": found["scores"].numpy().tolist(),
    "n_best_scores": found["n_best_scores"].numpy().tolist(), "none": none["translations"].shape[0]}))
"""


@pytest.fixture(scope="module")
def subwords():
    return Subwords.learn(["a rose is a rose", "eine Rose ist eine Rose", "two dogs", "zwei Hunde"] * 20, 45)


@pytest.fixture(scope="module")
def model(subwords):
    rng = np.random.default_rng(0)
    model = kt.zoo.dl4mt_small(len(subwords), len(subwords), "three_way", embedding_size=6, units=8)
    model.set_weights([rng.normal(size=w.shape) for w in model.get_weights()])
    return model


@pytest.fixture(scope="module")
def outputs(model, subwords, tmp_path_factory):
    """Outputs in a process with only TensorFlow and tensorflow_text."""
    import subprocess
    import sys

    folder = tmp_path_factory.mktemp("served") / "1"
    export_translator(model, subwords, folder, beam_size=3)
    process = subprocess.run(
        [sys.executable, "-c", CLIENT, str(folder), json.dumps(SENTENCES)], capture_output=True, text=True, cwd=folder
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


def test_translations_equal_those_of_the_model(outputs, model, subwords):
    assert outputs["translations"] == TrainedTranslator(model, subwords).translate(SENTENCES, beam=3)


def test_the_best_of_n_comes_first(outputs):
    assert [row[0] for row in outputs["n_best"]] == outputs["translations"]
    for row, best in zip(outputs["n_best_scores"], outputs["scores"], strict=True):
        assert row == sorted(row, reverse=True)
        assert row[0] == best


def test_sentences_without_words_have_an_empty_translation_and_score_0(outputs):
    assert outputs["translations"][1:3] == ["", ""]
    assert outputs["scores"][1:3] == [0.0, 0.0]


def test_no_sentences_give_no_translations(outputs):
    assert outputs["none"] == 0


def test_long_sentences_are_truncated_as_in_python(model, subwords, tmp_path, monkeypatch):
    import tensorflow as tf

    monkeypatch.setattr("keras_tying.inference.translator.LONGEST_SENTENCE", 8)
    export_translator(model, subwords, tmp_path / "1", beam_size=1, maximum_length=8)
    served = tf.saved_model.load(tmp_path / "1").signatures["translate"]
    sentences = ["two dogs " * 30, "two dogs " * 20, "two dogs", "a"]
    received = [text.decode() for text in served(sentences=tf.constant(sentences))["translations"].numpy()]
    assert received[0] == received[1]
    assert received == TrainedTranslator(model, subwords).translate(sentences, beam=1)


def test_subwords_of_another_model_are_refused(model, subwords, tmp_path):
    with pytest.raises(ValueError, match=f"Received: {len(subwords) - 1} for both"):
        export_translator(model, Subwords.learn(subwords.words * 20, len(subwords) - 1), tmp_path / "1")
