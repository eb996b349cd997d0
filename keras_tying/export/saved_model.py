"""What every export checks, and how it writes."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import keras
import tensorflow as tf

from keras_tying.data import Vocabulary


def check_exportable(model: keras.Model, vocabulary: Vocabulary) -> None:
    """Checks that model and vocabulary belong together and Keras runs on TensorFlow.

    Raises:
        ValueError: If they differ in size.
        RuntimeError: If Keras runs on another backend.
    """
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "A SavedModel is written by the TensorFlow backend. Load the model with KERAS_BACKEND=tensorflow. "
            f"Received: {keras.backend.backend()}"
        )
    if len(vocabulary) != model.vocabulary_size:
        raise ValueError(f"The model has {model.vocabulary_size} words. Received: a vocabulary of {len(vocabulary)}.")


def write_saved_model(module: tf.Module, path: str | Path, signatures: Mapping) -> None:
    """Writes a SavedModel whole, in place of what was there."""
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    tf.saved_model.save(module, str(unfinished), signatures=signatures)
    shutil.rmtree(path, ignore_errors=True)
    unfinished.replace(path)
