"""Publishing of trained models: presets from runs."""

import json
import re
from pathlib import Path

import numpy as np

from keras_tying.files import check_replaceable, keep_others, remove_unfinished, replacing, sha256_of, write_atomically
from keras_tying.pretrained.weights import read_model, write_model
from keras_tying.tables import dump_table
from keras_tying.tasks import TASKS
from keras_tying.training.runs import Run, RunSettings
from keras_tying.training.task import open_task
from keras_tying.zoo.presets import FORMAT, MANIFEST, Preset, preset_folder, read_preset

NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")
VOCABULARIES = {file for task in TASKS.values() for file in task.vocabulary_kinds}
"""The files that presets of some tasks have. All other files are the same in all presets."""


def publish(run: Run, name: str, folder: str | Path | None = None) -> Preset:
    """Makes a preset from a trained run, and measures its rounded weights.

    Args:
        run: The run. Its text must be where it was.
        name: Name of the preset: lower-case letters, digits and single underscores.
        folder: Folder of presets. Default: `zoo/presets`. An existing preset of the name is replaced; other
            files in its folder are kept.

    Returns:
        The preset as written.

    Raises:
        ValueError: If the name is not valid, the text has changed, or the results of the run are damaged.
        FileNotFoundError: If training has not ended, or the text is missing.
        FileExistsError: If `folder` holds something other than a preset under this name.

    Example:

    >>> import keras_tying as kt
    >>> run = kt.training.Run("runs/ptb_small_tied")
    >>> preset = kt.pretrained.publish(run, "my_model", folder="presets")  # doctest: +SKIP
    >>> lm = kt.load("presets/my_model")  # doctest: +SKIP
    """
    if not NAME.fullmatch(name):
        raise ValueError(f"A preset's name has lower-case letters, digits and underscores. Received: {name!r}")
    place = (preset_folder() if folder is None else Path(folder)) / name
    check_replaceable(place, MANIFEST)
    run.check_finished()
    results = run.read_results()
    if not results:
        raise FileNotFoundError(f"{run.folder} has no results yet. Finish it with --resume {run.folder}")
    settings = run.settings()
    task = open_task(TASKS[settings.recipe.task], run)
    task.open_text()
    place.parent.mkdir(parents=True, exist_ok=True)
    remove_unfinished(place.parent, name)  # of a publication that was killed
    with replacing(place) as new:
        new.mkdir()
        write_model(run.load_model(), new)
        for file in task.vocabulary_kinds:
            task.vocabularies[file].save(new / file)
        write_atomically(
            new / "config.toml", dump_table(public_settings(settings, list(task.vocabulary_kinds))).encode()
        )
        model = read_model(new)
        measured = task.measure(model)
        if missing := [metric for metric in measured if metric not in results]:
            raise ValueError(f"{run.results} has no {missing[0]}. Measure the run again with --resume {run.folder}")
        _, sample = task.sample(model) or ("", "")
        preset = Preset(
            format=FORMAT,
            name=name,
            task=settings.recipe.task,
            files={path.name: sha256_of(path) for path in sorted(new.iterdir())},
            measured=measured,
            before_rounding={metric: results[metric] for metric in measured},
            sample=sample,
            training={metric: value for metric, value in results.items() if metric not in measured},
        )
        write_atomically(new / MANIFEST, (json.dumps(preset.model_dump(), indent=2, default=_plain) + "\n").encode())
        keep_others(place, new, VOCABULARIES)
    return read_preset(place)


def _plain(value: np.generic) -> float:
    return value.item()


def public_settings(settings: RunSettings, vocabularies: list[str]) -> RunSettings:
    """The settings of a run without what belongs to one machine: folders, and files that a preset does not hold."""
    files = settings.files and {
        split: [[Path(path).name for path in group] for group in groups] for split, groups in settings.files.items()
    }
    return settings.model_copy(
        update={
            "data_dir": None,
            "files": files,
            "prepared": settings.prepared and Path(settings.prepared).name,
            "recipe_name": Path(settings.recipe_name).name.removesuffix(".toml"),
            "start": [Path(each).name for each in settings.start],
            "subwords": settings.subwords and Path(settings.subwords).name,
            "initial_vectors": {side: Path(path).name for side, path in settings.initial_vectors.items()},
            "together": [],
            "fingerprints": {file: settings.fingerprints[file] for file in vocabularies},
        }
    )
