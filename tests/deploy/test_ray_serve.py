"""deploy/ray_serve.py serves a model with Ray Serve."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import keras_tying as kt

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PORT = 8512
MODEL = "embedded_small_tied"
SENTENCE = "the value of the expression"


@pytest.fixture(scope="module")
def service():
    """The process of a service, as psutil has it, when it serves."""
    pytest.importorskip("ray")
    psutil = pytest.importorskip("psutil")
    command = [sys.executable, str(ROOT / "deploy" / "ray_serve.py"), MODEL, "--port", str(PORT), "--sentences", "3"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert any(line.startswith("Serving ") for line in process.stdout)
    yield psutil.Process(process.pid)
    process.terminate()
    process.wait(60)


def ask(**content):
    """Status and content of the answer to a request."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}/v1/models/{MODEL}:predict", json.dumps(content).encode(), method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_it_answers_as_the_loaded_model(service):
    status, answer = ask(inputs=[SENTENCE])
    (expected,) = kt.load(MODEL).score([SENTENCE])
    assert status == 200
    assert answer["outputs"]["log_probability"] == [pytest.approx(expected.log_probability, rel=1e-4)]


def test_a_request_that_is_too_large_is_refused(service):
    status, answer = ask(inputs=[SENTENCE] * 4)
    assert status == 413
    assert "3" in answer["error"]


def test_a_request_after_a_replica_was_killed_is_answered(service):
    (replica,) = (each for each in service.children(recursive=True) if f":{MODEL}" in " ".join(each.cmdline()))
    before = ask(inputs=[SENTENCE])
    replica.send_signal(signal.SIGKILL)
    assert ask(inputs=[SENTENCE]) == before
