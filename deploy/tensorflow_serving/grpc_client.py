"""A client of TensorFlow Serving by gRPC: asks a model once and prints the answer as REST has it.

python deploy/tensorflow_serving/grpc_client.py localhost:8500 lm score '{"sentences": ["the value of it"]}'

Needs tensorflow and tensorflow-serving-api, not keras-tying. Each input has the type of its signature: `1.0` is
float32, `1` is int32.
"""

import argparse
import json
from typing import Any

import grpc
import tensorflow as tf
from tensorflow_serving.apis.predict_pb2 import PredictRequest
from tensorflow_serving.apis.prediction_service_pb2_grpc import PredictionServiceStub


def predict(
    channel: grpc.Channel,
    model: str,
    signature: str,
    inputs: dict[str, Any],
    *,
    version: int | None = None,
    label: str | None = None,
    seconds: float = 60.0,
) -> dict[str, list]:
    """Outputs of a signature, by name.

    Args:
        channel: Connection to the server. One serves all requests of a program.
        model: Name of the model.
        signature: Name of the signature.
        inputs: Values by name, each with a row per text.
        version: Optional version of the model. Default: the newest.
        label: Optional label of the version, instead of `version`.
        seconds: Time to wait for the answer.

    Raises:
        ValueError: If an input is empty, or not texts or numbers of one kind, in lists of one length.
        grpc.RpcError: If there is no answer, or it is an error: `code()` and `details()` say which.
    """
    request = PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    if version is not None:
        request.model_spec.version.value = version
    if label is not None:
        request.model_spec.version_label = label
    for name, value in inputs.items():
        if value == []:
            raise ValueError(f"inputs: {name!r} is empty. Expected: at least one row, because no row has no type.")
        try:
            request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
        except (TypeError, ValueError):
            raise ValueError(
                f"inputs: {name!r} is not a tensor. Expected: texts or numbers of one kind, in lists of one length. "
                f"Received: {json.dumps(value)}"
            ) from None
    outputs = PredictionServiceStub(channel).Predict(request, timeout=seconds).outputs
    return {name: plain(tf.make_ndarray(outputs[name]).tolist()) for name in sorted(outputs)}


def plain(value: Any) -> Any:
    """Nested lists with texts instead of bytes, and numbers with six digits."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, bytes):
        return value.decode()
    return float(f"{value:.6g}") if isinstance(value, float) else value


def json_object(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise argparse.ArgumentTypeError(f'expected a JSON object such as {{"prefix": ["the"]}}. Received: {text}')
    return content


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address", metavar="HOST:PORT")
    parser.add_argument("model")
    parser.add_argument("signature")
    parser.add_argument("inputs", type=json_object, help="JSON object: a list for each input")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--version", type=int, help="of the model; default: the newest")
    which.add_argument("--label", help="of a version")
    options = vars(parser.parse_args(arguments))
    with grpc.insecure_channel(options.pop("address")) as channel:
        try:
            print(json.dumps({"outputs": predict(channel, **options)}, ensure_ascii=False))
        except ValueError as error:
            raise SystemExit(f"error: {error}") from None
        except grpc.RpcError as error:
            raise SystemExit(f"error: {error.code().name}: {error.details()}") from None


if __name__ == "__main__":
    main()
