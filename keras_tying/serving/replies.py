"""Replies to requests: answers, the status and the signatures of a model, and errors, as JSON."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from keras_tying.serving.signatures import Signature, Spec

VERSION = 1
"""The version of every model. TensorFlow Serving can have several."""


class Reply(NamedTuple):
    """A status of HTTP and the JSON of the reply's body."""

    status: int
    body: bytes


class RequestError(Exception):
    """A request that cannot be answered.

    Attributes:
        status: Status of HTTP: 400 (wrong), 404 (no such model) or 413 (too large).
    """

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


def reply(content: Any, status: int = 200) -> Reply:
    return Reply(status, json.dumps(content, ensure_ascii=False).encode())


def error_reply(status: int, message: str) -> Reply:
    return reply({"error": message}, status)


def answer(outputs: Mapping[str, np.ndarray], by_row: bool) -> Reply:
    """The outputs of a signature.

    Args:
        outputs: Arrays `[B, ...]` by name.
        by_row: Whether the request had `instances`: one value per row, not per output.
    """
    values = {name: plain(output) for name, output in outputs.items()}
    if not by_row:
        return reply({"outputs": values if len(values) > 1 else next(iter(values.values()))})
    rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    return reply({"predictions": rows if len(values) > 1 else next(iter(values.values()))})


def plain(values: np.ndarray) -> list:
    """An array as nested lists. Numbers have nine digits, which is all that a float32 has."""
    flat: list
    if values.dtype.kind == "f":
        flat = [float(f"{value:.9g}") for value in values.ravel().tolist()]
    elif values.dtype.kind in "OS":
        flat = [text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in values.ravel()]
    else:
        return values.tolist()
    return np.array(flat, dtype=object).reshape(values.shape).tolist()


def status_reply() -> Reply:
    """The status of a model that can be asked."""
    status = {"error_code": "OK", "error_message": ""}
    return reply({"model_version_status": [{"version": str(VERSION), "state": "AVAILABLE", "status": status}]})


def metadata_reply(model: str, signatures: Mapping[str, "Signature"]) -> Reply:
    """The signatures of a model, as TensorFlow Serving describes those of a SavedModel."""
    described = {
        name: {
            "inputs": {key: _described(key, spec) for key, spec in signature.inputs.items()},
            "outputs": {key: _described(key, spec) for key, spec in signature.outputs.items()},
            "method_name": "tensorflow/serving/predict",
            "defaults": {},
        }
        for name, signature in signatures.items()
    }
    specification = {"name": model, "signature_name": "", "version": str(VERSION)}
    return reply({"model_spec": specification, "metadata": {"signature_def": {"signature_def": described}}})


def _described(name: str, spec: "Spec") -> dict[str, Any]:
    sizes = [{"size": str(-1 if size is None else size), "name": ""} for size in spec.shape]
    return {
        "dtype": TYPES[spec.dtype],
        "tensor_shape": {"dim": sizes, "unknown_rank": False},
        "name": f"{name}:0",
    }


TYPES = {
    "string": "DT_STRING",
    "int32": "DT_INT32",
    "int64": "DT_INT64",
    "float32": "DT_FLOAT",
    "bool": "DT_BOOL",
}
"""Names of types in TensorFlow Serving's replies."""
