"""deploy/tensorflow_serving: TensorFlow Serving's protocol buffers parse the settings, and docs/serving.md is true."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format, wrappers_pb2

from keras_tying.export.warm_up import FILE

REPOSITORY = Path(__file__).parents[2]
SERVING = REPOSITORY / "deploy" / "tensorflow_serving"
PAGE = REPOSITORY / "docs" / "serving.md"


def module(path):
    """A script that is in no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = loaded
    spec.loader.exec_module(loaded)
    return loaded


check = module(REPOSITORY / "deploy" / "check_serving.py")
export_models = module(SERVING / "export_models.py")
served = module(Path(__file__).parent / "served.py")


def parsed(name, message):
    """A settings file as TensorFlow Serving reads it."""
    return text_format.Parse((SERVING / name).read_text(), message)


@pytest.fixture(scope="module")
def models_config():
    apis = pytest.importorskip("tensorflow_serving.config.model_server_config_pb2", reason="needs the extra serving")
    return parsed("models.config", apis.ModelServerConfig()).model_config_list.config


def test_the_models_are_those_that_are_exported(models_config):
    exported = {}
    for place in export_models.MODELS:
        name, version = place.split("/")
        exported.setdefault(name, set()).add(int(version))
    assert {model.name: model.base_path for model in models_config} == {name: f"/models/{name}" for name in exported}
    for model in models_config:
        assert model.model_platform == "tensorflow"
        assert set(model.model_version_policy.specific.versions) in (set(), exported[model.name])


def test_two_versions_have_labels(models_config):
    (model,) = (model for model in models_config if model.name == "lm")
    assert dict(model.version_labels) == {"stable": 1, "canary": 2}
    assert sorted(model.model_version_policy.specific.versions) == [1, 2]


NUMBER = "google.protobuf.Int64Value"
MESSAGES = {
    "BatchingParameters": {
        "max_batch_size": (1, NUMBER),
        "batch_timeout_micros": (2, NUMBER),
        "max_enqueued_batches": (3, NUMBER),
        "num_batch_threads": (4, NUMBER),
    },
    "PrometheusConfig": {"enable": (1, "TYPE_BOOL"), "path": (2, "TYPE_STRING")},
    "MonitoringConfig": {"prometheus_config": (1, "settings.PrometheusConfig")},
}
"""Messages that tensorflow-serving-api does not contain: the fields that are used here, their numbers and types.

From session_bundle_config.proto and monitoring_config.proto of TensorFlow Serving.
"""


@pytest.fixture(scope="module")
def messages():
    """A class of each of `MESSAGES`."""
    file = descriptor_pb2.FileDescriptorProto(name="settings.proto", package="settings", syntax="proto3")
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            types = {"type": kind} if kind.startswith("TYPE_") else {"type": "TYPE_MESSAGE", "type_name": kind}
            message.field.add(name=field, number=number, label="LABEL_OPTIONAL", **types)
    pool = descriptor_pool.Default()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"settings.{name}")) for name in MESSAGES}


def test_the_settings_of_batches_are_parsed(messages):
    settings = parsed("batching.config", messages["BatchingParameters"]())
    assert settings.max_batch_size.value > 1
    assert settings.num_batch_threads.value >= 1
    assert settings.batch_timeout_micros.value >= 0


def test_the_metrics_are_where_prometheus_looks(messages):
    yaml = pytest.importorskip("yaml")
    exporter = parsed("monitoring.config", messages["MonitoringConfig"]()).prometheus_config
    (job,) = yaml.safe_load((SERVING / "prometheus.yml").read_text())["scrape_configs"]
    services = yaml.safe_load((SERVING / "compose.yaml").read_text())["services"]
    assert exporter.enable
    assert job["metrics_path"] == exporter.path
    host, port = job["static_configs"][0]["targets"][0].split(":")
    assert f"{port}:{port}" in services[host]["ports"]


def test_compose_gives_the_server_files_that_exist():
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((SERVING / "compose.yaml").read_text())["services"]
    options = dict(option.removeprefix("--").split("=") for option in services["serving"]["command"])
    for name in ("model_config_file", "batching_parameters_file", "monitoring_config_file"):
        assert (SERVING / Path(options[name]).relative_to("/config")).is_file()
    assert set(services["serving"]["ports"]) == {"8500:8500", "8501:8501"}  # gRPC, REST
    assert services["check"]["entrypoint"][2:5] == ["http://serving:8501", "--grpc", "serving:8500"]
    assert options["enable_batching"] == options["allow_version_labels_for_unavailable_models"] == "true"
    build = services["models"]["build"]
    assert (SERVING / build["context"] / build["dockerfile"]).resolve() == REPOSITORY / "deploy" / "Dockerfile"
    for service in services.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source == "models" or (SERVING / source).exists()


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_a_folder_is_an_argument_of_the_export(arguments, capsys):
    with pytest.raises(SystemExit):
        export_models.main(arguments)
    assert "folder" in "".join(capsys.readouterr())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    export_models.main([str(folder)])
    return folder


