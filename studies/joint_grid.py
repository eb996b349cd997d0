"""Training the grids of joint language models that `zoo/studies/nnjm.toml` lists."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import keras
import numpy as np
from keras_tying.training.joint_language_model import JointSchedule, train_joint_language_model
from keras_tying.training.joint_runs import (
    JointData,
    JointFiles,
    JointRunSettings,
    align_files,
    joint_results,
    texts,
    vocabularies,
)
from pydantic import Field

from keras_tying.data import JointSamples, Vocabulary
from keras_tying.tables import Table, dump_table, load_table
from keras_tying.training import Run, environment
from keras_tying.zoo.joint_language_models import create_joint_model
from studies.pages import Section
from studies.results import ZOO, read_results, write_results


class Cell(Table):
    """A model that is trained with several seeds."""

    model: str
    """Name in the zoo."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the zoo's function, except the sizes of the text; `learning_rate` replaces the schedule's."""
    word_vectors: str | None = None
    """Cell whose trained word vectors, of the same seed, are its initial ones."""

    @property
    def model_arguments(self) -> dict[str, Any]:
        return {name: value for name, value in self.arguments.items() if name != "learning_rate"}


Todo = tuple[str, Cell, int]
"""A cell to train: its name, the cell and a seed."""


class Point(Cell):
    """A cell that is a point of a curve."""

    at: float


class Group(Table):
    seeds: int = Field(ge=1)
    cells: dict[str, Cell]


class Grid(Table):
    """Cells that are trained on one text."""

    title: str
    groups: list[str]
    """Names of groups, or `"sweeps"`, in the order of training."""
    data: JointData
    schedule: JointSchedule
    files: dict[str, JointFiles]
    """Files of each split, relative to the data folder; splits without an alignment are aligned."""


class PerplexityTable(Section):
    """A table of the page, one row per cell."""

    split: Literal["valid", "test"] = "test"
    published: dict[str, float] = Field(default_factory=dict)
    rows: list[str] | None = None
    """Names of cells. Default: those with a published perplexity."""


class Pair(Table):
    lower: str
    higher: str


class Ordering(Section):
    """Pairs of cells, of which the first is expected to have the lower test perplexity."""

    lower: str
    """Title of the column of the first cells."""
    higher: str
    pairs: list[Pair]


class Pictures(Table):
    grid: str
    weights: str
    """Cell of the grid whose first layer is drawn."""
    window: int
    """Window of that cell."""
    history: str
    """Cell of the grid whose perplexity is drawn by epoch."""
    captions: dict[str, str]
    """Captions by the plot's name, in the order of the page."""


class JointStudy(Section):
    """`studies/nnjm.toml` of the zoo."""

    columns: list[str]
    """Grids whose results are columns of the tables."""
    sentence_length: int
    """Maximum number of source words in the global context."""
    grids: dict[str, Grid]
    groups: dict[str, Group]
    sweeps: dict[str, list[Point]]
    """Points of curves, by the quantity that changes; each is the cell `"QUANTITY, INDEX"`, with one seed."""
    tables: list[PerplexityTable]
    orderings: list[Ordering]
    pictures: Pictures

    def todo(self, grid: str, seeds: int | None = None, main_only: bool = False) -> Iterator[Todo]:
        """Cells with their names and seeds, in the order of training.

        Args:
            grid: Name of a grid.
            seeds: Maximum number of seeds per cell.
            main_only: Whether to skip all groups except the first.
        """
        points: dict[str, Cell] = {
            f"{quantity}, {i}": point for quantity, points in self.sweeps.items() for i, point in enumerate(points)
        }
        groups = {**self.groups, "sweeps": Group(seeds=1, cells=points)}
        for name in self.grids[grid].groups[: 1 if main_only else None]:
            for seed in range(1, min(groups[name].seeds, seeds or groups[name].seeds) + 1):
                for cell_name, cell in groups[name].cells.items():
                    yield cell_name, cell, seed


def load_study(folder: Path = ZOO) -> JointStudy:
    """Reads `studies/nnjm.toml` of a folder."""
    return load_table(JointStudy, folder / "studies" / "nnjm.toml")


def results_file(folder: Path, grid: str) -> Path:
    """Path of a grid's results in the zoo's folder."""
    return folder / "results" / f"nnjm_{grid.replace('-', '_')}.json"


def model_file(runs: Path, cell: str, seed: int) -> Path:
    """Path of a trained model in the folder of its grid's runs."""
    words = "".join(letter if letter.isalnum() else " " for letter in cell.lower()).split()
    return runs / f"{'-'.join(words)}-{seed}.keras"


