"""A served model answers as the trained model does; requests that are computed together do not change each other."""

import json
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from keras_tying.inference import translator as inference_translator
from keras_tying.serving import model as serving_model
from keras_tying.serving import signatures
from keras_tying.serving.model import ServedModel
from keras_tying.serving.replies import status_reply

SENTENCES = ["The value is a name", "", "Ünïcode of the list"]
DRAWN = {"length": 6, "temperature": 0.8, "top_k": 0, "top_p": 1.0, "seed": 5}


def close(value):
    """Numbers at any depth, to be compared up to rounding; other values as they are."""
    if isinstance(value, dict):
        return {key: close(each) for key, each in value.items()}
    if isinstance(value, list):
        return [close(each) for each in value]
    return pytest.approx(value, rel=1e-4) if isinstance(value, float) else value


def test_scores_are_those_of_the_language_model(ask, trained):
    ((status, content),) = ask("lm", {"inputs": {"sentences": SENTENCES}})
    expected = trained["lm"].score(SENTENCES)
    assert status == 200
    assert content["outputs"].keys() == {"tokens", "log_probability", "perplexity"}
    for key, values in content["outputs"].items():
        assert values == pytest.approx([getattr(each, key) for each in expected], rel=1e-4)


def test_next_words_are_those_of_the_language_model(ask, trained):
    ((_, content),) = ask("lm", {"signature_name": "next_word", "inputs": {"prefix": SENTENCES, "k": 4}})
    for row, sentence in enumerate(SENTENCES):
        words, probabilities = zip(*trained["lm"].next_words(sentence, 4), strict=True)
        assert content["outputs"]["words"][row] == list(words)
        assert content["outputs"]["probabilities"][row] == pytest.approx(probabilities, rel=1e-4)


def test_translations_and_attention_are_those_of_the_translator(ask, trained, translator):
    sentences = ["a rose", "", "two dogs is 漢"]
    ((_, found),) = ask(translator, {"inputs": sentences})
    assert found["outputs"]["translations"] == trained["nmt"].translate(sentences)
    pairs = {"sentences": sentences, "translations": found["outputs"]["translations"]}
    ((_, found),) = ask(translator, {"signature_name": "attention", "inputs": pairs})
    for row, texts in enumerate(zip(*pairs.values(), strict=True)):
        weights, source, translation = trained["nmt"].attention(*texts)
        assert [piece for piece in found["outputs"]["source"][row] if piece] == source
        assert [piece for piece in found["outputs"]["translation"][row] if piece] == translation
        received = np.array(found["outputs"]["weights"][row])
        assert received[: len(translation), : len(source)] == pytest.approx(weights, rel=1e-5)
        assert received.sum() == pytest.approx(len(translation), rel=1e-5)


def test_similar_words_are_those_of_the_word_vectors(ask, trained):
    request = {"signature_name": "similar_words", "inputs": {"words": ["king", "xyzzy"], "k": 2}}
    ((_, content),) = ask("words", request)
    words, cosines = zip(*trained["words"].similar_words("king", 2), strict=True)
    assert content["outputs"]["similar"] == [list(words), ["", ""]]
    assert content["outputs"]["similarity"] == [pytest.approx(cosines, rel=1e-4), [0, 0]]


def test_next_words_of_a_joint_model_are_its_own(ask, trained):
    pair = {"source": "a b c", "alignment": "0-0 2-1", "history": "x y"}
    inputs = {**{name: [text] for name, text in pair.items()}, "k": 2}
    ((_, content),) = ask("nnjm", {"signature_name": "next_word", "inputs": inputs})
    words, probabilities = zip(*trained["nnjm"].next_words(**pair, k=2), strict=True)
    assert content["outputs"]["words"] == [list(words)]
    assert np.exp(content["outputs"]["log_probabilities"][0]) == pytest.approx(probabilities, rel=1e-4)


def test_rows_with_one_option_are_answered_as_inputs_with_it(ask):
    rows = [{"prefix": prefix, "k": 2} for prefix in ("the list", "a")]
    by_row, by_output = ask(
        "lm",
        {"signature_name": "next_word", "instances": rows},
        {"signature_name": "next_word", "inputs": {"prefix": ["the list", "a"], "k": 2}},
    )
    assert [row["words"] for row in by_row[1]["predictions"]] == by_output[1]["outputs"]["words"]


def test_instances_are_answered_by_row_and_inputs_by_output(ask):
    by_row, by_output = ask("lm", {"instances": ["the list", "a"]}, {"inputs": ["the list", "a"]})
    outputs = by_output[1]["outputs"]
    assert by_row[1]["predictions"] == [{key: values[row] for key, values in outputs.items()} for row in (0, 1)]


