"""Runs the commands of train/ on tiny real texts; all that these tests know of the insides is here.

Commands run in this process, where TensorFlow is loaded already. `options` are those of the command line.
"""

import contextlib
import functools
import io
import json
import resource
import runpy
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import pytest
import tomlkit
from matplotlib.axes import Axes

from keras_tying import data, export
from keras_tying.files import write_atomically  # noqa: F401
from keras_tying.training.callbacks import StopOnNaN
from keras_tying.training.checkpoints import Checkpoint, CheckpointStore
from keras_tying.training.task import Task
from keras_tying.zoo import recipes
from studies.__main__ import all_pages

REPOSITORY = Path(__file__).parents[2]
NO_RATE = 1e-30
"""A learning rate at which float32 weights stay what they are."""


def tiny_recipe(epochs: int) -> str:
    """The recipe of a language model of one layer, on the user's own text."""
    return f"""
title = "Tiny"
description = "A model of one layer."
[model]
name = "ptb_small"
arguments = {{ tied = true, num_layers = 1 }}
[data]
corpus = "files"
tokenization = "spaces"
vocabulary_size = 150
[optimisation]
batch_size = 4
sequence_length = 5
epochs = {epochs}
"""


@dataclass(frozen=True)
class Finished:
    """A command that has come to its end."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Run:
    """A finished training run.

    Attributes:
        folder: Its folder.
        printed: What the command printed.
    """

    folder: Path
    printed: str = ""

    @property
    def results(self) -> dict:
        return json.loads((self.folder / "results.json").read_text())

    @property
    def history(self) -> list[dict[str, float]]:
        return self.results["history"]

    @property
    def weights(self) -> list[np.ndarray]:
        return self.model().get_weights()

    def model(self) -> keras.Model:
        return keras.saving.load_model(self.folder / "model.keras")

    def logged(self, name: str) -> list[float]:
        """A figure of each epoch."""
        return [logs[name] for logs in self.history]


def command(script: str, *arguments, stdin: str = "", saved_model: bool = False) -> Finished:
    """Runs a script of the repository in this process, without what takes seconds and is tested elsewhere.

    That is its SavedModel, if it is not asked for, and the samples and plots in TensorBoard.
    """
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", [script, *map(str, arguments)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        patch.chdir(REPOSITORY)
        for task in Task.__subclasses__():
            patch.setattr(task, "sample", Task.sample)
            patch.setattr(task, "plot", Task.plot)
        if not saved_model:
            for name in [name for name in vars(export) if name.startswith("export_")]:
                patch.setattr(export, name, lambda *_: None)
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            return Finished(end.code or 0, out.getvalue(), err.getvalue())
    raise AssertionError(f"{script} did not end with an exit code")


def assert_each_split_has_its_own_perplexity(one: Run, other: Run) -> None:
    """Checks two runs that differ only in their text: the validation text of each is the test text of the other."""
    first, second = one.results, other.results
    assert first["test_perplexity"] == pytest.approx(second["validation_perplexity"], rel=1e-6)
    assert first["validation_perplexity"] == pytest.approx(second["test_perplexity"], rel=1e-6)
    assert first["test_perplexity"] != pytest.approx(first["validation_perplexity"], rel=1e-3)


def interrupted(script: str, *arguments) -> Finished:
    """Runs a training that gets SIGTERM in its first steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StopOnNaN, "on_train_batch_end", lambda *_, logs: signal.raise_signal(signal.SIGTERM))
        return command(script, *arguments)


def succeed(script: str, *arguments, **options) -> str:
    """Runs a script that must succeed; returns what it printed."""
    finished = command(script, *arguments, **options)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def train_lm(folder: Path, recipe: str, files: list, *options) -> Run:
    return _train("train/lm.py", folder, recipe, files, options)


def train_nmt(folder: Path, recipe: str, files: list, *options) -> Run:
    return _train("train/nmt.py", folder, recipe, files, options)


def _train(script: str, folder: Path, recipe: str, files: list, options: tuple) -> Run:
    path = folder.with_suffix(".toml")
    path.write_text(recipe)
    return Run(folder, succeed(script, "--recipe", path, *files, "--run", folder, *options))


def train_nnjm(folder: Path, files: list, *options, **optimisation) -> Run:
    """Trains the NNJM alone."""
    settings = ["model.window=3", "model.embedding_size=8", "model.hidden_units=[16]", "optimisation.batch_size=16"]
    settings += [f"optimisation.{name}={value}" for name, value in optimisation.items()]
    small = ["--recipe", "nnjm", "--set", *settings]
    return Run(folder, succeed("train/nnjm.py", *files, "--run", folder, *small, *options))


def train_word2vec(folder: Path, *options) -> Run:
    return Run(folder, succeed("train/word2vec.py", "--run", folder, *options))


def resume(script: str, run: Run, *options) -> Run:
    return Run(run.folder, succeed(script, "--resume", run.folder, *options))


def change_config(run: Run, *keys: str, value) -> None:
    """Changes a setting of a run that stands, for example how many epochs it has."""
    path = run.folder / "config.toml"
    document = table = tomlkit.parse(path.read_text())
    for key in keys[:-1]:
        table = table[key]
    table[keys[-1]] = value
    path.write_text(tomlkit.dumps(document))


