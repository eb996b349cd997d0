"""A server of SavedModels on this machine that answers by REST and gRPC as TensorFlow Serving does, for tests.

The rules are those of https://www.tensorflow.org/tfx/serving/api_rest: status, predictions in rows and columns, errors.
"""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the operations of tokenizers, as TensorFlow Serving has them

PATH = re.compile(r"/v1/models/(\w+)(?:/(versions|labels)/(\w+))?(:predict)?")


class Models:
    """Signatures of the SavedModels in a folder `NAME/VERSION`.

    Args:
        folder: The folder.
        labels: Labels of versions, by name of the model.
    """

    def __init__(self, folder: Path, labels: dict[str, dict[str, int]] | None = None):
        self.labels = labels or {}
        self.signatures: dict[str, dict[int, dict]] = {}
        for path in sorted(folder.glob("*/*")):
            self.signatures.setdefault(path.parent.name, {})[int(path.name)] = tf.saved_model.load(path).signatures

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict]:
        """Status and JSON of the answer to a request."""
        found = PATH.fullmatch(path)
        if not found or bool(found[4]) != (method == "POST"):
            return 404, {"error": f"Malformed request: {method} {path}"}
        versions = self.signatures.get(found[1], {})
        chosen = self.chosen(found[1], found[2], found[3])
        if not chosen:
            return 404, {"error": f"Servable not found for request: {path}"}
        if method == "GET":
            return 200, {"model_version_status": [status(version) for version in sorted(chosen, reverse=True)]}
        try:
            return 200, predict(versions[max(chosen)], json.loads(body))
        except (tf.errors.InvalidArgumentError, ValueError, TypeError) as error:
            return 400, {"error": str(error)}

    def chosen(self, name: str, kind: str | None = None, which: str | int = "") -> set[int]:
        """Versions of a model that `kind`, which is "versions", "labels" or `None`, and `which` name."""
        versions = self.signatures.get(name, {}).keys()
        if kind == "labels":
            which = self.labels.get(name, {}).get(which, -1)
        return {int(which)} & versions if kind else set(versions)


def status(version: int) -> dict:
    return {"version": str(version), "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}


def predict(signatures: dict, request: dict) -> dict:
    """The answer to a request, in the rows or the columns that it has.

    Raises:
        ValueError: If it does not fit the signature.
    """
    name = request.get("signature_name", "serving_default")
    if name not in signatures:
        raise ValueError(f'Serving signature name: "{name}" not found in signature def')
    served = signatures[name]
    specs = served.structured_input_signature[1]
    columns = request["inputs"] if "inputs" in request else rows_to_columns(request["instances"], specs)
    if not isinstance(columns, dict):
        columns = {next(iter(specs)): columns}
    if columns.keys() != specs.keys():
        raise ValueError(f"input size does not match signature: {sorted(columns)} vs {sorted(specs)}")
    outputs = served(**{key: tf.constant(value, specs[key].dtype) for key, value in columns.items()})
    values = {key: texts(value.numpy().tolist()) for key, value in outputs.items()}
    if "inputs" in request:
        return {"outputs": next(iter(values.values())) if len(values) == 1 else values}
    if len(values) == 1:
        return {"predictions": next(iter(values.values()))}
    return {"predictions": [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]}


def rows_to_columns(rows: list, specs: dict) -> dict:
    if not all(isinstance(row, dict) for row in rows):
        return {next(iter(specs)): rows}
    return {key: [row[key] for row in rows] for key in rows[0]}


def texts(value):
    if isinstance(value, list):
        return [texts(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value


@contextmanager
def serving(models: Models):
    """The address of a server of the models, which ends with the context."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/monitoring/prometheus/metrics":
                return self.send(200, b"# TYPE :tensorflow:serving:request_count counter\n")
            return self.reply("GET", b"")

        def do_POST(self):
            return self.reply("POST", self.rfile.read(int(self.headers["Content-Length"])))

        def reply(self, method, body):
            code, answer = models.answer(method, self.path, body)
            self.send(code, json.dumps(answer).encode())

        def send(self, code, content):
            self.send_response(code)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def serving_by_grpc(models: Models):
    """The address of a gRPC server of the models, which ends with the context."""
    import grpc
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request, context):  # noqa: N802  the name of the procedure
            spec = request.model_spec
            kind = spec.WhichOneof("version_choice")
            which = spec.version_label if kind == "version_label" else spec.version.value
            kind = kind and {"version_label": "labels", "version": "versions"}[kind]
            chosen = models.chosen(spec.name, kind, which)
            if not chosen:
                context.abort(grpc.StatusCode.NOT_FOUND, f"Servable not found for request: {spec.name}")
            served = models.signatures[spec.name][max(chosen)].get(spec.signature_name)
            inputs = {name: tf.constant(tf.make_ndarray(value)) for name, value in request.inputs.items()}
            try:
                outputs = served(**inputs)
            except (tf.errors.InvalidArgumentError, TypeError) as error:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            return predict_pb2.PredictResponse(
                outputs={name: tf.make_tensor_proto(value) for name, value in outputs.items()}
            )

    server = grpc.server(ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()
