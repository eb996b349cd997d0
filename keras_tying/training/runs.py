"""The folder of a run."""

import json
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import keras

from keras_tying import backend
from keras_tying.data import Vocabulary
from keras_tying.files import check_fingerprint, write_atomically
from keras_tying.training.checkpointing import Checkpoints


class Run:
    """`runs/NAME/`: everything a training run leaves behind.

    Attributes:
        folder: The run's folder.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    @classmethod
    def create(cls, folder: str | Path, config: str) -> "Run":
        """Makes a new run; `config` (TOML) is everything that decides it.

        Raises:
            FileExistsError: If the folder holds another run, or anything else.
        """
        run = cls(folder)
        if run.folder.exists() and (not run.folder.is_dir() or any(run.folder.iterdir())):
            raise FileExistsError(
                f"{run.folder} already holds a run or other files. Choose another --run, continue it with "
                f"--resume {run.folder}, or remove it."
            )
        run.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(run.config, config.encode())
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

    def open_vocabulary(self, sha256: str, path: Path | None = None) -> Vocabulary:
        """A vocabulary in the folder, if it is the one the run was made with.

        Args:
            sha256: Of that one.
            path: Its file. Default: `vocabulary`.

        Raises:
            ValueError: If its SHA-256 is another.
        """
        path = path or self.vocabulary
        vocabulary = Vocabulary.load(path)
        check_fingerprint(path, "vocabulary this run was made with", sha256, vocabulary.sha256)
        return vocabulary

    def load_model(self) -> keras.Model:
        """The trained model.

        Raises:
            FileNotFoundError: If training has not come to its end.
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
        """The best epoch's variables, of runs that keep them."""
        return self.folder / "best"

    @property
    def source_vocabulary(self) -> Path:
        return self.folder / "source_vocabulary.txt"

    @property
    def subwords(self) -> Path:
        """The sentencepiece model, of runs that translate."""
        return self.folder / "subwords.model"

    @property
    def tensorboard(self) -> Path:
        return self.folder / "tensorboard"

    @property
    def model(self) -> Path:
        return self.folder / "model.keras"

    @property
    def saved_model(self) -> Path:
        """The layout TensorFlow Serving watches: a folder a version."""
        return self.folder / "saved_model" / "1"

    @property
    def results(self) -> Path:
        return self.folder / "results.json"

    def write_results(self, results: dict[str, Any]) -> None:
        write_atomically(self.results, (json.dumps(results, indent=2) + "\n").encode())


def environment() -> dict[str, Any]:
    """Device, precision and versions a figure was measured with."""
    packages = ("keras", backend.NAME, "numpy")
    versions = {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}}
    precision = keras.config.dtype_policy().name
    return {"device": device_name(), "backend": backend.NAME, "precision": precision, "versions": versions}


def training_record(settings: Any, progress: Checkpoints, unit: str, number: int) -> dict[str, Any]:
    """What training took and how it went, for `results.json`.

    Args:
        settings: The run's, with `seed` and `command`.
        progress: Of its training.
        unit: What speed is counted in, for example `"words"`.
        number: How many of those an epoch has.
    """
    epochs = len(progress.history)
    return {
        "seed": settings.seed,
        "epochs": epochs,
        "wall_time_seconds": round(progress.seconds, 1),
        f"{unit}_per_second": round(number * epochs / progress.seconds, 1),
        **environment(),
        "command": settings.command,
        "history": progress.history,
    }


def device_name() -> str:
    """The processor or accelerator in words, with the number of usable cores."""
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
