"""Each kind of trained model is exported by one call, with the signatures and the answers of its own function."""

import numpy as np
import pytest
import tensorflow as tf

import keras_tying as kt
from keras_tying.inference import (
    TrainedJointLanguageModel,
    TrainedLanguageModel,
    TrainedTranslator,
    TrainedWordVectors,
)

SENTENCES = tf.constant(["a rose", "two dogs"])


def exported_in_two_ways(trained, export, path):
    """The signatures of one trained model: as `export_trained` writes it, and as the function for its kind does."""
    kt.export.export_trained(trained, path / "trained" / "1")
    export(path / "own" / "1")
    return [tf.saved_model.load(path / name / "1").signatures for name in ("trained", "own")]


def check_same(exports, signature, **inputs):
    one, other = exports
    assert sorted(one) == sorted(other)
    expected = other[signature](**inputs)
    for name, value in one[signature](**inputs).items():
        np.testing.assert_array_equal(value.numpy(), expected[name].numpy(), err_msg=name)


def test_language_model(tmp_path, vocabulary):
    model = kt.zoo.recurrent_language_model(len(vocabulary), units=16)
    trained = TrainedLanguageModel(model, vocabulary, "plain")
    exports = exported_in_two_ways(
        trained, lambda path: kt.export.export_language_model(model, vocabulary, path, "plain"), tmp_path
    )
    check_same(exports, "score", sentences=tf.constant(["The value IS a name", ""]))


def test_translator(tmp_path):
    subwords = kt.data.Subwords.learn(["a rose is a rose", "eine Rose ist eine Rose", "two dogs"] * 20, 40)
    model = kt.zoo.dl4mt_small(len(subwords), len(subwords), "three_way", embedding_size=6, units=8)
    exports = exported_in_two_ways(
        TrainedTranslator(model, subwords), lambda path: kt.export.export_translator(model, subwords, path), tmp_path
    )
    check_same(exports, "translate", sentences=SENTENCES)


def test_joint_language_model(tmp_path):
    source, target = (kt.data.Vocabulary([*words, "<unk>", "<eos>"]) for words in ("abc", "wxyz"))
    model = kt.zoo.nnjm(len(target), len(source), embedding_size=4)
    exports = exported_in_two_ways(
        TrainedJointLanguageModel(model, source, target, "spaces"),
        lambda path: kt.export.export_joint_language_model(model, source, target, path, "spaces"),
        tmp_path,
    )
    inputs = {"source": "a b c", "alignment": "0-0", "history": "x"}
    check_same(exports, "log_probabilities", **{name: tf.constant([text]) for name, text in inputs.items()})


@pytest.mark.parametrize("tied", [False, True])
def test_word_vectors(tmp_path, tied):
    words = kt.data.Vocabulary(["king", "queen", "tulip", "rose", "<unk>", "<eos>"])
    model = kt.zoo.skip_gram(len(words), units=8, tied=tied)
    exports = exported_in_two_ways(
        TrainedWordVectors(model, words), lambda path: kt.export.export_skip_gram(model, words, path), tmp_path
    )
    check_same(exports, "vector", words=tf.constant(["queen", "nobody"]))


def test_a_model_without_its_text_is_refused(tmp_path):
    with pytest.raises(
        TypeError, match=r"^Expected a trained model with its text, as `kt\.load` returns\. Received: <"
    ):
        kt.export.export_trained(kt.zoo.skip_gram(5, units=4), tmp_path / "1")
    assert not list(tmp_path.iterdir())
