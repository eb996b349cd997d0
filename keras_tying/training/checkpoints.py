"""Checkpoint files: written atomically, checked by SHA-256, on every backend."""

import errno
import hashlib
import json
import logging
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
from pydantic import Field
from safetensors import SafetensorError
from safetensors.numpy import load, save

from keras_tying.backend.compilation import write_back
from keras_tying.backend.replicas import build_optimizer, has_own_rows, replicas_of, rows_of_all, set_rows_of_all
from keras_tying.files import waiting_for, write_atomically
from keras_tying.tables import Table, parse_json, validate_table

NUMBER = re.compile(r"_\d+(?=[/_]|$)")
"""Number of a layer in the path of a variable. Keras counts the layers of a process."""

CHECKPOINT = re.compile(r"checkpoint-\d{6,}\.safetensors")
"""Name of a checkpoint's file."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """Values of all variables of a model and its optimizer, and the progress of the run."""

    values: dict[str, np.ndarray]
    progress: dict[str, Any]


class Entry(Table):
    """A checkpoint as listed in `index.json`."""

    number: int = Field(ge=0)
    file: str
    sha256: str
    progress: dict[str, Any]


class CheckpointStore:
    """A folder that keeps the newest checkpoints.

    Each file is written atomically and listed with its SHA-256 in `index.json`. A truncated or changed file is skipped
    in favour of the one before it. `save` and `keep_only` wait for a folder that is away, as when a shared file system
    is not reached.

    Args:
        folder: Created if it does not exist.
        keep: Number of checkpoints to keep.
    """

    def __init__(self, folder: Path, keep: int = 3):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.keep = keep
        self._has_index = self.index.exists()

    @property
    def index(self) -> Path:
        return self.folder / "index.json"

    def _path(self, number: int) -> Path:
        return self.folder / f"checkpoint-{number:06d}.safetensors"

    def _entries(self) -> list[Entry]:
        if not self.index.exists():
            if self._has_index:  # else earlier checkpoints would be forgotten once it is back
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.index))
            return []
        try:
            listed = parse_json(self.index.read_bytes())
            if not isinstance(listed, list):
                raise ValueError(f"expected a list, received {type(listed).__name__}")
            entries = [validate_table(Entry, each, f"entry {place}") for place, each in enumerate(listed)]
            for entry in entries:
                if entry.file != self._path(entry.number).name:
                    raise ValueError(f"expected the file {self._path(entry.number).name}, received {entry.file!r}")
        except ValueError as error:
            raise ValueError(
                f"{self.index} is not an index of checkpoints: {error}. Restore it. Without it the run can only start "
                "again, with --from-scratch, after its folders checkpoints and, if there is one, best are moved away."
            ) from None
        return entries

    def save(self, checkpoint: Checkpoint) -> Path:
        """Writes a checkpoint, then removes the oldest ones beyond `keep`.

        Raises:
            OSError: If the disk is full, or the folder stays away; earlier checkpoints are untouched.
            ValueError: If `index.json` is not an index of checkpoints in this folder.
        """
        return waiting_for(self.folder, lambda: self._save(checkpoint))

    def _save(self, checkpoint: Checkpoint) -> Path:
        entries = self._entries()
        number = entries[-1].number + 1 if entries else 0
        path = self._path(number)
        content = save(checkpoint.values)
        write_atomically(path, content)
        sha256 = hashlib.sha256(content).hexdigest()
        entries.append(Entry(number=number, file=path.name, sha256=sha256, progress=checkpoint.progress))
        self._list(entries[-self.keep :])
        return path

    def _list(self, entries: list[Entry]) -> None:
        """Writes the index, then removes all other checkpoints, also those that an earlier call could not remove."""
        write_atomically(self.index, json.dumps([entry.model_dump() for entry in entries], indent=1).encode())
        self._has_index = True
        listed = {entry.file for entry in entries}
        with suppress(OSError):  # the next call removes them
            for path in self.folder.iterdir():
                if CHECKPOINT.fullmatch(path.name) and path.name not in listed:
                    path.unlink(missing_ok=True)

    def keep_only(self, accepts: Callable[[dict[str, Any]], bool]) -> None:
        """Removes the checkpoints whose progress is not accepted. It waits and raises as `save` does."""
        waiting_for(self.folder, lambda: self._keep_only(accepts))

    def _keep_only(self, accepts: Callable[[dict[str, Any]], bool]) -> None:
        entries = self._entries()
        kept = [entry for entry in entries if accepts(entry.progress)]
        if len(kept) < len(entries):
            self._list(kept)

    def newest(self, accepts: Callable[[dict[str, Any]], bool] = lambda progress: True) -> Checkpoint | None:
        """The newest intact checkpoint, or `None`. Damaged ones are named in a warning.

        Args:
            accepts: Checkpoints with other progress are passed over.

        Raises:
            ValueError: If `index.json` is not an index of checkpoints in this folder.
        """
        for entry in reversed([each for each in self._entries() if accepts(each.progress)]):
            path = self._path(entry.number)
            try:
                if path.is_symlink() or not path.is_file():
                    raise OSError("it is missing or not a file of this folder")
                content = path.read_bytes()
                if hashlib.sha256(content).hexdigest() != entry.sha256:
                    raise ValueError("its SHA-256 is not the one recorded")
                return Checkpoint(load(content), entry.progress)
            except (OSError, ValueError, SafetensorError) as problem:
                log.warning("Checkpoint %s is damaged (%s); falling back to the one before it.", path, problem)
        return None


def read_variables(model: keras.Model) -> dict[str, np.ndarray]:
    """Values of all variables of a compiled model and its optimizer: weights, seeds, recurrent states, metrics.

    The result does not depend on the number of replicas. All workers must call this at the same time.

    Returns:
        Values by group, place and path, for example `model/000/embedding/embeddings`.
    """
    write_back(model)
    return {name: np.array(_value(model, variable), order="C") for name, variable in _named_variables(model)}


def write_variables(model: keras.Model, values: dict[str, np.ndarray]) -> None:
    """Sets all variables to `values`.

    Raises:
        ValueError: If the model's variables are not those of the checkpoint, as with another recipe or another version
            of the library; nothing is changed then.
    """
    variables = dict(_named_variables(model))
    for name, variable in variables.items():
        shape = _shape(model, variable)
        if name not in values or values[name].shape != shape:
            raise _of_another_model(
                f"{name} has shape {shape} here. Received: "
                f"{values[name].shape if name in values else 'no such variable'}"
            )
    for name in values.keys() - variables.keys():
        if not name.startswith("metrics/"):  # those are made when they are first used
            raise _of_another_model(f"there is no variable {name} here. Received: one of shape {values[name].shape}")
    own = [(variable, values[name]) for name, variable in variables.items() if has_own_rows(variable)]
    set_rows_of_all(model, own)
    for name, variable in variables.items():
        if not has_own_rows(variable):
            variable.assign(values[name])


def _of_another_model(difference: str) -> ValueError:
    return ValueError(
        f"The checkpoint is of another model: {difference}. Use the recipe and the vocabulary the run was "
        "made with, and its version of keras-tying."
    )


def _value(model, variable):
    return rows_of_all(model, variable) if has_own_rows(variable) else keras.ops.convert_to_numpy(variable)


def _shape(model, variable):
    if not has_own_rows(variable):
        return tuple(variable.shape)
    rows, *rest = variable.shape
    return rows * replicas_of(model), *rest


def _named_variables(model: keras.Model):
    build_optimizer(model)
    groups = {
        "model": model.variables,
        "optimizer": model.optimizer.variables,
        "metrics": model.metrics_variables,
    }
    for group, variables in groups.items():
        for i, variable in enumerate(variables):
            yield f"{group}/{i:03d}/{NUMBER.sub('', variable.path)}", variable