@pytest.fixture(scope="module")
def models(folder):
    return served.Models(folder, {"lm": {"stable": 1, "canary": 2}})


@pytest.fixture(scope="module")
def address(models):
    with served.serving(models) as address:
        yield address


@pytest.fixture(scope="module")
def grpc_address(models):
    pytest.importorskip("tensorflow_serving", reason="needs the extra serving")
    with served.serving_by_grpc(models) as address:
        yield address


def test_the_answers_on_the_page_are_those_of_the_exports(address, capsys):
    assert check.main([address, "--wait", "30"]) == 0, capsys.readouterr().out
    count = len(re.findall(r"^\$ curl", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert f"{count} of {count} answers" in capsys.readouterr().out


def test_the_answers_by_grpc_are_those_of_the_page(address, grpc_address, capsys):
    assert check.main([address, "--grpc", grpc_address]) == 0, capsys.readouterr().out
    asked = re.findall("^ok  gRPC  (\\S+)", capsys.readouterr().out, re.MULTILINE)
    assert {path.split("/")[3].partition(":")[0] for path in asked} == {"lm", "nmt", "nnjm", "words"}


@pytest.mark.parametrize("signature", ["score", "next_word", "generate"])
def test_the_grpc_client_gets_what_the_signature_gives(models, grpc_address, capsys, signature):
    client = module(SERVING / "grpc_client.py")
    inputs = {
        "score": {"sentences": ["the value", ""]},
        "next_word": {"prefix": ["the value", "of"], "k": [3, 1]},
        "generate": {"prefix": ["a"], "length": [4], "temperature": [0.5], "top_k": [0], "top_p": [1.0], "seed": [3]},
    }[signature]
    client.main([grpc_address, "lm", signature, json.dumps(inputs), "--version", "1"])
    received = json.loads(capsys.readouterr().out)["outputs"]
    expected = models.signatures["lm"][1][signature](**{name: tf.constant(value) for name, value in inputs.items()})
    assert received == {name: client.plain(value.numpy().tolist()) for name, value in expected.items()}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["lm", "next_word", '{"prefix": ["a"], "k": [0]}'], "INVALID_ARGUMENT.*k must be at least 1"),
        (["lm", "score", '{"sentences": ["a"]}', "--version", "7"], "NOT_FOUND"),
    ],
)
def test_the_grpc_client_says_what_the_server_refuses(grpc_address, arguments, error):
    with pytest.raises(SystemExit, match=f"(?s)^error: {error}"):
        module(SERVING / "grpc_client.py").main([grpc_address, *arguments])


@pytest.mark.parametrize("inputs", ["no JSON", '["the"]'])
def test_the_grpc_client_takes_a_json_object(capsys, inputs):
    pytest.importorskip("tensorflow_serving", reason="needs the extra serving")
    with pytest.raises(SystemExit):
        module(SERVING / "grpc_client.py").main(["localhost:9", "lm", "score", inputs])
    assert f'expected a JSON object such as {{"prefix": ["the"]}}. Received: {inputs}\n' in capsys.readouterr().err


@pytest.mark.parametrize("value", ["null", '["a", 1]', '[["a"], ["a", "b"]]', '{"a": 1}', '["\\ud800"]'])
def test_the_grpc_client_says_which_input_is_no_tensor(value):
    pytest.importorskip("tensorflow_serving", reason="needs the extra serving")
    arguments = ["localhost:9", "lm", "next_word", f'{{"prefix": {value}}}']
    with pytest.raises(SystemExit) as error:
        module(SERVING / "grpc_client.py").main(arguments)
    assert re.fullmatch("error: inputs: 'prefix' is not a tensor. Expected: .*", error.value.code)
    assert error.value.code.endswith(f"Received: {value}")


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [('"an"', '"the"'), ('"tokens": [9, 1]', '"tokens": [9, 2]'), ('"tokens"', '"words"'), ("k must be", "k may be")],
)
def test_another_answer_than_that_of_the_page_is_shown(address, tmp_path, capsys, answer, wrong):
    page = PAGE.read_text(encoding="utf-8")
    assert answer in page
    (tmp_path / "page.md").write_text(page.replace(answer, wrong), encoding="utf-8")
    assert check.main([address, "--page", str(tmp_path / "page.md")]) == 1
    assert "DIFFERS" in capsys.readouterr().out


def test_a_server_that_does_not_answer_is_an_error(capsys):
    assert check.main(["http://127.0.0.1:9"]) == 1
    assert "no answer" in capsys.readouterr().out


def test_requests_on_the_page_can_be_joined_in_batches():
    """All inputs have rows, which TensorFlow Serving needs with --enable_batching."""
    for call in check.calls(PAGE.read_text(encoding="utf-8")):
        request = json.loads(call.data or "{}")
        assert all(isinstance(value, list) for value in request.get("inputs", {}).values())


def test_the_trained_models_have_warm_up_requests(folder):
    pytest.importorskip("tensorflow_serving", reason="needs the extra serving")
    for place in export_models.MODELS:
        assert len(list(tf.data.TFRecordDataset(str(folder / place / FILE)))) >= 2
