"""Requests to predict: JSON as TensorFlow Serving takes it, checked against a signature and limits."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from keras_tying.serving.limits import Limits
from keras_tying.serving.replies import RequestError
from keras_tying.serving.signatures import DEFAULT, Signature, Spec, check_size
from keras_tying.tables import parse_json

COUNTS = ("k", "length")
"""Inputs that say how many words are asked for."""
INTEGERS = ("int32", "int64")
RANGES = {name: (np.iinfo(name).min, np.iinfo(name).max) for name in INTEGERS} | {
    "float32": (float(np.finfo("float32").min), float(np.finfo("float32").max))
}
"""The least and the greatest number of each type."""


class Request(NamedTuple):
    """A request to predict.

    Attributes:
        signature: The signature that it names.
        inputs: A list of `rows` values for each batched input, one value for each other input.
        rows: Number of rows.
        by_row: Whether the answer is by row (`instances`) or by output (`inputs`).
    """

    signature: Signature
    inputs: dict[str, Any]
    rows: int
    by_row: bool


def parse_request(body: bytes, signatures: Mapping[str, Signature], limits: Limits) -> Request:
    """Reads `{"signature_name": ..., "inputs": ...}` or `{"signature_name": ..., "instances": ...}`.

    Args:
        body: JSON. `inputs` has a list for each batched input and a value for each other one; or it is the list, if
            there is one input. `instances` has an object, or the value of the one input, for each row.
        signatures: The signatures of the model, by name.
        limits: See `Limits`.

    Raises:
        RequestError: With the status 400 if the request is wrong, 413 if it is beyond a limit.
    """
    content = _parse_json(body)
    signature = _signature(content.get("signature_name", DEFAULT), signatures)
    if len({"inputs", "instances"} & content.keys()) != 1:
        raise _wrong("a request has one of the keys 'inputs' and 'instances'", sorted(content))
    by_row = "instances" in content
    inputs = _by_row(content["instances"], signature, limits) if by_row else _by_input(content["inputs"], signature)
    rows = _rows(signature, inputs)
    if rows > limits.sentences:
        raise RequestError(413, f"A request has at most {limits.sentences} rows. Received: {rows}. Send several.")
    check_size(rows, signature.width)
    for name, spec in signature.inputs.items():
        place = inputs[name]
        inputs[name] = (
            [_value(name, spec, each, limits) for each in place] if spec.batched else _value(name, spec, place, limits)
        )
    return Request(signature, inputs, rows, by_row)


def _parse_json(body: bytes) -> dict[str, Any]:
    try:
        content = parse_json(body)
    except ValueError as error:
        raise RequestError(400, f"Expected JSON. Received: {_short(body)} ({error})") from None
    if not isinstance(content, dict):
        raise _wrong("a request is a JSON object", content)
    return content


def _signature(name: Any, signatures: Mapping[str, Signature]) -> Signature:
    name = DEFAULT if name == "" else name
    if not isinstance(name, str) or name not in signatures:
        raise _wrong(f"'signature_name' is one of {', '.join(signatures)}", name)
    return signatures[name]


def _by_input(inputs: Any, signature: Signature) -> dict[str, Any]:
    """The inputs by name, of a request with `inputs`."""
    names = list(signature.inputs)
    if not isinstance(inputs, dict) or _is_base64(inputs):
        if len(names) > 1:
            raise _wrong(f"'inputs' is an object with the keys {', '.join(names)}", inputs)
        inputs = {names[0]: inputs}
    if inputs.keys() != signature.inputs.keys():
        raise _wrong(f"'inputs' has the keys {', '.join(names)}", sorted(inputs))
    return dict(inputs)


def _by_row(instances: Any, signature: Signature, limits: Limits) -> dict[str, Any]:
    """The inputs by name, of a request with `instances`."""
    if not isinstance(instances, list) or not instances:
        raise _wrong("'instances' is a list of at least one row", instances)
    names = list(signature.inputs)
    rows = []
    for row in instances:
        if not isinstance(row, dict) or _is_base64(row):
            if len(names) > 1:
                raise _wrong(f"a row of 'instances' is an object with the keys {', '.join(names)}", row)
            row = {names[0]: row}
        if row.keys() != signature.inputs.keys():
            raise _wrong(f"a row of 'instances' has the keys {', '.join(names)}", sorted(row))
        rows.append(row)
    return {name: _column(name, spec, [row[name] for row in rows], limits) for name, spec in signature.inputs.items()}


def _column(name: str, spec: Spec, values: list, limits: Limits) -> Any:
    """The values of an input of all rows; of an option the one value that all rows have."""
    if spec.batched:
        return values
    checked = [_value(name, spec, value, limits) for value in values]
    if any(value != checked[0] for value in checked):
        raise _wrong(f"all rows of a request have the same {name!r}; send several requests", values)
    return values[0]


def _rows(signature: Signature, inputs: dict[str, Any]) -> int:
    """Number of rows, which all batched inputs share."""
    counts = {}
    for name, spec in signature.inputs.items():
        if spec.batched:
            if not isinstance(inputs[name], list):
                raise _wrong(f"{name!r} is a list", inputs[name])
            counts[name] = len(inputs[name])
    if len(set(counts.values())) > 1:
        raise _wrong("all lists have one length", counts)
    return next(iter(counts.values()))


def _value(name: str, spec: Spec, value: Any, limits: Limits) -> Any:
    """One value of an input, checked."""
    if spec.dtype == "string":
        return _text(name, value, limits)
    integer = spec.dtype in INTEGERS
    least, most = RANGES[spec.dtype]
    if isinstance(value, bool) or not isinstance(value, int if integer else (int, float)):
        raise _wrong(f"{name!r} is {'an integer' if integer else 'a number'}", value)
    if not least <= value <= most:
        raise _wrong(f"{name!r} is a number of the type {spec.dtype}", value)
    if name in COUNTS and value > limits.words:
        raise RequestError(413, f"{name!r} is at most {limits.words}. Received: {value}")
    return value


def _text(name: str, value: Any, limits: Limits) -> bytes:
    if _is_base64(value):
        try:
            text = base64.b64decode(value["b64"], validate=True).decode()
        except (binascii.Error, TypeError, ValueError):
            raise _wrong(f"{name!r} is UTF-8 in base64", value["b64"]) from None
    elif isinstance(value, str):
        text = value
    else:
        raise _wrong(f"{name!r} is a string", value)
    if len(text) > limits.characters:
        raise RequestError(413, f"A text has at most {limits.characters:,} characters. Received: {len(text):,}")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise _wrong(f"{name!r} is valid Unicode", text) from None


def _is_base64(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"b64"}


def _wrong(expected: str, received: Any) -> RequestError:
    return RequestError(400, f"Expected: {expected}. Received: {_short(received)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
