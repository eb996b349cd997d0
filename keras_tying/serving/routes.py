"""Addresses of models, as TensorFlow Serving has them."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from keras_tying.serving.replies import VERSION, RequestError

NAME = "[^/:]+"
PREDICT = re.compile(rf"/v1/models/(?P<model>{NAME})(/versions/(?P<version>\d+))?(:predict)?")
STATUS = re.compile(rf"/v1/models/(?P<model>{NAME})(/versions/(?P<version>\d+))?(?P<metadata>/metadata)?")
MODELS = "/v1/models"


def named_sources(arguments: Sequence[str]) -> dict[str, str]:
    """The source of each model that a service is started with, by the name that is in its address.

    Args:
        arguments: `NAME`, a trained model of the zoo, or `NAME=FOLDER`.

    Raises:
        ValueError: If a name cannot be in an address, or is given twice.

    Example:

    >>> named_sources(["word2vec", "mine=runs/mine"])
    {'word2vec': 'word2vec', 'mine': 'runs/mine'}
    """
    sources: dict[str, str] = {}
    for argument in arguments:
        name, _, folder = argument.partition("=")
        if not re.fullmatch(NAME, name) or name in sources:
            raise ValueError(f"Expected NAME or NAME=FOLDER, each name once and without / and :. Received: {argument}")
        sources[name] = folder or name
    return sources


class Route(NamedTuple):
    """What is asked of a model.

    Attributes:
        action: `"predict"`, `"status"`, `"metadata"`; or `"models"`, for the names of all models.
        model: Name of the model; empty for `"models"`.
    """

    action: str
    model: str = ""


def parse_route(method: str, path: str) -> Route:
    """What a request asks for.

    Raises:
        RequestError: With the status 400 if there is no such address, 404 if there is no such version.

    Example:

    >>> from keras_tying.serving.routes import parse_route
    >>> parse_route("POST", "/v1/models/word2vec:predict")
    Route(action='predict', model='word2vec')
    """
    if method == "GET" and path.rstrip("/") == MODELS:
        return Route("models")
    pattern = {"POST": PREDICT, "GET": STATUS}.get(method)
    found = pattern.fullmatch(path) if pattern else None
    if found is None:
        raise RequestError(
            400,
            f"Malformed request: {method} {path}. Expected: POST {MODELS}/NAME:predict, GET {MODELS}/NAME or "
            f"GET {MODELS}/NAME/metadata",
        )
    model, version = found["model"], found["version"]
    if version is not None and version.lstrip("0") != str(VERSION):
        raise RequestError(404, f"Servable not found for request: Specific({model}, {version})")
    if method == "POST":
        return Route("predict", model)
    return Route("metadata" if found["metadata"] else "status", model)
