"""Signatures of trained models: the functions that a SavedModel has, in memory."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_tying.data.subwords import LONGEST_SENTENCE
from keras_tying.export.trained import served
from keras_tying.inference import TrainedTranslator
from keras_tying.serving.replies import RequestError

DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
ATTENTION = "attention"
LARGEST_ANSWER = 1_000_000
"""Numbers and texts in the answer to a request, padding included: some hundred bytes of memory each."""
Inputs = Mapping[str, Any]
Outputs = dict[str, np.ndarray]


class Spec(NamedTuple):
    """Type and shape of an input or output; `None` is any size."""

    dtype: str
    shape: tuple[int | None, ...]

    @property
    def batched(self) -> bool:
        """Whether there is a value for each row."""
        return bool(self.shape)


@dataclass(frozen=True)
class Signature:
    """A function of a model.

    Attributes:
        name: Name of the signature.
        inputs: Type and shape of each input.
        outputs: Type and shape of each output, all batched.
        run: Computes the outputs of inputs.
        owner: Object with the tables of the text, which a traced function does not keep alive.
    """

    name: str
    inputs: Mapping[str, Spec]
    outputs: Mapping[str, Spec]
    run: Callable[[Inputs], Outputs]
    owner: Any = None

    @cached_property
    def batched(self) -> list[str]:
        """Names of the inputs that have a value for each row."""
        return [name for name, spec in self.inputs.items() if spec.batched]

    @cached_property
    def shared(self) -> list[str]:
        """Names of the inputs that have one value for all rows."""
        return [name for name, spec in self.inputs.items() if not spec.batched]

    @cached_property
    def width(self) -> int:
        """Numbers and texts of each row of the answer, those of outputs of any width not counted."""
        return sum(math.prod(size or 0 for size in spec.shape[1:]) for spec in self.outputs.values())

    @cached_property
    def merges(self) -> bool:
        """Whether requests can be computed together.

        Not so if text is drawn, because a draw depends on the place of a row, or if the width of the answer depends on
        all rows.
        """
        texts = all(self.inputs[name].dtype == "string" for name in self.batched)
        return texts and "seed" not in self.inputs and self.name != ATTENTION


def check_size(rows: int, width: int) -> None:
    """Checks the size of an answer before it is computed.

    Raises:
        RequestError: With the status 413, if it is too large.
    """
    if rows * width > LARGEST_ANSWER:
        raise RequestError(
            413,
            f"An answer has at most {LARGEST_ANSWER:,} numbers, padding included. Received: {rows} rows of {width:,} "
            "each. Ask for fewer rows or shorter texts.",
        )


def signatures_of(trained: Any) -> dict[str, Signature]:
    """The signatures of a trained model by name: those of its SavedModel; a translator has `attention` besides.

    Args:
        trained: What `kt.load` returns.

    Raises:
        RuntimeError: If the backend of Keras is not TensorFlow.
    """
    owner = served(trained)
    signatures = {name: _traced(name, function, owner) for name, function in owner.endpoints().items()}
    if isinstance(trained, TrainedTranslator):
        signatures["attention"] = _attention(trained)
    return signatures


def _traced(name: str, function: Any, owner: Any) -> Signature:
    """A traced method as a signature."""
    inputs = {key: _spec(each.type_constraint) for key, each in function.function_type.parameters.items()}

    def run(values: Inputs) -> Outputs:
        tensors = [_tensor(values[key], spec) for key, spec in inputs.items()]
        return {key: output.numpy() for key, output in function(*tensors).items()}

    outputs = {key: _spec(output) for key, output in sorted(function.structured_outputs.items())}
    return Signature(name, inputs, outputs, run, owner)


def _spec(tensor: Any) -> Spec:
    """The `Spec` of an input or output. An option, of any rank in a SavedModel, is one value for all rows here."""
    return Spec(tensor.dtype.name, () if tensor.shape.rank is None else tuple(tensor.shape))


def _tensor(value: Any, spec: Spec) -> tf.Tensor:
    return tf.constant(value, spec.dtype, shape=[len(value)] if spec.batched else [])


def _attention(trained: TrainedTranslator) -> Signature:
    """Attention weights of translations; rows are padded with empty subwords, whose weights are 0."""
    texts = Spec("string", (None,))
    inputs = {"sentences": texts, "translations": texts}
    outputs = {
        "source": Spec("string", (None, None)),
        "translation": Spec("string", (None, None)),
        "weights": Spec("float32", (None, None, None)),
    }

    def run(values: Inputs) -> Outputs:
        texts = [[each.decode() for each in values[name]] for name in ("sentences", "translations")]
        longest = [max((len(trained.subwords.encode(each)) for each in side), default=0) for side in texts]
        check_size(len(texts[0]), min(longest[0], LONGEST_SENTENCE + 1) * longest[1])  # more of a source is not read
        found = [trained.attention(source, translation) for source, translation in zip(*texts, strict=True)]
        rows, sizes = len(found), np.array([each.weights.shape for each in found] or [(0, 0)]).max(axis=0)
        source = np.full((rows, sizes[1]), "", dtype=object)
        translation = np.full((rows, sizes[0]), "", dtype=object)
        weights = np.zeros((rows, *sizes), np.float32)
        for row, each in enumerate(found):
            source[row, : len(each.source)] = each.source
            translation[row, : len(each.translation)] = each.translation
            weights[row, : len(each.translation), : len(each.source)] = each.weights
        return {"source": source, "translation": translation, "weights": weights}

    return Signature(ATTENTION, inputs, outputs, run)
