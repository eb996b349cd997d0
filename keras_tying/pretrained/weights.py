"""A model as two files: its configuration, and its weights in half precision."""

import json
from pathlib import Path

import keras
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from keras_tying.files import write_atomically
from keras_tying.zoo.presets import MODEL, WEIGHTS


def write_model(model: keras.Model, folder: Path) -> None:
    """Writes `model.json` and `model.safetensors`. Float weights are rounded to half precision.

    Raises:
        ValueError: If two weights have one path, by which they are stored.
    """
    config = keras.saving.serialize_keras_object(model)
    config.pop("compile_config", None)
    write_atomically(folder / MODEL, (json.dumps(config, indent=1) + "\n").encode())
    values = {variable.path: _rounded(keras.ops.convert_to_numpy(variable)) for variable in model.weights}
    if len(values) < len(model.weights):
        paths = [variable.path for variable in model.weights]
        raise ValueError(f"The weights of {model.name!r} need different paths. Received: {paths}")
    write_atomically(folder / WEIGHTS, save(values))


def _rounded(values: np.ndarray) -> np.ndarray:
    """Half precision of single precision, unless a value is beyond its range, as counts can be."""
    values = np.ascontiguousarray(values)
    fits = values.dtype == np.float32 and np.all(np.abs(values) <= np.finfo(np.float16).max)
    return values.astype(np.float16) if fits else values


def read_model(folder: Path) -> keras.Model:
    """Reads what `write_model` wrote. Nothing in the files is run: no pickle, and Keras's safe mode is on.

    Raises:
        ValueError: If a file is damaged, or they do not belong together.
    """
    try:
        model = keras.saving.deserialize_keras_object(json.loads((folder / MODEL).read_bytes()))
        if not isinstance(model, keras.Model):
            raise TypeError(f"{MODEL} is not the configuration of a model")
        values = load_file(folder / WEIGHTS)
    except (ValueError, TypeError, LookupError, AttributeError, OSError, RecursionError, SafetensorError) as error:
        raise ValueError(f"The model in {folder} cannot be read: {' '.join(str(error).split())}") from error
    expected = {variable.path: tuple(variable.shape) for variable in model.weights}
    received = {path: value.shape for path, value in values.items()}
    if expected != received:
        differ = sorted(set(expected.items()) ^ set(received.items()))[0]
        raise ValueError(f"{folder / WEIGHTS} has not the weights of {MODEL}: {differ[0]} {differ[1]} is in one only.")
    for variable in model.weights:
        variable.assign(values[variable.path].astype(variable.dtype))
    return model
