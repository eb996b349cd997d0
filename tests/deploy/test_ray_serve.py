"""deploy/ray_serve.py serves a model with Ray Serve. What it does around that is tested with a stub of Ray."""

import importlib.util
import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

import pytest

import keras_tying as kt
from keras_tying.serving.limits import Limits

slow = pytest.mark.slow
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


@slow
def test_it_answers_as_the_loaded_model(service):
    status, answer = ask(inputs=[SENTENCE])
    (expected,) = kt.load(MODEL).score([SENTENCE])
    assert status == 200
    assert answer["outputs"]["log_probability"] == [pytest.approx(expected.log_probability, rel=1e-4)]


@slow
def test_a_request_that_is_too_large_is_refused(service):
    status, answer = ask(inputs=[SENTENCE] * 4)
    assert status == 413
    assert "3" in answer["error"]


@slow
def test_a_request_after_a_replica_was_killed_is_answered(service):
    (replica,) = (each for each in service.children(recursive=True) if f":{MODEL}" in " ".join(each.cmdline()))
    before = ask(inputs=[SENTENCE])
    replica.send_signal(signal.SIGKILL)
    assert ask(inputs=[SENTENCE]) == before


class Errors(ModuleType):
    """As the modules of Ray's errors."""

    class RayError(Exception):
        pass

    class RayActorError(RayError):
        pass

    class RayServeException(Exception):
        pass

    class BackPressureError(RayServeException):
        pass


@pytest.fixture
def script(monkeypatch):
    """The script, with a stub of Ray on whose cluster the application `other` runs."""
    ray = MagicMock()
    ray.serve.status.return_value.applications = {"other": "RUNNING"}
    exceptions = Errors("exceptions")
    modules = {"ray": ray, "ray.exceptions": exceptions, "ray.serve": ray.serve, "ray.serve.exceptions": exceptions}
    for name, module in {**modules, "keras_tying_cli": ModuleType("keras_tying_cli")}.items():
        monkeypatch.setitem(sys.modules, name, module)
    spec = importlib.util.spec_from_file_location("ray_serve", ROOT / "deploy" / "ray_serve.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(signal, "signal", MagicMock())
    monkeypatch.setattr(signal, "pause", MagicMock(side_effect=KeyboardInterrupt))
    return script


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([MODEL, "--sentences", "0"], "`sentences` must be at least 1. Received: sentences=0"),
        ([MODEL, "--replicas", "0"], "--replicas must be at least 1. Received: 0"),
        ([MODEL, "--gates", "0"], "--gates must be at least 1. Received: 0"),
        ([MODEL, "--queue", "-5"], "--queue must be at least 1. Received: -5"),
        ([MODEL, "--wait-ms", "nan"], "--wait-ms must be at least 0. Received: nan"),
        ([MODEL, "--port", "70000"], "--port must be at most 65535. Received: 70000"),
        (["nothing"], "There is no trained model 'nothing'"),
        (["mine=runs/nothing"], "There is no folder runs/nothing."),
        (["mine=./docs"], "docs is not a run and not a preset"),
    ],
)
def test_what_cannot_be_served_is_refused_before_ray_starts(script, capsys, monkeypatch, arguments, error):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["ray_serve.py", *arguments])
    with pytest.raises(SystemExit):
        script.main()
    assert error in capsys.readouterr().err.splitlines()[-1]
    script.ray.init.assert_not_called()


def test_folders_are_absolute_and_limits_those_of_a_service(script, monkeypatch):
    monkeypatch.chdir(ROOT / "zoo" / "presets")
    options = script.parse([MODEL, f"mine=./{MODEL}", "--words", "7"])
    assert options.models == {MODEL: MODEL, "mine": str(ROOT / "zoo" / "presets" / MODEL)}
    assert options.limits == Limits(words=7)
    script.application(options)
    assert script.Gate.options().bind.call_args.args[1] == asdict(Limits(words=7))


def test_only_the_own_application_is_ended(script, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["ray_serve.py", MODEL, "--address", "auto"])
    script.main()
    assert script.serve.run.call_args.kwargs == {"name": "keras-tying"}
    script.serve.delete.assert_called_once_with("keras-tying")
    script.serve.shutdown.assert_not_called()


def test_a_service_that_runs_already_is_not_replaced(script):
    script.serve.status.return_value.applications["keras-tying"] = "RUNNING"
    with pytest.raises(SystemExit, match=r"^error: Expected a cluster without the application keras-tying\. .*$"):
        script.start(script.parse([MODEL, "--address", "auto"]))
    script.serve.run.assert_not_called()
    script.serve.delete.assert_not_called()


@pytest.mark.parametrize("kind", [ConnectionError, RuntimeError, ValueError])
def test_why_there_is_no_cluster_is_one_line(script, kind):
    script.ray.init.side_effect = kind("Tried 5 times.\nNo Ray runs there.")
    with pytest.raises(SystemExit, match=r"^error: Ray did not start or connect at 'auto': No Ray runs there\.$"):
        script.start(script.parse([MODEL, "--address", "auto"]))
    script.serve.start.assert_not_called()


@pytest.mark.parametrize("step", ["start", "run"])
@pytest.mark.parametrize("kind", [RuntimeError, TimeoutError, Errors.RayError, Errors.RayServeException])
def test_why_a_service_does_not_start_is_one_line(script, kind, step):
    error = kind("Deploying failed:\nTraceback (most recent call last):\nOSError: no space")
    getattr(script.serve, step).side_effect = error
    with pytest.raises(SystemExit, match=r"^error: The service did not start: OSError: no space .*/logs/serve\.$"):
        script.start(script.parse([MODEL]))
    script.serve.delete.assert_called_once_with("keras-tying")
