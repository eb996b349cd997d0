"""Requests that are wrong are refused with the status 400, those beyond a limit with 413, and each says why."""

import json

import pytest

from keras_tying.serving.limits import Limits
from keras_tying.serving.replies import RequestError
from keras_tying.serving.requests import parse_request

PAIR = {"source": "a", "alignment": "", "history": ""}
WRONG = {
    "no JSON": ("lm", b"{", "Expected JSON"),
    "no Unicode": ("lm", b"\xff", "Expected JSON"),
    "deep JSON": ("lm", b"[" * 100_000, "Expected JSON"),
    "a list": ("lm", [], "a request is a JSON object"),
    "no inputs": ("lm", {}, "one of the keys 'inputs' and 'instances'"),
    "both": ("lm", {"inputs": ["a"], "instances": ["a"]}, "one of the keys"),
    "signature": ("lm", {"signature_name": "classify", "inputs": ["a"]}, "'signature_name' is one of serving_default"),
    "signature's type": ("lm", {"signature_name": ["score"], "inputs": ["a"]}, "'signature_name' is one of"),
    "text": ("lm", {"inputs": "a"}, "'sentences' is a list"),
    "number": ("lm", {"inputs": [1]}, "'sentences' is a string"),
    "nested": ("lm", {"inputs": [["a"]]}, "'sentences' is a string"),
    "base64": ("lm", {"inputs": [{"b64": "%"}]}, "UTF-8 in base64"),
    "bytes": ("lm", {"inputs": [{"b64": "/w=="}]}, "UTF-8 in base64"),
    "surrogate": ("lm", b'{"inputs": ["\\ud800"]}', "valid Unicode"),
    "other key": ("lm", {"inputs": {"sentence": ["a"]}}, "'inputs' has the keys sentences"),
    "no instances": ("lm", {"instances": []}, "at least one row"),
    "a row's key": ("lm", {"instances": [{"text": "a"}]}, "a row of 'instances' has the keys sentences"),
    "plain rows": ("nnjm", {"instances": ["a"]}, "an object with the keys source, alignment, history"),
    "plain inputs": ("nnjm", {"inputs": ["a"]}, "an object with the keys source, alignment, history"),
    "rows": ("nnjm", {"inputs": {"source": ["a"], "alignment": [], "history": [""]}}, "all lists have one length"),
    "rows with different k": (
        "lm",
        {"signature_name": "next_word", "instances": [{"prefix": "a", "k": 1}, {"prefix": "a", "k": 2}]},
        "all rows of a request have the same 'k'",
    ),
    "a row with NaN": (
        "lm",
        b'{"signature_name": "generate", "instances": [{"prefix": "a", "length": 1, "temperature": NaN, "top_k": 0, '
        b'"top_p": 1, "seed": 0}]}',
        "'temperature' is a number of the type float32",
    ),
    "k's type": ("lm", {"signature_name": "next_word", "inputs": {"prefix": ["a"], "k": 1.5}}, "'k' is an integer"),
    "true": ("lm", {"signature_name": "next_word", "inputs": {"prefix": ["a"], "k": True}}, "'k' is an integer"),
    "a float's range": (
        "lm",
        {
            "signature_name": "generate",
            "inputs": {"prefix": ["a"], "length": 1, "temperature": 10**400, "top_k": 0, "top_p": 1, "seed": 0},
        },
        "'temperature' is a number of the type float32",
    ),
    "k's range": ("lm", {"signature_name": "next_word", "inputs": {"prefix": ["a"], "k": -(2**31) - 1}}, "type int32"),
}
LARGE = {
    "rows": ("lm", {"inputs": ["a"] * 7}, "at most 6 rows. Received: 7"),
    "instances": ("nnjm", {"instances": [PAIR] * 7}, "at most 6 rows. Received: 7"),
    "text": ("lm", {"inputs": ["a" * 201]}, "at most 200 characters. Received: 201"),
    "k": ("lm", {"signature_name": "next_word", "inputs": {"prefix": ["a"], "k": 13}}, "'k' is at most 12"),
    "length": (
        "lm",
        {
            "signature_name": "generate",
            "inputs": {"prefix": ["a"], "length": 13, "temperature": 1, "top_k": 0, "top_p": 1, "seed": 0},
        },
        "'length' is at most 12",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_request_has_the_status_400(ask, case):
    name, request, message = WRONG[case]
    ((status, content),) = ask(name, request)
    assert status == 400
    assert message in content["error"]


@pytest.mark.parametrize("case", LARGE)
def test_a_request_beyond_a_limit_has_the_status_413(ask, case):
    name, request, message = LARGE[case]
    ((status, content),) = ask(name, request)
    assert status == 413
    assert message in content["error"]


def test_a_request_at_the_limits_is_answered(ask):
    requests = {"inputs": ["a" * 200] * 6}, {"signature_name": "next_word", "inputs": {"prefix": ["a"], "k": 12}}
    assert [status for status, _ in ask("lm", *requests)] == [200, 200]


def test_rows_may_write_one_number_in_two_ways(ask):
    row = {"prefix": "a", "length": 1, "temperature": 1, "top_k": 0, "top_p": 1, "seed": 0}
    request = {"signature_name": "generate", "instances": [row, {**row, "temperature": 1.0}]}
    ((status, _),) = ask("lm", request)
    assert status == 200


def test_errors_are_short(ask):
    ((_, content),) = ask("lm", {"signature_name": "x" * 10_000, "inputs": []})
    assert len(content["error"]) < 250


def test_the_signature_is_the_default_one_unless_it_is_named(served):
    for content in ({"inputs": ["a"]}, {"inputs": ["a"], "signature_name": ""}):
        request = parse_request(json.dumps(content).encode(), served["lm"].signatures, Limits())
        assert request.signature.name == "serving_default"


def test_limits_are_positive():
    with pytest.raises(ValueError, match="`sentences` must be at least 1"):
        Limits(sentences=0)


def test_an_error_has_its_status():
    assert RequestError(404, "none").status == 404