def test_one_output_has_no_name(ask):
    (named,) = ask("lm", {"signature_name": "generate", "inputs": {"prefix": ["the"], **DRAWN}})
    assert named[0] == 200
    assert [len(text.split()) for text in named[1]["outputs"]] == [6]


def test_no_rows_give_no_rows(ask):
    assert ask("lm", {"inputs": []}) == [(200, {"outputs": {"tokens": [], "log_probability": [], "perplexity": []}})]


def test_text_may_be_in_base64(ask):
    plain, encoded = ask("words", {"inputs": ["king"]}, {"inputs": [{"b64": "a2luZw=="}]})
    assert plain == encoded
    assert plain[0] == 200


def test_requests_are_computed_together_and_answered_as_alone(ask, monkeypatch):
    calls = []
    compute = serving_model.compute
    monkeypatch.setattr(serving_model, "compute", lambda requests: calls.append(len(requests)) or compute(requests))
    requests = [
        {"inputs": ["the list of the values", "a"]},
        {"signature_name": "next_word", "inputs": {"prefix": ["the"], "k": 3}},
        {"instances": [""]},
        {"signature_name": "next_word", "inputs": {"prefix": ["a name"], "k": 3}},
        {"signature_name": "next_word", "inputs": {"prefix": ["a name"], "k": 2}},
        {"inputs": []},
    ]
    together = ask("lm", *requests)
    assert calls == [3, 2, 1]
    for found, request in zip(together, requests, strict=True):
        (alone,) = ask("lm", request)
        assert found[0] == alone[0] == 200
        assert found[1] == close(alone[1])


def test_text_is_drawn_as_alone(ask):
    request = {"signature_name": "generate", "inputs": {"prefix": ["the value"], **DRAWN}}
    other = {"signature_name": "generate", "inputs": {"prefix": ["a", "the list"], **DRAWN}}
    assert ask("lm", other, request)[1] == ask("lm", request)[0]


def test_rows_of_different_lengths_are_computed_in_parts_and_keep_their_order(ask, served, monkeypatch):
    sentences = ["the list " * 9, "a", "", "the values of it", "name", "the name of the list"]
    (whole,) = ask("lm", {"inputs": sentences})
    sizes = []
    signature = served["lm"].signatures["serving_default"]

    def run(inputs):
        sizes.append(len(inputs["sentences"]))
        return signature.run(inputs)

    monkeypatch.setitem(served["lm"].signatures, "serving_default", replace(signature, run=run))
    monkeypatch.setattr(serving_model, "BYTES_PER_CALL", 210)
    (parts,) = ask("lm", {"inputs": sentences})
    assert sizes == [1, 3, 2]
    assert parts[1]["outputs"] == close(whole[1]["outputs"])


def test_an_empty_text_after_long_ones_is_scored(ask, monkeypatch):
    ((_, alone),) = ask("lm", {"inputs": [""]})
    monkeypatch.setattr(serving_model, "BYTES_PER_CALL", 120)
    ((status, found),) = ask("lm", {"inputs": [*["it works " * 5] * 3, ""]})
    assert status == 200
    assert found["outputs"]["perplexity"][-1:] == close(alone["outputs"]["perplexity"])


def test_attention_of_long_texts_in_many_rows_is_refused(ask, translator, monkeypatch):
    monkeypatch.setattr(signatures, "LARGEST_ANSWER", 20)
    inputs = {"sentences": ["a b c d e f", ""], "translations": ["a b c d e f", ""]}
    ((status, content),) = ask(translator, {"signature_name": "attention", "inputs": inputs})
    assert status == 413
    assert "at most 20 numbers" in content["error"]


def test_what_is_not_read_of_a_sentence_does_not_count(ask, translator, trained, monkeypatch):
    sentence, translation = "a" * 60, "a rose"
    monkeypatch.setattr(signatures, "LONGEST_SENTENCE", 20)
    monkeypatch.setattr(inference_translator, "LONGEST_SENTENCE", 20)
    size = trained["nmt"].attention(sentence, translation).weights.size
    request = {"signature_name": "attention", "inputs": {"sentences": [sentence], "translations": [translation]}}
    for largest, expected in [(size, 200), (size - 1, 413)]:
        monkeypatch.setattr(signatures, "LARGEST_ANSWER", largest)
        ((status, _),) = ask(translator, request)
        assert status == expected


