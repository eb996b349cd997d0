"""Exports hold a warm-up request for each signature, which TensorFlow Serving can also run where it joins requests."""

import numpy as np
import pytest
import tensorflow as tf

from keras_tying.export.warm_up import FILE

pytest.importorskip("tensorflow_serving", reason="needs the extra serving: tensorflow-serving-api")
MODELS = ("language_model", "translator", "joint_language_model", "word_vectors")
MOST_RECORDS = 1000
"""Of tensorflow/serving, saved_model_warmup_util.h; a model with more is not loaded."""


def requests(folder):
    """The warm-up requests of an export, as TensorFlow Serving reads them."""
    from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

    logs = [PredictionLog.FromString(each.numpy()) for each in tf.data.TFRecordDataset(str(folder / FILE))]
    assert all(log.WhichOneof("log_type") == "predict_log" for log in logs)
    return [log.predict_log.request for log in logs]


@pytest.mark.parametrize("model", MODELS)
def test_there_is_a_warm_up_request_for_each_signature_and_each_can_be_answered(exports, model):
    signatures = tf.saved_model.load(exports / model).signatures
    found = requests(exports / model)
    assert sorted(each.model_spec.signature_name for each in found) == sorted(signatures)
    assert len(found) <= MOST_RECORDS
    for request in found:
        inputs = {name: tf.constant(tf.make_ndarray(value)) for name, value in request.inputs.items()}
        answers = signatures[request.model_spec.signature_name](**inputs)
        assert all(len(value) == 1 for value in answers.values())


@pytest.mark.parametrize("model", MODELS)
def test_all_inputs_of_a_warm_up_request_have_one_row(exports, model):
    """TensorFlow Serving with --enable_batching refuses other requests, and does not load a model that has them."""
    for request in requests(exports / model):
        assert {tuple(tf.make_ndarray(value).shape) for value in request.inputs.values()} == {(1,)}


def test_an_export_without_tensorflow_serving_api_keeps_the_warm_up_requests_that_are_there(monkeypatch, tmp_path):
    import keras_tying as kt
    from keras_tying import export
    from keras_tying.export import warm_up

    monkeypatch.setattr(warm_up, "find_spec", lambda name: None)
    words = kt.data.Vocabulary(["king", "queen", "tulip", "<unk>", "<eos>"])
    export.export_skip_gram(kt.zoo.skip_gram(len(words), units=4), words, tmp_path / "1")
    assert not (tmp_path / "1" / FILE).exists()
    (tmp_path / "1" / FILE).parent.mkdir(exist_ok=True)
    (tmp_path / "1" / FILE).write_text("mine")
    export.export_skip_gram(kt.zoo.skip_gram(len(words), units=4), words, tmp_path / "1")
    assert (tmp_path / "1" / FILE).read_text() == "mine"
    found = tf.saved_model.load(tmp_path / "1").signatures["vector"](words=tf.constant(["king"]))
    assert np.asarray(found["known"]).tolist() == [True]
