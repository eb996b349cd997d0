"""A trained model that answers many requests at once."""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_tying.inference.sentences import similar_lengths
from keras_tying.pretrained import load
from keras_tying.serving.limits import Limits
from keras_tying.serving.replies import Reply, RequestError, answer, error_reply, metadata_reply
from keras_tying.serving.requests import Request, parse_request
from keras_tying.serving.signatures import Signature, signatures_of

log = logging.getLogger(__name__)
BYTES_PER_CALL = 40_000
"""Bytes of text, padding and `BYTES_PER_ROW` included, that are computed per call, if it has several rows."""
BYTES_PER_ROW = 50
"""What a row counts besides its text: its end, the scores of its next word, and the hypotheses of a search."""
ASSERTION = re.compile(r"assertion failed: \[(.*?)\]")
FUNCTION = re.compile(r"\{\{.*?\}\} ")


class ServedModel:
    """A trained model that answers requests to predict, several at once.

    Rows of requests with the same signature and the same numbers are computed together, those of similar length in one
    call. A request that fails does not fail the others.

    Args:
        trained: What `kt.load` returns.
        name: The name that it is served by.
        limits: Limits of a request.

    Attributes:
        name: The name.
        signatures: Its signatures by name.
        metadata: Reply that describes the signatures.

    Raises:
        RuntimeError: If the backend of Keras is not TensorFlow.

    Example:

    >>> import keras_tying as kt
    >>> from keras_tying.serving.model import ServedModel
    >>> words = kt.data.Vocabulary(["king", "queen", "tulip", "<unk>", "<eos>"])
    >>> served = ServedModel(kt.inference.TrainedWordVectors(kt.zoo.skip_gram(5, units=1), words), "words")
    >>> served.answer([b'{"signature_name": "similar_words", "inputs": {"words": [], "k": 1}}', b"no JSON"])[0]
    Reply(status=200, body=b'{"outputs": {"similar": [], "similarity": []}}')
    """

    def __init__(self, trained: Any, name: str, limits: Limits | None = None):
        self.name = name
        self.limits = limits or Limits()
        self.signatures = signatures_of(trained)
        self.metadata: Reply = metadata_reply(name, self.signatures)

    @classmethod
    def load(cls, name: str, source: str, limits: Limits | None = None) -> "ServedModel":
        """Loads a trained model, see `kt.load`, and calls each signature once, which is slower the first time."""
        served = cls(load(source), name, limits)
        for signature in served.signatures.values():
            signature.run({name: [b"0-0"] if spec.batched else 1 for name, spec in signature.inputs.items()})
        return served

    def answer(self, bodies: Sequence[bytes]) -> list[Reply]:
        """Replies to requests to predict, given the bodies of the requests."""
        replies: dict[int, Reply] = {}
        requests: dict[int, Request] = {}
        for place, body in enumerate(bodies):
            try:
                requests[place] = parse_request(body, self.signatures, self.limits)
            except RequestError as error:
                replies[place] = error_reply(error.status, str(error))
        for places in _together(requests):
            replies.update(zip(places, self._computed([requests[place] for place in places]), strict=True))
        return [replies[place] for place in range(len(bodies))]

    def _computed(self, requests: Sequence[Request]) -> list[Reply]:
        """Replies to requests that can be computed together; each alone, if that fails."""
        try:
            outputs = compute(requests)
        except Exception as error:
            if len(requests) > 1:
                return [reply for request in requests for reply in self._computed([request])]
            if isinstance(error, RequestError):
                return [error_reply(error.status, str(error))]
            if isinstance(error, tf.errors.InvalidArgumentError):
                return [error_reply(400, _message(error))]
            log.exception(f"{self.name} failed")
            return [error_reply(500, "The model failed. Its log has the reason.")]
        return [answer(each, request.by_row) for each, request in zip(outputs, requests, strict=True)]


def _together(requests: Mapping[int, Request]) -> Iterable[list[int]]:
    """Places of requests that can be computed together."""
    groups: dict[Any, list[int]] = {}
    for place, request in requests.items():
        signature = request.signature
        numbers = tuple(request.inputs[name] for name in signature.shared)
        groups.setdefault((signature.name, numbers) if signature.merges else place, []).append(place)
    return groups.values()


def compute(requests: Sequence[Request]) -> list[dict[str, np.ndarray]]:
    """Outputs of requests that have one signature and the same numbers."""
    first = requests[0]
    signature = first.signature
    inputs = {name: [value for request in requests for value in request.inputs[name]] for name in signature.batched} | {
        name: first.inputs[name] for name in signature.shared
    }
    outputs = _in_parts(signature, inputs) if signature.merges else signature.run(inputs)
    ends = np.cumsum([request.rows for request in requests])[:-1]
    parts = {name: np.split(output, ends) for name, output in outputs.items()}
    return [{name: part[i] for name, part in parts.items()} for i in range(len(requests))]


def _in_parts(signature: Signature, inputs: dict[str, Any]) -> dict[str, np.ndarray]:
    """Outputs of many rows, computed in parts of similar length."""
    rows = zip(*(inputs[name] for name in signature.batched), strict=True)
    lengths = [BYTES_PER_ROW + sum(map(len, row)) for row in rows]
    parts = list(similar_lengths(lengths, BYTES_PER_CALL)) or [[]]
    computed = [
        signature.run(inputs | {name: [inputs[name][row] for row in part] for name in signature.batched})
        for part in parts
    ]
    order = np.argsort(np.concatenate(parts), kind="stable").astype(np.intp)
    return {name: np.concatenate([each[name] for each in computed])[order] for name in signature.outputs}


def _message(error: tf.errors.InvalidArgumentError) -> str:
    """The reason in one line, without the names of operations."""
    if found := ASSERTION.search(error.message):
        return found[1]
    before_operations = error.message.partition("\n\t [[")[0]
    return FUNCTION.sub("", before_operations.strip().rpartition("\n")[2])
