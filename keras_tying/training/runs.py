"""Run folders: everything that a training run leaves behind."""

import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any
from zipfile import BadZipFile

import keras
from pydantic import BeforeValidator, Field

from keras_tying.files import UNFINISHED, locked, remove_unfinished, sha256_of, waiting_for, write_atomically
from keras_tying.tables import Table, dump_table, json_values, load_table, parse_json
from keras_tying.zoo.presets import MANIFEST, check_manifest
from keras_tying.zoo.recipes import AnyRecipe, Precision

OneOrMore = Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]
"""A list, of which older files may have the only item."""


class RunSettings(Table):
    """Everything that decides a run: `config.toml` of its folder."""

    recipe_name: str
    seed: int = Field(ge=0, lt=2**32)
    precision: Precision = "float32"
    """Data type of computation. Variables stay float32."""
    command: str
    """The command that gives the same results elsewhere."""
    together: list[str] = Field(default_factory=list)
    """Names of the runs that the same command made beside this one, this one included; empty if it is alone."""
    data_dir: str | None = None
    """Folder of the corpus. Default: the corpus is downloaded."""
    files: dict[str, list[list[str]]] | None = None
    """The user's own text: for each split, groups of files that are read line by line together."""
    prepared: str | None = None
    """Folder of prepared text."""
    initial_vectors: dict[str, str] = Field(default_factory=dict)
    """Where word vectors start from: a `run`, or files for `source` and `target`."""
    start: OneOrMore = Field(default_factory=list)
    """The trained models whose mean training starts from: their names in the zoo, or their folders."""
    add_words: bool = False
    """Whether words of the training text that it does not know are added to its words."""
    subwords: str | None = None
    """A sentencepiece model to use instead of a new one."""
    fingerprints: dict[str, str] = Field(default_factory=dict)
    """SHA-256 of each file that the run was made with and holds: vocabularies, links, initial vectors or weights."""
    text: dict[str, list[str]] = Field(default_factory=dict)
    """SHA-256 of each file of the text, by split."""
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
            settings: Becomes `config.toml`, with the fingerprints of the other files.
            write: Writes further files, such as the vocabulary, into the folder it is given.

        Raises:
            FileExistsError: If the folder holds another run, or anything else.
        """
        (run,) = cls.create_together({Path(folder): (settings, write)})
        return run

    @classmethod
    def create_together(cls, runs: Mapping[Path, tuple[RunSettings, Callable[[Path], None]]]) -> "list[Run]":
        """Makes several new runs as `create` does. All are written before the first appears, and an error undoes all.

        Each names the others in its settings, so that a missing one is noticed if the process is killed in between.
        """
        made = [cls(folder) for folder in runs]
        together = [run.folder.name for run in made] if len(made) > 1 else []
        for run in made:
            run.check_free()
        with ExitStack() as removed, ExitStack() as undo:
            written = []
            for run, (settings, write) in zip(made, runs.values(), strict=True):
                place = run.folder.resolve()
                place.parent.mkdir(parents=True, exist_ok=True)
                unfinished = tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}.", suffix=UNFINISHED)
                removed.callback(shutil.rmtree, unfinished, ignore_errors=True)
                new = Path(unfinished) / place.name
                new.mkdir()
                write(new)
                fingerprints = {path.name: sha256_of(path) for path in sorted(new.iterdir())}
                settings = settings.model_copy(update={"fingerprints": fingerprints, "together": together})
                write_atomically(new / run.config.name, dump_table(settings).encode())
                written.append((run, new, place))
            for run, new, place in written:
                run.check_free()
                new.rename(place)
                undo.callback(place.rename, new)
            undo.pop_all()
        return made

    @classmethod
    def open(cls, folder: str | Path) -> "Run":
        """Opens an existing run.

        Raises:
            FileNotFoundError: If the folder does not hold one, or a damaged preset.
            ValueError: If it holds a trained model without its training.
        """
        run = cls(folder)
        check_manifest(run.folder)
        if (run.folder / MANIFEST).is_file():
            raise ValueError(
                f"{run.folder} is a trained model, not a run: it cannot be resumed, exported or published. "
                "Use lm --from to continue training a language model."
            )
        if not run.config.is_file():
            raise FileNotFoundError(f"{run.folder} is not a run: there is no {run.config.name} in it.")
        return run

    @classmethod
    def find(cls, folder: str | Path) -> list["Run"]:
        """The run that a folder is, or the runs in it.

        Raises:
            FileNotFoundError: If there is none.
        """
        if cls(folder).config.is_file():
            return [cls.open(folder)]
        below = sorted(path.parent for path in Path(folder).glob("*/config.toml") if path.is_file())
        found = [cls.open(each) for each in below if not each.name.startswith(".")]  # those are unfinished
        if not found:
            raise FileNotFoundError(f"{folder} is not a run: there is no config.toml in it or in a folder below it.")
        return found

    def check_free(self) -> None:
        """Checks that the folder is new or empty, and can be made.

        Raises:
            ValueError: If its path begins with a hyphen.
            FileExistsError: If it holds anything, or a new folder cannot take its place.
            NotADirectoryError: If it would be inside a file.
            PermissionError: If a folder above it cannot be written to.
        """
        if str(self.folder).startswith("-"):
            raise ValueError(
                f"The path of a run must not begin with a hyphen, as options do. Choose another --run. Received: "
                f"{self.folder}"
            )
        if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise FileExistsError(
                f"{self.folder} already holds a run or other files. Choose another --run, continue it with "
                f"--resume {self.folder}, or remove it."
            )
        try:
            place = self.folder.resolve()
        except (OSError, RuntimeError):
            raise FileExistsError(f"{self.folder} is a link that leads to itself. Choose another --run.") from None
        if self.folder.is_dir() and (self.folder.samefile(".") or self.folder.is_mount()):
            raise FileExistsError(
                f"{self.folder} is the current folder or one where a disk is mounted, and a new one cannot take its "
                "place. Choose a --run inside it."
            )
        above = next(parent for parent in place.parents if parent.exists())
        if not above.is_dir():
            raise NotADirectoryError(f"{above} is a file, so {self.folder} cannot be in it. Choose another --run.")
        if not os.access(above, os.W_OK):
            raise PermissionError(f"{above} cannot be written to. Choose another --run than {self.folder}.")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from training the run, and removes what killed ones left unfinished in it.

        The lock ends with the process at the latest, however that ends.

        Raises:
            BlockingIOError: If another process trains the run.
            ValueError: If a folder or the lock of the run is a link to another place, where files would be overwritten.
        """
        places = (self.checkpoints, self.best, self.tensorboard, self.saved_model.parent)
        for place in places:
            if place.is_symlink():
                raise ValueError(f"{place} must be a folder of the run. Received: a link to {place.readlink()}.")
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self._lock, f"{self.folder} is being trained by another process. Wait until it ends, or stop it."):
            for place in (self.folder, *places):
                remove_unfinished(place)
            yield

    @property
    def begun(self) -> bool:
        """Whether training has begun: whether there was a checkpoint, even if none is left."""
        marked = self._lock.is_file() and self._lock.stat().st_size > 0
        return marked or any(path.exists() for path in (self.checkpoints / "index.json", self.model, self.results))

    def mark_begun(self) -> None:
        """Notes, outside of the folder of checkpoints, that there was one. Waits for a folder that is away."""
        if not self._lock.is_file() or not self._lock.stat().st_size:
            waiting_for(self.folder, lambda: self._lock.write_text("There were checkpoints.\n"))

    def settings(self) -> RunSettings:
        """Reads the settings. Raises ValueError if the file is damaged."""
        return load_table(RunSettings, self.config)

    def load_model(self, precision: str | None = None) -> keras.Model:
        """The trained model, in the precision of its training or in another.

        Raises:
            FileNotFoundError: If training has not ended.
            ValueError: If the file is damaged, or the model needs code that is not imported.
        """
        self.check_finished()
        try:
            model = keras.saving.load_model(self.model)
        except (ValueError, TypeError, LookupError, OSError, EOFError, RuntimeError, BadZipFile, zlib.error) as error:
            raise ValueError(f"{self.model} cannot be loaded: {error}") from error
        return in_precision(model, precision)

    def check_finished(self) -> None:
        """Raises FileNotFoundError if training has not ended."""
        if not self.model.exists():
            raise FileNotFoundError(f"{self.folder} has no trained model yet. Finish it with --resume {self.folder}")

    @property
    def config(self) -> Path:
        """The settings, `config.toml`."""
        return self.folder / "config.toml"

    @property
    def _lock(self) -> Path:
        """Locked by the process that trains the run, and not empty once there was a checkpoint."""
        return self.folder / "training.lock"

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.folder / "checkpoints"

    @property
    def best(self) -> Path:
        """Variables of the best epoch, in runs that keep them."""
        return self.folder / "best"

    @property
    def tensorboard(self) -> Path:
        """Folder of the logs for TensorBoard."""
        return self.folder / "tensorboard"

    @property
    def model(self) -> Path:
        """The trained model, a `.keras` file. It exists when training has ended."""
        return self.folder / "model.keras"

    @property
    def saved_model(self) -> Path:
        """The SavedModel, version 1 of the folder that TensorFlow Serving watches."""
        return self.folder / "saved_model" / "1"

    @property
    def results(self) -> Path:
        """The results, `results.json`, which are written when training has ended."""
        return self.folder / "results.json"

    def read_results(self) -> dict[str, Any]:
        """What `results.json` holds; nothing before training has ended.

        Raises:
            ValueError: If the file is damaged.
        """
        if not self.results.exists():
            return {}
        try:
            results = parse_json(self.results.read_bytes())
            if not isinstance(results, dict):
                raise ValueError(f"expected a table, received {type(results).__name__}")
        except ValueError as error:
            raise ValueError(
                f"{self.results} is damaged: {error}. Measure the run again with --resume {self.folder}"
            ) from None
        return results

    @contextmanager
    def changing_results(self) -> Iterator[None]:
        """Within it no other process changes `results.json`."""
        with locked(self.folder / "results.lock"):
            yield

    def write_results(self, results: dict[str, Any]) -> None:
        """Writes `results.json`. Numbers that are not finite are `null` there."""
        write_atomically(self.results, (json.dumps(json_values(results), indent=2) + "\n").encode())


def in_precision(model: Any, precision: str | None) -> keras.Model:
    """A model of the library, or its copy that computes in another precision."""
    return model if precision in (None, model.dtype_policy.name) else model.with_precision(precision)


def real_paths(value: Any) -> Any:
    """Settings whose paths have their links followed, for a comparison: paths, and lists and tables of them."""
    if isinstance(value, dict):
        return {name: real_paths(each) for name, each in value.items()}
    if isinstance(value, list):
        return [real_paths(each) for each in value]
    return os.path.realpath(value) if isinstance(value, str) and os.path.isabs(value) else value
