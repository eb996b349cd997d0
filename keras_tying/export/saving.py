"""Writing traced functions as a SavedModel that needs TensorFlow alone."""

import shutil
from pathlib import Path

import keras
import tensorflow as tf

from keras_tying import backend
from keras_tying.data import Vocabulary


def check_exportable(model: keras.Model, vocabulary: Vocabulary) -> None:
    """Checks that model and vocabulary belong together and Keras runs on TensorFlow.

    Raises:
        ValueError: If they differ in size.
        RuntimeError: If Keras runs on another backend.
    """
    check_backend()
    if len(vocabulary) != model.vocabulary_size:
        raise ValueError(f"The model has {model.vocabulary_size} words. Received: a vocabulary of {len(vocabulary)}.")


def check_backend() -> None:
    """Raises RuntimeError unless Keras runs on TensorFlow."""
    if not backend.WRITES_SAVED_MODELS:
        raise RuntimeError(
            "A SavedModel is written by the TensorFlow backend. Load the model with KERAS_BACKEND=tensorflow. "
            f"Received: {backend.NAME}"
        )


def trace(specs: dict) -> dict:
    """Traced functions by the name of their signature, from methods and their `tf.TensorSpec`s by name."""
    functions = {}
    for name, (method, signature) in specs.items():
        functions[name] = tf.function(method, input_signature=signature, autograph=False)
        functions[name].get_concrete_function()
    return functions


def save_signatures(model: keras.Model, texts: tuple, signatures: dict, path: str | Path) -> None:
    """Writes traced functions, the model's weights and the vocabularies' tables behind them.

    Args:
        model: Its weights are written, each variable once, which keras.export.ExportArchive does not do.
        texts: The `TextInGraph` modules the functions use.
        signatures: Traced functions by name.
        path: Folder to make; replaced if it is there.
    """
    module = tf.Module()
    module.texts = texts
    module.parameters = [weight.value for weight in model.weights]
    write_saved_model(module, signatures, path)


def write_saved_model(module: tf.Module, signatures: dict, path: str | Path) -> None:
    """Writes a module whole, in place of what was there."""
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    tf.saved_model.save(module, str(unfinished), signatures=signatures)
    shutil.rmtree(path, ignore_errors=True)
    unfinished.replace(path)
