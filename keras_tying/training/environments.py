"""Environments: the devices, versions and commit that a training ran with, and the record of its course."""

import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import keras

from keras_tying import backend
from keras_tying.backend.devices import accelerators
from keras_tying.distribution.strategies import usable_cores
from keras_tying.tables import json_values
from keras_tying.training.optimisation import length
from keras_tying.training.progress import Progress
from keras_tying.training.runs import RunSettings
from keras_tying.version import NOT_RECORDED, __version__, commit


def environment() -> dict[str, Any]:
    """Device, precision, commit of the code (`None` if unknown) and versions of this process."""
    packages = ("keras", backend.NAME, "numpy")
    versions = {"python": platform.python_version(), "keras-tying": __version__}
    return {
        "device": device_name(),
        "backend": backend.NAME,
        "precision": keras.config.dtype_policy().name,
        "commit": commit(),
        "versions": versions | {name: metadata.version(name) for name in packages},
    }


def device_name() -> str:
    """Name of the accelerators, or of the CPU with its number of usable cores."""
    if names := accelerators():
        return ", ".join(names)
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.open() if line.startswith("model name")]
        model = names[0] if names else model
    cores = usable_cores()
    return f"{model}, {cores} core{'s' if cores != 1 else ''}"


def trained_in(environments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One environment for what several processes trained.

    Args:
        environments: What `environment` returned in each of them, or results that contain it.

    Returns:
        Devices, commits and versions that differ are all named, in order, and so are numbers of replicas, unless there
        was one only. Backend and precision are the last ones.

    Example:

    >>> import keras_tying as kt
    >>> places = [{"device": device, "commit": "5e1f", "versions": {"keras": "3.15.1"}} for device in ("CPU", "GPU")]
    >>> {name: value for name, value in kt.training.trained_in(places).items() if value}
    {'device': 'CPU, then GPU', 'commit': '5e1f', 'versions': {'keras': '3.15.1'}}
    """
    commits = _in_order(each.get("commit") or NOT_RECORDED for each in environments)
    packages = dict.fromkeys(package for each in environments for package in each["versions"])
    return {
        "device": _in_order(each["device"] for each in environments),
        "backend": environments[-1].get("backend"),
        "precision": environments[-1].get("precision"),
        "commit": None if commits == NOT_RECORDED else commits,
        "versions": {
            package: _in_order(each["versions"].get(package, NOT_RECORDED) for each in environments)
            for package in packages
        },
        **_replicas(environments),
    }


def _replicas(environments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Strategies, workers and replicas of what several processes trained; none for one replica."""
    alone = {"strategy": "one", "workers": 1, "replicas": 1}
    found = [{name: each.get(name, default) for name, default in alone.items()} for each in environments]
    if all(each == alone for each in found):
        return {}
    if all(each == found[0] for each in found):
        return found[0]
    return {name: _in_order(str(each[name]) for each in found) for name in alone}


def _in_order(values: Iterable[str]) -> str:
    """Values without repetitions; values may themselves be such lists."""
    return ", then ".join(dict.fromkeys(part for value in values for part in value.split(", then ")))


def training_record(settings: RunSettings, progress: Progress, unit: str, size: int) -> dict[str, Any]:
    """Cost and course of a training, for `results.json`.

    Args:
        settings: The run's.
        progress: Of the finished training.
        unit: What an epoch is counted in, for example `"words"`.
        size: Number of these per epoch.
    """
    epochs = len(progress.history)
    last, left_out = length(settings.recipe.optimisation, progress.batches)
    trained = size * (epochs - left_out / progress.batches if epochs == last and left_out else epochs)
    return {
        "seed": settings.seed,
        "epochs": epochs,
        "wall_time_seconds": round(progress.seconds, 1),
        "processor_seconds": round(progress.processor_seconds, 1),
        f"{unit}_per_second": round(trained / progress.seconds, 1) if trained else None,
        **trained_in(progress.environments),
        "precision": settings.precision,
        "command": settings.command,
        "history": json_values(progress.history),
    }
