"""Writing traced functions as a SavedModel."""

import functools
from pathlib import Path
from typing import Protocol

import keras
import tensorflow as tf

from keras_tying import backend
from keras_tying.data import Vocabulary
from keras_tying.export.warm_up import write_warm_up
from keras_tying.files import check_replaceable, keep_others, remove_unfinished, replacing

FILES = ("saved_model.pb", "fingerprint.pb", "variables/*", "assets/*")
"""The files of a SavedModel that every export writes. Others are kept.

Warm-up requests are kept if no new ones are written, that is, without tensorflow-serving-api.
"""


class Served(Protocol):
    """A model and its text as traced functions."""

    def endpoints(self) -> dict:
        """Traced functions, by the name of the signature."""

    def module(self) -> tf.Module:
        """The weights and tables that the functions use."""


def check_exportable(model: keras.Model, vocabulary: Vocabulary) -> None:
    """Checks the size of the vocabulary and the backend of Keras.

    Raises:
        ValueError: If they differ in size.
        RuntimeError: If the backend of Keras is not TensorFlow.
    """
    check_backend()
    vocabulary.check_size(model.vocabulary_size)


def check_backend() -> None:
    """Raises RuntimeError if the backend of Keras is not TensorFlow."""
    if not backend.WRITES_SAVED_MODELS:
        raise RuntimeError(
            "Export needs the TensorFlow backend. Load the model with KERAS_BACKEND=tensorflow. "
            f"Received: {backend.NAME}"
        )


def checked(value: tf.Tensor, valid: tf.Tensor, message: str) -> tf.Tensor:
    """A value that no operation of a graph can use before `valid` was found true everywhere.

    In the graph, raises `tf.errors.InvalidArgumentError` with the message if it was not.
    """
    with tf.control_dependencies([tf.debugging.assert_equal(valid, True, message)]):
        return tf.identity(value)


def trace(specs: dict) -> dict:
    """Traces methods with their `tf.TensorSpec`s, each once, by the names of the signatures."""

    @functools.cache
    def traced(method, signature):
        return tf.function(method, input_signature=signature, autograph=False).get_concrete_function()

    return {name: traced(*spec) for name, spec in specs.items()}


def module_of(model: keras.Model, *texts: tf.Module) -> tf.Module:
    """A module with the weights of a model, each once, unlike in `keras.export.ExportArchive`, and with its texts.

    Args:
        model: The model.
        texts: Text modules, such as `TextInGraph`.
    """
    module = tf.Module()
    module.texts = texts
    module.parameters = [weight.value for weight in model.weights]
    return module


def write_saved_model(served: Served, path: str | Path) -> None:
    """Writes a SavedModel, with warm-up requests, to a temporary folder, then replaces `path` with it.

    What a killed export left unfinished is removed first. No other process may be writing to `path`.

    Args:
        served: What is written.
        path: Folder of the SavedModel. An existing one is replaced, but for files that are not its own.

    Raises:
        FileExistsError: If `path` holds something other than a SavedModel.
    """
    path = Path(path)
    remove_unfinished(path.parent, path.name)
    check_replaceable(path, "saved_model.pb")
    signatures = served.endpoints()
    path.parent.mkdir(parents=True, exist_ok=True)
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)  # they are up to a third of a graph
    with replacing(path) as new:
        tf.saved_model.save(served.module(), str(new), signatures=signatures, options=options)
        write_warm_up(signatures, new)
        keep_others(path, new, FILES)
