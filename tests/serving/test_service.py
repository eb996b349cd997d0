"""A service finds the model that is asked for, and reads no more of a request than its limit."""

import asyncio
import json

import pytest

from keras_tying.serving import service
from keras_tying.serving.limits import Limits
from keras_tying.serving.replies import Reply, error_reply
from keras_tying.serving.routes import named_sources
from keras_tying.serving.service import Service


class Asked:
    """A service of two models that note what they are asked, and the number of bytes that were read."""

    def __init__(self):
        self.calls, self.read = [], 0
        self.service = Service(["lm", "words"], self.ask, Limits(request_bytes=10))

    async def ask(self, *call):
        self.calls.append(call)
        return Reply(200, b"{}")

    async def chunks(self, *parts):
        for part in parts:
            self.read += len(part)
            yield part

    def answer(self, method, path, *parts, content_length=None):
        status, body = asyncio.run(self.service.answer(method, path, self.chunks(*parts), content_length))
        return status, json.loads(body)


@pytest.fixture
def asked():
    return Asked()


@pytest.mark.parametrize("path", ["/v1/models/lm:predict", "/v1/models/lm", "/v1/models/lm/versions/1:predict"])
def test_a_model_is_asked_to_predict(asked, path):
    assert asked.answer("POST", path, b"12345", b"67890") == (200, {})
    assert asked.calls == [("lm", "predict", b"1234567890")]


def test_a_model_is_asked_for_its_metadata(asked):
    assert asked.answer("GET", "/v1/models/words/metadata") == (200, {})
    assert asked.calls == [("words", "metadata", b"")]


@pytest.mark.parametrize("path", ["/v1/models/lm", "/v1/models/lm/versions/1"])
def test_the_status_is_that_of_a_model_that_answers(asked, path):
    status, content = asked.answer("GET", path)
    assert (status, content["model_version_status"][0]["state"]) == (200, "AVAILABLE")
    assert asked.calls == [("lm", "metadata", b"")]


def test_a_model_that_does_not_answer_in_time_has_the_status_503(asked, monkeypatch):
    async def ask(*_):
        await asyncio.sleep(60)

    monkeypatch.setattr(service, "STATUS_SECONDS", 0.01)
    monkeypatch.setattr(asked.service, "ask", ask)
    status, content = asked.answer("GET", "/v1/models/lm")
    assert (status, content) == (503, {"error": "lm did not answer within 0.01 seconds. Ask again later."})


def test_the_status_of_a_model_that_fails_is_its_error(asked, monkeypatch):
    async def ask(*_):
        return error_reply(503, "3 replicas of lm died.")

    monkeypatch.setattr(asked.service, "ask", ask)
    assert asked.answer("GET", "/v1/models/lm") == (503, {"error": "3 replicas of lm died."})


def test_the_models_are_listed(asked):
    assert asked.answer("GET", "/v1/models") == (200, {"models": ["lm", "words"]})


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/models/nmt:predict"),
        ("GET", "/v1/models/nmt"),
        ("GET", "/v1/models/nmt/metadata"),
        ("POST", "/v1/models/lm/versions/2:predict"),
        ("GET", f"/v1/models/lm/versions/{'9' * 5000}"),
    ],
)
def test_an_unknown_model_or_version_has_the_status_404(asked, method, path):
    status, content = asked.answer(method, path, b"a large body of a request")
    assert status == 404
    assert "Servable not found" in content["error"]
    assert not asked.calls
    assert not asked.read


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/"), ("POST", "/v1/models/lm:classify"), ("GET", "/v1/models/lm:predict"), ("PUT", "/v1/models/lm")],
)
def test_another_address_has_the_status_400(asked, method, path):
    status, content = asked.answer(method, path)
    assert status == 400
    assert content["error"].startswith(f"Malformed request: {method} {path}")


@pytest.mark.parametrize("wrong", ["runs/mine", "a:b", "=runs/mine", "lm=runs/other"])
def test_a_name_that_no_address_has_is_refused(wrong):
    with pytest.raises(ValueError, match=f"Expected NAME or NAME=FOLDER, .* Received: {wrong}$"):
        named_sources(["lm", "words=runs/words", wrong])


@pytest.mark.parametrize("length", ["11", "9" * 5000])
def test_a_body_that_is_declared_too_large_is_not_read(asked, length):
    status, content = asked.answer("POST", "/v1/models/lm:predict", b"1" * 11, content_length=length)
    assert (status, asked.read, asked.calls) == (413, 0, [])
    assert "at most 10 bytes" in content["error"]


def test_a_body_is_read_no_further_than_its_limit(asked):
    status, _ = asked.answer("POST", "/v1/models/lm:predict", *[b"1234"] * 100)
    assert (status, asked.read, asked.calls) == (413, 12, [])


def test_a_wrong_declaration_does_not_lift_the_limit(asked):
    assert asked.answer("POST", "/v1/models/lm:predict", *[b"1234"] * 100, content_length="4")[0] == 413
