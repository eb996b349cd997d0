"""Presets: folders that hold a trained model, with the SHA-256 of each file.

A preset is `zoo/presets/NAME/` of the repository, also inside the installed package:

- `preset.json`: the `Preset`.
- `config.toml`: the settings of the run it was made from, with its recipe; paths are names of files only.
- `model.json`: the configuration of the model, as Keras serializes it.
- `model.safetensors`: its weights by path, each variable once, in half precision.
- vocabularies, or a sentencepiece model, as in the run.
"""

import logging
import os
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import Field

from keras_tying.files import check_fingerprint, sha256_of
from keras_tying.tables import Table, read_json, validate_table
from keras_tying.zoo.recipes import TaskName, list_recipes, recipe_folder

FORMAT = 1
"""The newest format of presets that this version reads."""
MANIFEST = "preset.json"
MODEL = "model.json"
WEIGHTS = "model.safetensors"
FILES = ("config.toml", MODEL, WEIGHTS)
"""Files that every preset has."""


log = logging.getLogger(__name__)


class Preset(Table):
    """What `preset.json` says of a trained model."""

    format: int = Field(ge=1)
    name: str
    task: TaskName
    files: dict[str, str]
    """SHA-256 of each other file of the folder."""
    measured: dict[str, Any]
    """Metrics of these weights."""
    before_rounding: dict[str, Any]
    """The same metrics of the run, whose weights had single precision."""
    sample: str
    """What the model gives, as Markdown."""
    training: dict[str, Any]
    """How the run was trained: seed, epochs, time, device, commit, versions, command, history."""


def preset_folder() -> Path:
    """The folder of the presets."""
    return recipe_folder() / "presets"


def list_presets() -> list[str]:
    """Names of the trained models, in alphabetical order.

    Example:

    >>> "embedded_small_tied" in list_presets()
    True
    """
    return sorted(path.parent.name for path in preset_folder().glob(f"*/{MANIFEST}"))


def model_at(text: str) -> str | Path:
    """A trained model as a user writes it: its name in the zoo, an address, or a `Path` of a folder.

    A folder that has the name of a trained model is written `./NAME`. A warning says that it was not taken.

    Raises:
        ValueError: If the text is empty.

    Example:

    >>> model_at("embedded_small_tied"), model_at("runs/mine").parts
    ('embedded_small_tied', ('runs', 'mine'))
    """
    if not text:
        raise ValueError("Expected a trained model or the folder of a run. Received: ''")
    if "://" in text:
        return text
    is_folder = os.sep in text or Path(text).is_dir()
    if is_folder and text in list_presets():
        log.warning("%s is the trained model of the zoo here. The folder of this name is ./%s", text, text)
        return text
    return Path(text) if is_folder else text


def check_folder(folder: Path) -> None:
    """Raises FileNotFoundError if a folder is neither a run nor a preset, or a preset without its list of files."""
    if not folder.is_dir():
        raise FileNotFoundError(
            f"There is no folder {folder}. Expected a run, a preset or the name of a trained model."
        )
    if not (folder / MANIFEST).is_file() and not (folder / "config.toml").is_file():
        raise FileNotFoundError(
            f"{folder} is not a run and not a preset: there is no config.toml and no {MANIFEST} in it."
        )
    check_manifest(folder)


def check_manifest(folder: Path) -> None:
    """Raises FileNotFoundError if a folder has the weights of a preset and not its list of files."""
    if (folder / WEIGHTS).is_file() and not (folder / MANIFEST).is_file():
        raise FileNotFoundError(f"{folder} is a damaged preset: {MANIFEST} is missing. Get it anew.")


def find_preset(name: str) -> Path:
    """The folder of a trained model.

    Raises:
        ValueError: If there is none of that name. The message has names like it.
    """
    known = list_presets()
    if name in known:
        return preset_folder() / name
    if name in list_recipes():
        raise ValueError(
            f"There is no trained model {name!r} here, only its recipe. Train it with keras-tying and load the folder "
            "of the run. One above 10 MB is not installed: if the repository has it in zoo/presets, load that folder. "
            f"Trained models: {', '.join(known)}"
        )
    near = get_close_matches(name, known, 3, 0.5)
    hint = f"Names like it: {', '.join(near)}" if near else f"Trained models: {', '.join(known)}"
    raise ValueError(f"There is no trained model {name!r}, and no folder of this name. {hint}")


def read_preset(folder: Path) -> Preset:
    """Reads `preset.json`, and checks the SHA-256 of each file.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a file is damaged, or the preset has a newer format.
    """
    preset = parse_manifest(folder / MANIFEST)
    for file, sha256 in preset.files.items():
        check_fingerprint(folder / file, "file of the preset", sha256, sha256_of(folder / file))
    return preset


def parse_manifest(path: Path) -> Preset:
    """Reads `preset.json` alone.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is not one, or has a newer format.
    """
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}. Expected the folder of a preset.")
    values = read_json(path)
    number = values.get("format") if isinstance(values, dict) else None
    if isinstance(number, int) and number > FORMAT:
        raise ValueError(
            f"{path} has format {number}, and this version of keras-tying reads formats up to {FORMAT}. Install a "
            "newer one."
        )
    preset = validate_table(Preset, values, str(path))
    if wrong := [name for name in preset.files if Path(name).name != name or name in ("", "..", MANIFEST)]:
        raise ValueError(f"{path}: files must be names in its folder. Received: {wrong[0]!r}")
    if missing := [name for name in FILES if name not in preset.files]:
        raise ValueError(f"{path}: files must have the SHA-256 of {missing[0]!r}. Restore it.")
    return preset
