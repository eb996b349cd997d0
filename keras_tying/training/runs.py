"""Run folders: everything that a training run leaves behind."""

import json
import os
import platform
import shutil
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import keras
from pydantic import Field

from keras_tying import backend
from keras_tying.files import write_atomically
from keras_tying.tables import Table, dump_table, load_table
from keras_tying.training.progress import Progress
from keras_tying.zoo.recipes import AnyRecipe, Precision


class RunSettings(Table):
    """Everything that decides a run: `config.toml` of its folder."""

    recipe_name: str
    seed: int = Field(ge=0)
    precision: Precision = "float32"
    """Data type of computation. Variables stay float32."""
    command: str
    """The command that gives the same results elsewhere."""
    data_dir: str | None = None
    """Folder of the corpus. Default: the corpus is downloaded."""
    files: dict[str, list[list[str]]] | None = None
    """The user's own text: for each split, groups of files that are read line by line together."""
    prepared: str | None = None
    """Folder of prepared text."""
    initial_vectors: dict[str, str] = Field(default_factory=dict)
    """Where word vectors start from: a `run`, or files for `source` and `target`."""
    subwords: str | None = None
    """A sentencepiece model to use instead of a new one."""
    fingerprints: dict[str, str] = Field(default_factory=dict)
    """SHA-256 of each vocabulary file of the run."""
    recipe: AnyRecipe


class Run:
    """`runs/NAME/`: settings, vocabulary, checkpoints, logs, the trained model, its export and results.

    Attributes:
        folder: The run's folder.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    @classmethod
    def create(cls, folder: str | Path, settings: RunSettings, write: Callable[[Path], None]) -> "Run":
        """Makes a new run. It appears whole or not at all: it is written beside its place and then renamed.

        Args:
            folder: The new folder.
            settings: Becomes `config.toml`.
            write: Writes further files, such as the vocabulary, into the folder it is given.

        Raises:
            FileExistsError: If the folder holds another run, or anything else.
        """
        run = cls(folder)
        run.check_free()
        run.folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=run.folder.parent, prefix=f".{run.folder.name}."))
        try:
            write(unfinished)
            write_atomically(unfinished / run.config.name, dump_table(settings).encode())
            unfinished.chmod(0o755)
            unfinished.rename(run.folder)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        return run

    @classmethod
    def open(cls, folder: str | Path) -> "Run":
        """Opens an existing run.

        Raises:
            FileNotFoundError: If the folder does not hold one.
        """
        run = cls(folder)
        if not run.config.is_file():
            raise FileNotFoundError(f"{run.folder} is not a run: there is no {run.config.name} in it.")
        return run

    @classmethod
    def find(cls, folder: str | Path) -> list["Run"]:
        """The run that a folder is, or the runs in it.

        Raises:
            FileNotFoundError: If there is none.
        """
        folders = [Path(folder), *sorted(path.parent for path in Path(folder).glob("*/config.toml"))]
        found = [cls(each) for each in folders if (each / "config.toml").is_file()]
        if not found:
            raise FileNotFoundError(f"{folder} is not a run: there is no config.toml in it or in a folder below it.")
        return found

    def check_free(self) -> None:
        """Raises FileExistsError if the folder is not new or empty."""
        if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise FileExistsError(
                f"{self.folder} already holds a run or other files. Choose another --run, continue it with "
                f"--resume {self.folder}, or remove it."
            )

    def settings(self) -> RunSettings:
        return load_table(RunSettings, self.config)

    def load_model(self) -> keras.Model:
        """The trained model.

        Raises:
            FileNotFoundError: If training has not ended.
        """
        if not self.model.exists():
            raise FileNotFoundError(f"{self.folder} has no trained model yet. Finish it with --resume {self.folder}")
        return keras.saving.load_model(self.model)

    @property
    def config(self) -> Path:
        return self.folder / "config.toml"

    @property
    def vocabulary(self) -> Path:
        return self.folder / "vocabulary.txt"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def best(self) -> Path:
        """Variables of the best epoch, in runs that keep them."""
        return self.folder / "best"

    @property
    def tensorboard(self) -> Path:
        return self.folder / "tensorboard"

    @property
    def model(self) -> Path:
        return self.folder / "model.keras"

    @property
    def saved_model(self) -> Path:
        """The SavedModel, version 1 of the folder that TensorFlow Serving watches."""
        return self.folder / "saved_model" / "1"

    @property
    def results(self) -> Path:
        return self.folder / "results.json"

    def write_results(self, results: dict[str, Any]) -> None:
        write_atomically(self.results, (json.dumps(results, indent=2) + "\n").encode())


def training_record(settings: RunSettings, progress: Progress, unit: str, size: int) -> dict[str, Any]:
    """Cost and course of a training, for `results.json`.

    Args:
        settings: The run's.
        progress: Of the finished training.
        unit: What an epoch is counted in, for example `"words"`.
        size: Number of these per epoch.
    """
    epochs = len(progress.history)
    return {
        "seed": settings.seed,
        "epochs": epochs,
        "wall_time_seconds": round(progress.seconds, 1),
        f"{unit}_per_second": round(size * epochs / progress.seconds, 1),
        **environment(),
        "command": settings.command,
        "history": progress.history,
    }


def environment() -> dict[str, Any]:
    """Device, precision and versions that results were measured with."""
    packages = ("keras", {"tensorflow": "tensorflow", "jax": "jax", "torch": "torch"}[backend.NAME], "numpy")
    versions = {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}}
    precision = keras.config.dtype_policy().name
    return {"device": device_name(), "backend": backend.NAME, "precision": precision, "versions": versions}


def device_name() -> str:
    """Name of the accelerators, or of the processor with its number of usable cores."""
    accelerators = [str(device) for device in keras.distribution.list_devices() if "cpu" not in str(device).lower()]
    if accelerators:
        return ", ".join(accelerators)
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.open() if line.startswith("model name")]
        model = names[0] if names else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} core{'s' if cores != 1 else ''}"