def text_file(path: Path, tokens: int, skipped: int = 0, split: str = "train") -> Path:
    """So many tokens of the embedded corpus, nine words and the end of the sentence a line."""
    words = [word for word in data.load_corpus("embedded").tokens(split) if word != "<eos>"][skipped:]
    count = tokens // 10
    lines = [" ".join(words[9 * i : 9 * i + 9]) for i in range(count)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def text_options(train: Path, valid: Path, test: Path) -> list[str]:
    return [str(word) for word in ("--train-file", train, "--valid-file", valid, "--test-file", test)]


@functools.cache
def phrases(split: str) -> list[tuple[str, str]]:
    """English phrases with their German translations."""
    return list(data.load_parallel("embedded", "en", "de").pairs(split))


def phrase_files(folder: Path, split: str = "train", count: int = 200, skipped: int = 0) -> tuple[Path, Path]:
    """Files of so many phrases and their translations."""
    pairs = phrases(split)[skipped : skipped + count]
    files = tuple(folder / f"{split}-{skipped}-{count}.{language}" for language in ("en", "de"))
    for file, side in zip(files, zip(*pairs, strict=True), strict=True):
        file.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    return files


def pair_options(train: tuple, valid: tuple, test: tuple) -> list[str]:
    return [str(word) for word in ("--source", train[0], "--target", train[1], "--valid", *valid, "--test", *test)]


def linked(files: tuple[Path, Path]) -> tuple[Path, Path, Path]:
    """The same files with links between words of the same place."""
    sides = [path.read_text(encoding="utf-8").splitlines() for path in files]
    shortest = [min(len(line.split()) for line in pair) for pair in zip(*sides, strict=True)]
    links = files[0].with_suffix(".align")
    links.write_text("".join(" ".join(f"{i}-{i}" for i in range(count)) + "\n" for count in shortest))
    return *files, links


def linked_options(train: tuple, valid: tuple, test: tuple) -> list[str]:
    return [str(word) for word in ("--train", *train, "--valid", *valid, "--test", *test)]


# Time, disks and crashes


@contextlib.contextmanager
def fast_clocks(times: float):
    """Within it, every clock runs so many times as fast."""
    clocks = {name: getattr(time, name) for name in ("monotonic", "perf_counter", "time")}

    def fast(clock, began):
        return lambda: began + times * (clock() - began)

    try:
        for name, clock in clocks.items():
            setattr(time, name, fast(clock, clock()))
        yield
    finally:
        vars(time).update(clocks)


@contextlib.contextmanager
def largest_file(size: int):
    """Within it, a write past so many bytes of a file fails, as on a full disk: what came before is written."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


KILLED_WHILE_WRITING = """
import resource, runpy, signal, sys
write = runpy.run_path(sys.argv[1])["write_atomically"]
content = sys.stdin.buffer.read()
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (len(content) // 2, len(content) // 2))
write(sys.argv[2], content)
"""


def killed_while_writing(path: Path, content: bytes) -> bool:
    """Writes a file in a process that is killed half-way; whether it was."""
    command = [sys.executable, "-c", KILLED_WHILE_WRITING, REPOSITORY / "keras_tying" / "files.py", path]
    return subprocess.run(command, input=content).returncode == -signal.SIGXFSZ


def save_checkpoint(folder: Path, values: dict[str, np.ndarray], progress: dict) -> None:
    CheckpointStore(folder).save(Checkpoint(values, progress))


def newest_checkpoint(folder: Path) -> tuple[dict[str, np.ndarray], dict]:
    found = CheckpointStore(folder).newest()
    return found.values, found.progress


def copy_zoo(folder: Path, monkeypatch) -> Path:
    """A copy of the zoo's folder, in which all commands find and record recipes until the end of the test."""
    zoo = folder / "zoo"
    shutil.copytree(recipes.recipe_folder(), zoo)
    (folder / "docs").mkdir()
    for page in ("README.md", "docs/training.md"):
        shutil.copy(REPOSITORY / page, folder / page)
    monkeypatch.setattr(recipes, "__file__", str(folder / "keras_tying" / "zoo" / "recipes.py"))
    assert recipes.recipe_folder() == zoo
    return zoo


def made_pages(zoo: Path) -> dict[Path, str]:
    """The pages that `make zoo` makes of a zoo's folder."""
    return all_pages(zoo)


def legends_drawn(monkeypatch) -> list[str]:
    """Labels of the lines that are drawn until the end of the test."""
    labels, plot = [], Axes.plot

    def recorded(self, *arguments, **options):
        labels.append(options["label"])
        return plot(self, *arguments, **options)

    monkeypatch.setattr(Axes, "plot", recorded)
    return labels


def subwords_used(files: tuple[Path, Path], size: int) -> list[set[int]]:
    """Ids of the subwords, learnt from both files, that occur in each of them."""
    sides = [path.read_text(encoding="utf-8").splitlines() for path in files]
    subwords = data.Subwords.learn(data.sentences_of(zip(*sides, strict=True)), size)
    return [{int(i) for line in side for i in subwords.encode(line)} for side in sides]


def with_two_replicas(folder: Path, *commands: list) -> dict[str, np.ndarray]:
    """Runs train/lm.py with each list of arguments by two replicas; returns what two_replicas.py writes."""
    lines = [json.dumps([str(word) for word in each]) for each in commands]
    script = [sys.executable, "tests/promises/two_replicas.py", str(folder), *lines]
    process = subprocess.run(script, cwd=REPOSITORY, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    return dict(np.load(folder / "outputs.npz"))
