"""Loading of trained models, by name, folder or address."""

import os
from pathlib import Path
from typing import Any

import keras

from keras_tying.data.downloads import download
from keras_tying.pretrained.weights import read_model
from keras_tying.tasks import TASKS
from keras_tying.training.runs import Run, in_precision
from keras_tying.training.task import Task, open_task
from keras_tying.zoo.presets import MANIFEST, check_folder, find_preset, model_at, parse_manifest, read_preset


def load(name_or_folder: str | os.PathLike, *, sha256: str | None = None, precision: str | None = None) -> Any:
    """Loads a trained model with its text side, on every backend of Keras.

    Args:
        name_or_folder: One of these.

            - The name of a trained model of the zoo, see `kt.zoo.list_models(pretrained=True)`.
            - The folder of a run, or of a preset. A folder that has the name of a trained model is given as `./NAME`
              or as a `Path`.
            - The `https://` address of a folder that holds a preset. Its files are downloaded once.
        sha256: SHA-256 of `preset.json`, which has those of the other files; needed with an address.
        precision: Dtype policy in which the model computes, for example `"float32"`. Default: that of its training.

    Returns:
        `TrainedLanguageModel`, `TrainedTranslator`, `TrainedJointLanguageModel` or `TrainedWordVectors`, see
        `keras_tying.inference`. Its attribute `model` is the `keras.Model`.

    Raises:
        ValueError: If there is no such model or precision, a file is damaged, or the preset has a newer format.
        FileNotFoundError: If the folder is no run and no preset, or its training has not ended.
        ConnectionError: If an address cannot be reached.

    Example:

    >>> import keras_tying as kt
    >>> lm = kt.load("embedded_small_tied")
    >>> len(lm.next_words("the value of the", k=3))
    3
    """
    task, folder = open_trained(name_or_folder, sha256)
    return task.trained(model_of(folder, precision))


def load_for(task: str, name_or_folder: str | os.PathLike, precision: str | None = None) -> Any:
    """Loads a trained model of one task, a name in `TASKS`. Raises ValueError, also if the model is of another task."""
    opened, folder = open_trained(name_or_folder, task=task)
    return opened.trained(model_of(folder, precision))


def model_of(folder: Path, precision: str | None = None) -> keras.Model:
    """The model of a preset or of a run, by its folder; in the precision of its training, or in another."""
    is_preset = (folder / MANIFEST).is_file()
    return in_precision(read_model(folder), precision) if is_preset else Run(folder).load_model(precision)


def open_trained(
    name_or_folder: str | os.PathLike, sha256: str | None = None, task: str | None = None
) -> tuple[Task, Path]:
    """The task of a trained model, with its vocabularies, and its folder; see `load`.

    Raises:
        ValueError: Also if `task`, a name in `TASKS`, is given and the model is of another one.
    """
    folder = _folder(name_or_folder, sha256)
    check_folder(folder)
    run = Run(folder)
    preset = read_preset(folder) if (folder / MANIFEST).is_file() else None
    if preset is None:
        run.check_finished()
    found = run.settings().recipe.task
    if preset is not None and preset.task != found:
        raise ValueError(
            f"{folder} is a damaged preset: {MANIFEST} has the task {preset.task!r}, its settings {found!r}."
        )
    return open_task(TASKS[task or found], run), folder


def _folder(name_or_folder: str | os.PathLike, sha256: str | None) -> Path:
    model = model_at(name_or_folder) if isinstance(name_or_folder, str) else Path(name_or_folder)
    if isinstance(model, str) and "://" in model:
        return _download(model.rstrip("/"), sha256)
    if sha256 is not None:
        raise ValueError(f"`sha256` is for addresses. Received: sha256={sha256!r} with {str(model)!r}")
    return find_preset(model) if isinstance(model, str) else model


def _download(address: str, sha256: str | None) -> Path:
    """Downloads a preset into the cache, if it is not there yet. Returns its folder."""
    if not address.startswith("https://") or sha256 is None:
        raise ValueError(
            f"A preset is downloaded from an https:// address, with the SHA-256 of its {MANIFEST} as `sha256`. "
            f"Received: {address!r}, sha256={sha256!r}"
        )
    try:
        manifest = download(f"{address}/{MANIFEST}", sha256, f"presets/{sha256}")
        for file, expected in parse_manifest(manifest).files.items():
            download(f"{address}/{file}", expected, f"presets/{sha256}")
    except ConnectionError as error:
        raise ConnectionError(
            f"{address} could not be downloaded: {error.__cause__}. Load a folder that holds its files instead."
        ) from error
    return manifest.parent
