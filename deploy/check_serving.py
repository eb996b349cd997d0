#!/usr/bin/env python3
"""Replays the curl commands of docs/serving.md against a server and compares its answers with the page.

python deploy/check_serving.py http://localhost:8501 --grpc localhost:8500

`--grpc` also asks by gRPC, with `tensorflow_serving/grpc_client.py`, the requests that have `inputs`. REST needs only
Python. Numbers may differ by rounding. An error needs only to contain the text on the page, because TensorFlow Serving
adds names of its graph. A command without an answer on the page must succeed.
"""

import argparse
import json
import re
import shlex
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

PAGE = Path(__file__).parents[1] / "docs" / "serving.md"
ADDRESS = "http://localhost:8501"
"""The address on the page."""
BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PREDICT = re.compile(r"/v1/models/(\w+)(?:/(version|label)s/(\w+))?:predict")
CALL = re.compile(r"^\$ (curl .*\n(?: +.*\n)*)((?:[^$\n].*\n)*)", re.MULTILINE)
"""A command, which goes on in lines that begin with a space, and its answer."""


class Call(NamedTuple):
    """A curl command of the page: its path, its data (`None` for GET), and the answer on the page."""

    path: str
    data: str | None
    answer: str


def calls(page: str) -> Iterator[Call]:
    """The curl commands of a page.

    Raises:
        ValueError: If a command has other arguments than `-d DATA` and an address.
    """
    for block in BLOCK.findall(page):
        for command, answer in CALL.findall(block):
            match shlex.split(command.replace("\\\n", "")):
                case ["curl", "-d", data, address] if address.startswith(ADDRESS):
                    yield Call(address.removeprefix(ADDRESS), data, answer.strip())
                case ["curl", address] if address.startswith(ADDRESS):
                    yield Call(address.removeprefix(ADDRESS), None, answer.strip())
                case _:
                    raise ValueError(f"A command must be: curl [-d DATA] {ADDRESS}/PATH. Received: {command}")


def ask(address: str, call: Call, seconds: float = 120.0) -> str:
    """What the server answers, also if that is an error.

    Raises:
        OSError: If there is no answer.
    """
    data = None if call.data is None else call.data.encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(address + call.path, data), timeout=seconds) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        text = error.read().decode()
        if not call.answer:
            raise OSError(f"status {error.code}: {text}") from None
        return text


def ask_by_grpc(address: str, call: Call) -> str:
    """What the server answers by gRPC to a request with `inputs`, in the form of REST.

    Raises:
        OSError: If there is no answer.
    """
    import grpc

    sys.path.insert(0, str(Path(__file__).parent / "tensorflow_serving"))
    from grpc_client import predict

    model, kind, which = PREDICT.fullmatch(call.path).groups()
    chosen = {kind: int(which) if kind == "version" else which} if kind else {}
    request = json.loads(call.data)
    with grpc.insecure_channel(address) as channel:
        try:
            outputs = predict(channel, model, request["signature_name"], request["inputs"], **chosen)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.INVALID_ARGUMENT:
                return json.dumps({"error": error.details()})
            raise OSError(f"{error.code().name}: {error.details()}") from None
    return json.dumps({"outputs": outputs})


def differs(expected: Any, received: Any, tolerance: float) -> str | None:
    """Where two JSON values differ first, or `None`."""
    if isinstance(expected, dict) and isinstance(received, dict):
        if expected.keys() != received.keys():
            return f"expected the keys {sorted(expected)}, received {sorted(received)}"
        if expected.keys() == {"error"}:
            return None if expected["error"] in received["error"] else f"expected {expected}, received {received}"
        parts = [(name, expected[name], received[name]) for name in expected]
    elif isinstance(expected, list) and isinstance(received, list):
        if len(expected) != len(received):
            return f"expected {len(expected)} values, received {len(received)}"
        parts = [(str(i), *pair) for i, pair in enumerate(zip(expected, received, strict=True))]
    else:
        numbers = all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in (expected, received))
        same = abs(expected - received) <= tolerance * max(abs(expected), 1e-3) if numbers else expected == received
        return None if same else f"expected {expected!r}, received {received!r}"
    for name, *pair in parts:
        if found := differs(*pair, tolerance):
            return f"{name}: {found}"
    return None


def problem(answer_to: Callable[[Call], str], call: Call, tolerance: float) -> str | None:
    """What is wrong with the answer to a command, or `None`."""
    try:
        received = answer_to(call)
    except OSError as error:
        return f"no answer: {error}"
    if not call.answer:
        return None
    try:
        return differs(json.loads(call.answer), json.loads(received), tolerance)
    except json.JSONDecodeError:
        return f"expected JSON, received {received!r}"


def wait_for(address: str, paths: list[str], seconds: float) -> None:
    """Waits until the models at some paths can be asked, or the time is over."""
    deadline = time.monotonic() + seconds
    for path in paths:
        while time.monotonic() < deadline:
            try:
                if '"AVAILABLE"' in ask(address, Call(path, None, ""), seconds=5):
                    break
            except OSError:
                pass
            time.sleep(1)


def main(arguments: list[str] | None = None) -> int:
    """Returns 0 if all answers are those of the page, else 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address", metavar="ADDRESS", help=f"of the server, for example {ADDRESS}")
    parser.add_argument("--grpc", metavar="HOST:PORT", help="asks by gRPC too")
    parser.add_argument("--page", type=Path, default=PAGE, help="Markdown page with the commands")
    parser.add_argument("--wait", type=float, default=0.0, metavar="SECONDS", help="for the models to be loaded")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="relative difference of numbers")
    options = parser.parse_args(arguments)
    address = options.address.rstrip("/")
    found = list(calls(options.page.read_text(encoding="utf-8")))
    if not found:
        print(f"error: {options.page} has no curl commands", file=sys.stderr)
        return 1
    wait_for(address, sorted({call.path.partition(":")[0] for call in found if call.data}), options.wait)
    asked = [("REST", partial(ask, address), call) for call in found]
    if options.grpc:
        by_column = [call for call in found if "inputs" in json.loads(call.data or "{}")]
        asked += [("gRPC", partial(ask_by_grpc, options.grpc), call) for call in by_column]
    failed = 0
    for way, answer_to, call in asked:
        what = problem(answer_to, call, options.tolerance)
        failed += what is not None
        print(f"{'ok' if what is None else 'DIFFERS'}  {way}  {call.path}  {call.data or ''}")
        if what:
            print(f"    {what}")
    print(f"{len(asked) - failed} of {len(asked)} answers are those of {options.page.name}")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