@pytest.mark.parametrize(("rows", "status"), [(4, 200), (5, 413)])
def test_an_answer_that_would_be_too_large_is_not_computed(ask, served, monkeypatch, rows, status):
    calls = []
    compute = serving_model.compute
    monkeypatch.setattr(serving_model, "compute", lambda requests: calls.append(len(requests)) or compute(requests))
    monkeypatch.setattr(signatures, "LARGEST_ANSWER", 20)  # four rows of five words
    inputs = {"source": ["a"] * rows, "alignment": [""] * rows, "history": [""] * rows}
    ((received, content),) = ask("nnjm", {"signature_name": "log_probabilities", "inputs": inputs})
    assert (received, len(calls)) == (status, status == 200)
    if status == 413:
        assert "at most 20 numbers, padding included. Received: 5 rows of 5 each" in content["error"]


def test_a_request_that_fails_does_not_fail_those_beside_it(ask):
    good, bad = (
        {"inputs": {"source": ["a b"], "alignment": [links], "history": ["x"]}, "signature_name": "log_probabilities"}
        for links in ("0-0", "7-0")
    )
    found = ask("nnjm", good, b"no JSON", bad, good)
    assert [status for status, _ in found] == [200, 400, 400, 200]
    assert found[2][1] == {"error": "a link points beyond the end of its source sentence"}
    assert found[0] == ask("nnjm", good)[0]


@pytest.mark.parametrize("links", ["a-b", "5", "0-", "-", "0-0,1-1", "1-2-3"])
def test_links_of_another_form_are_named(ask, links):
    inputs = {"source": ["a b"], "alignment": [links], "history": ["x"], "k": 1}
    assert ask("nnjm", {"signature_name": "next_word", "inputs": inputs}) == [
        (400, {"error": "alignment must be links such as 0-0 1-2"})
    ]


@pytest.mark.parametrize(
    "message",
    [
        "Graph execution error:\n\nDetected at node N defined at (most recent call last):\n<stack trace unavailable>\n"
        "no number: x\n\t [[{{node N}}]] [Op:__inference_f_6]",
        "{{function_node __inference_f_6}} no number: x\n\t [[{{node N}}]] [Op:__inference_f_6]",
        "no number: x",
    ],
)
def test_the_reason_of_an_error_has_one_line_without_names_of_operations(trained, message):
    def fails(_):
        raise tf.errors.InvalidArgumentError(None, None, message)

    served = ServedModel(trained["words"], "words")
    served.signatures["vector"] = replace(served.signatures["vector"], run=fails)
    (reply,) = served.answer([b'{"signature_name": "vector", "inputs": ["king"]}'])
    assert (reply.status, json.loads(reply.body)) == (400, {"error": "no number: x"})


def test_an_unexpected_error_is_logged_and_has_the_status_500(trained, caplog):
    served = ServedModel(trained["words"], "words")
    served.signatures["vector"] = replace(served.signatures["vector"], run=lambda inputs: 1 / 0)
    body = json.dumps({"signature_name": "vector", "inputs": ["king"]}).encode()
    (reply,) = served.answer([body])
    assert reply.status == 500
    assert "log" in json.loads(reply.body)["error"]
    assert "ZeroDivisionError" in caplog.text


def test_a_model_is_loaded_by_name_and_called_once():
    served = ServedModel.load("tulips", "embedded_small_tied")
    assert served.name == "tulips"
    assert served.signatures.keys() == {"serving_default", "score", "next_word", "generate"}


def test_metadata_describes_every_signature(served):
    content = json.loads(served["lm"].metadata.body)
    assert content["model_spec"] == {"name": "lm", "signature_name": "", "version": "1"}
    described = content["metadata"]["signature_def"]["signature_def"]
    assert described.keys() == served["lm"].signatures.keys()
    assert described["next_word"]["inputs"]["k"]["dtype"] == "DT_INT32"
    assert described["next_word"]["inputs"]["k"]["tensor_shape"]["dim"] == []
    assert described["next_word"]["outputs"]["words"]["tensor_shape"]["dim"] == [{"size": "-1", "name": ""}] * 2


def test_status_and_metadata_are_messages_of_tensorflow_serving(served, translator):
    json_format = pytest.importorskip("google.protobuf.json_format")
    statuses = pytest.importorskip("tensorflow_serving.apis.get_model_status_pb2")
    metadata = pytest.importorskip("tensorflow_serving.apis.get_model_metadata_pb2")
    status = json_format.Parse(status_reply().body, statuses.GetModelStatusResponse())
    assert status.model_version_status[0].state == statuses.ModelVersionStatus.AVAILABLE
    for model in (*served.values(), translator):
        content = json.loads(model.metadata.body)["metadata"]["signature_def"]
        described = json_format.ParseDict(content, metadata.SignatureDefMap())
        assert set(described.signature_def) == set(model.signatures)
