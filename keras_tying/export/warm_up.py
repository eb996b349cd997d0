"""Warm-up requests, which TensorFlow Serving runs on a model before it serves it."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_tying.extras import require

FILE = "assets.extra/tf_serving_warmup_requests"
EXAMPLES: dict[str, Any] = {
    **dict.fromkeys(("sentences", "prefix", "source", "history", "words"), "the value"),
    "alignment": "0-0",
    "k": 5,
    "length": 5,
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "seed": 0,
}
"""A value of each input of a signature, by its name."""


def write_warm_up(signatures: dict, path: Path) -> None:
    """Writes one request for each signature into a SavedModel, if tensorflow-serving-api is installed.

    Args:
        signatures: Traced functions, by name.
        path: Folder of the SavedModel.

    Reference:
        https://www.tensorflow.org/tfx/serving/saved_model_warmup
    """
    if find_spec("tensorflow_serving") is None:
        return
    (path / FILE).parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path / FILE)) as writer:
        for name, function in signatures.items():
            writer.write(request_log(name, example_inputs(function)).SerializeToString())


def example_inputs(function: tf.types.experimental.ConcreteFunction) -> dict[str, tf.Tensor]:
    """Inputs of a traced function: a batch of one row.

    Numbers have a row too. A server that joins requests in batches takes no others, and does not load a model whose
    warm-up fails.
    """
    parameters = function.function_type.parameters
    return {
        name: tf.constant([EXAMPLES[name]], parameter.type_constraint.dtype) for name, parameter in parameters.items()
    }


def request_log(signature: str, inputs: dict[str, tf.Tensor]) -> Any:
    """A `PredictionLog` of one request.

    Raises:
        ModuleNotFoundError: If tensorflow-serving-api is not installed.
    """
    apis = require("tensorflow_serving.apis.prediction_log_pb2", "serving")
    log = apis.PredictionLog()
    request = log.predict_log.request
    request.model_spec.signature_name = signature
    for name, value in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    return log