def train_grid(
    study: JointStudy, name: str, todo: Iterable[Todo], data_dir: Path, runs: Path, folder: Path = ZOO
) -> None:
    """Trains the cells of a grid that have no results, and writes the results after each of them.

    A cell whose training was interrupted is resumed.

    Args:
        study: The study.
        name: Name of a grid.
        todo: Cells of the grid, as `study.todo` gives them.
        data_dir: Folder of the grid's files.
        runs: Folder of runs; the trained models stay there.
        folder: The zoo's folder, which has the results.

    Raises:
        FileNotFoundError: If a text is missing, or a model whose word vectors are needed.
        ValueError: If there are results of other settings.
        TrainingInterrupted: If SIGINT or SIGTERM asked to stop.
        TrainingDiverged: If a loss becomes NaN or infinite.
    """
    grid, runs = study.grids[name], runs / name
    path = results_file(folder, name)
    settings = {"data": grid.data.model_dump(), "schedule": grid.schedule.model_dump()}
    recorded = read_results(path) or {"cells": {}, **settings}
    if settings != {part: recorded[part] for part in settings}:
        raise ValueError(f"{path} has results of other settings than the study's. Expected: {settings}. Remove it.")
    cells = recorded["cells"]
    done = {(cell_name, int(seed)) for cell_name, cell in cells.items() for seed in cell["runs"]}
    todo = [(cell_name, cell, seed) for cell_name, cell, seed in todo if (cell_name, seed) not in done]
    if not todo:
        return
    bitexts = texts(_files(grid, data_dir, runs / "alignment"), grid.data)
    words = vocabularies(bitexts["train"], grid.data)
    samples = {split: text.encode(*words) for split, text in bitexts.items()}
    results = {
        "grid": name,
        "command": f"python train/nnjm_grid.py {name} --data-dir DIR",
        **settings,
        "samples": {split: len(each) for split, each in samples.items()},
        **environment(),
        "cells": cells,
    }
    for cell_name, cell, seed in todo:
        print(f"{name}: {cell_name}, seed {seed}", flush=True)
        model = _build(study, cell, seed, words, runs)
        measured = _train(model, grid, cell, seed, samples, words, model_file(runs, cell_name, seed))
        entry = cells.setdefault(cell_name, {"model": cell.model, "arguments": cell.arguments, "runs": {}})
        entry["runs"][str(seed)] = measured
        write_results(path, results)


def _files(grid: Grid, data_dir: Path, alignment: Path) -> dict[str, JointFiles]:
    """The grid's files in the data folder; missing alignments are made once and kept in `alignment`."""
    files = {
        split: JointFiles(**{part: str(data_dir / file) for part, file in each.model_dump(exclude_none=True).items()})
        for split, each in grid.files.items()
    }
    if all(each.alignment for each in files.values()):
        return files
    kept = {split: alignment / f"{i}.align" for i, split in enumerate(files)}
    if not all(path.exists() for path in kept.values()):
        return align_files(files, grid.data.tokenization, alignment)
    return {split: each.model_copy(update={"alignment": str(kept[split])}) for split, each in files.items()}


def _build(study: JointStudy, cell: Cell, seed: int, words: tuple[Vocabulary, Vocabulary], runs: Path) -> keras.Model:
    keras.utils.set_random_seed(seed)
    keras.backend.clear_session()
    source, target = map(len, words)
    model = create_joint_model(cell.model, target, source, study.sentence_length, **cell.model_arguments)
    if cell.word_vectors:
        start = model_file(runs, cell.word_vectors, seed)
        if not start.exists():
            raise FileNotFoundError(f"There is no {start}, whose word vectors are needed. Train that cell here first.")
        model.bootstrap(**keras.saving.load_model(start).word_vectors)
    return model


def _train(
    model: keras.Model,
    grid: Grid,
    cell: Cell,
    seed: int,
    samples: dict[str, JointSamples],
    words: tuple[Vocabulary, Vocabulary],
    path: Path,
) -> dict[str, Any]:
    """Trains a model or resumes its training, saves it at `path` and returns its results."""
    source, target = words
    rate = cell.arguments.get("learning_rate", grid.schedule.learning_rate)
    schedule = grid.schedule.model_copy(update={"learning_rate": rate})
    settings = JointRunSettings(
        model=cell.model,
        arguments=cell.model_arguments,
        data=grid.data,
        schedule=schedule,
        seed=seed,
        command="",
        files={},
        source_vocabulary_sha256=source.sha256,
        target_vocabulary_sha256=target.sha256,
    )
    folder = path.with_suffix("")
    run = Run.open(folder) if folder.exists() else Run.create(folder, dump_table(settings))
    progress = train_joint_language_model(model, samples["train"], samples["valid"], target, schedule, run, seed)
    results = joint_results(model, samples, settings, progress)
    model.save(path)
    shutil.rmtree(folder)
    return {
        **{split: results[f"{split}_perplexity"] for split in ("train", "valid", "test")},
        **{name: results[name] for name in ("parameters", "epochs", "samples_per_second")},
        "valid_by_epoch": [logs["val_perplexity"] for logs in results["history"]],
        "position_weights": position_weights(model),
    }


def word_weights(model) -> np.ndarray:
    """|W| of the first hidden layer, for the words of window and history.

    Args:
        model: A `JointLanguageModel`.

    Returns:
        `[window + order - 1, embedding_size, units]`: window first, then history, oldest first.

    Reference:
        Zhang and Qi, Neural Network Joint Language Model, section 5.1.2.
    """
    weights = np.abs(keras.ops.convert_to_numpy(model.hidden_layers[0].kernel))
    size, window, history = model.embedding_size, model.window * model.embedding_size, model.order - 1
    words = np.concatenate([weights[:window], weights[len(weights) - history * size :]])  # between: global context
    return words.reshape(model.window + history, size, -1)


def position_weights(model) -> list[float]:
    """Mean |W| of each word of window and history."""
    return [round(float(value), 6) for value in word_weights(model).mean(axis=(1, 2))]
