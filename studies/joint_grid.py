"""Training of the grids of joint language models."""

import math
import shutil
import statistics
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_tying.data import Bitext, JointSamples, Vocabulary, align, load_parallel, vectors_for
from keras_tying.files import locked, replacing
from keras_tying.tasks import JointLanguageModelTask
from keras_tying.tasks.joint_language_model import bitexts
from keras_tying.training import Run, RunSettings, environment, fit, trained_in
from keras_tying.training.environments import training_record
from keras_tying.zoo.recipes import JointLanguageModelRecipe, Model, recipe_folder
from studies.joint_study import Cell, Grid, JointStudy, Todo, model_file, results_file
from studies.results import read_results, write_results

SPLITS = {"train": "train", "valid": "validation", "test": "test"}
"""Splits in the results of a grid, and in the names of metrics."""


OF_A_TRAINING = ("epochs", "samples_per_second", "wall_time_seconds", "device", "commit", "versions")
"""What the results of a grid keep of the record of each training; the seed is its key there."""


def best_rate(results: dict[str, Any]) -> float:
    """The learning rate whose cells have the lowest validation perplexities: the lowest mean of their logarithms.

    Args:
        results: Results of a grid whose cells have the argument `learning_rate`.

    Raises:
        ValueError: If the rates were not all measured with the same models and seeds, or there are none.

    Example:

    >>> def cell(rate, valid):
    ...     return {"model": "nnjm", "arguments": {"learning_rate": rate}, "runs": {"1": {"valid": valid}}}
    >>> best_rate({"cells": {"NNJM, rate 1.0": cell(1.0, 8.5), "NNJM, rate 2.0": cell(2.0, 8.1)}})
    2.0
    """
    by_rate: dict[float, dict[str, float]] = {}
    for cell in results["cells"].values():
        rate = cell["arguments"]["learning_rate"]
        others = {name: value for name, value in cell["arguments"].items() if name != "learning_rate"}
        for seed, run in cell["runs"].items():
            by_rate.setdefault(rate, {})[f"{cell['model']} {sorted(others.items())} {seed}"] = run["valid"]
    if len({frozenset(measured) for measured in by_rate.values()}) != 1:
        raise ValueError(
            "The learning rates must be measured with the same models and seeds. Received, by rate: "
            f"{ {rate: len(measured) for rate, measured in by_rate.items()} }. Train the rest of their grid first."
        )
    return min(by_rate, key=lambda rate: statistics.fmean(map(math.log, by_rate[rate].values())))


def _with_chosen_rate(study: JointStudy, name: str, folder: Path) -> Grid:
    """The grid, with the learning rate that the results of `rates_of` choose."""
    grid = study.grids[name]
    if grid.rates_of is None:
        return grid
    path = results_file(folder, grid.rates_of)
    results = read_results(path) or {"cells": {}}
    measured = _measured(path)
    missing = [cell for cell, _, seed in study.todo(grid.rates_of) if (cell, seed) not in measured]
    if missing:
        raise ValueError(
            f"The learning rate of the grid {name} is chosen by the results of all cells of {grid.rates_of}. "
            f"Missing in {path}: {missing}. Train that grid first."
        )
    rate = best_rate(results)
    return grid.model_copy(update={"optimisation": grid.optimisation.model_copy(update={"learning_rate": rate})})


def train_grid(
    study: JointStudy, name: str, todo: Iterable[Todo], data_dir: Path, runs: Path, folder: Path | None = None
) -> None:
    """Trains the cells of a grid that have no results, and adds the results of each of them to the grid's.

    A cell whose training was interrupted is resumed. Several processes can train one grid at once: each takes the next
    cell that no other is training.

    Args:
        study: The study.
        name: Name of a grid.
        todo: Cells of the grid, as `study.todo` gives them.
        data_dir: Folder of the grid's files.
        runs: Folder of runs; the trained models stay there. All processes that train a grid have the same.
        folder: The zoo's folder, which has the results. Default: where the recipes are.

    Raises:
        FileNotFoundError: If a text is missing, or a model whose word vectors are needed.
        ValueError: If there are results of other settings, or the results that choose the learning rate are missing.
        TrainingInterrupted: If SIGINT or SIGTERM asked to stop.
        TrainingDiverged: If a loss becomes NaN or infinite.
    """
    folder = folder or recipe_folder()
    grid = _with_chosen_rate(study, name, folder)
    alignment, runs = runs / (grid.rates_of or name) / "alignment", runs / name
    path = results_file(folder, name)
    settings = {"data": grid.data.model_dump(), "optimisation": grid.optimisation.model_dump()}
    recorded = read_results(path) or settings
    if any(settings[part].get(name) != value for part in settings for name, value in recorded[part].items()):
        raise ValueError(
            f"{path} has results of other settings than the study's. Expected: {settings}. Move it elsewhere."
        )
    measured = _measured(path)
    todo = [each for each in todo if (each[0], each[2]) not in measured]
    if not todo:
        return
    for needed in (runs, alignment.parent):
        needed.mkdir(parents=True, exist_ok=True)
    with locked(alignment.parent / "grid.lock"):  # links that two processes make at once would differ
        texts = bitexts(_files(grid, data_dir, alignment, folder), grid.data)
    words = texts["train"].vocabularies(grid.data.source_vocabulary_size, grid.data.target_vocabulary_size)
    samples = {split: text.encode(*words) for split, text in texts.items()}
    about = {
        "grid": name,
        "command": f"python train/nnjm_grid.py {name} --data-dir DIR",
        **settings,
        "samples": {split: len(each) for split, each in samples.items()},
    }
    for each in todo:
        cell_name, cell, seed = each
        trained = model_file(runs, cell_name, seed)
        with claimed(trained) as is_free:
            if not is_free or (cell_name, seed) in _measured(path):  # by another process, since this one began
                continue
            print(f"{name}: {cell_name}, seed {seed}", flush=True)
            task = make_task(grid, cell, seed, samples, words)
            length = grid.sentence_length or study.sentence_length
            figures = _train(task, _build(task, length, cell, runs, data_dir), trained)
            with locked(runs / "grid.lock"):
                _record(path, about, each, figures)
            shutil.rmtree(trained.with_suffix(""))


@contextmanager
def claimed(trained: Path) -> Iterator[bool]:
    """Keeps other processes from training a cell. Yields `False` if one of them is training it.

    Args:
        trained: Path of the trained model.
    """
    lock = trained.with_suffix(".lock")
    with ExitStack() as held:
        try:
            held.enter_context(locked(lock, f"{trained} is being trained by another process."))
        except BlockingIOError:
            yield False
            return
        yield True


def _measured(path: Path) -> set[tuple[str, int]]:
    """The cells and seeds that the results at a path have."""
    cells = (read_results(path) or {"cells": {}})["cells"]
    return {(cell, int(seed)) for cell, entry in cells.items() for seed in entry["runs"]}


def _record(path: Path, about: dict[str, Any], todo: Todo, measured: dict[str, Any]) -> None:
    """Adds the results of a cell and seed to those of a grid."""
    cell_name, cell, seed = todo
    recorded = read_results(path)
    cells = recorded["cells"] if recorded else {}
    entry = cells.setdefault(cell_name, {"model": cell.model, "arguments": cell.arguments, "runs": {}})
    entry["runs"][str(seed)] = measured
    environments = [*([recorded] if recorded else []), environment()]
    write_results(path, {**about, **trained_in(environments), "cells": cells})


def _files(grid: Grid, data_dir: Path, alignment: Path, folder: Path) -> dict[str, list[Path]]:
    """The grid's files in the data folder, with its links; missing links are made once and kept in `alignment`."""
    if grid.corpus:
        splits = load_parallel(grid.corpus, *grid.languages, data_dir).splits
        pairs = {split: part for split, (part,) in splits.items() if isinstance(part, Bitext)}
        files = {split: [part.source, part.target] for split, part in pairs.items()}
    else:
        files = {split: [data_dir / file for file in each] for split, each in grid.files.items()}
    if grid.links:
        return {split: [*each, folder / grid.links / f"{split}.align.gz"] for split, each in files.items()}
    if all(len(each) == 3 for each in files.values()):
        return files
    kept = {split: alignment / f"{i}.align" for i, split in enumerate(files)}
    if not all(path.exists() for path in kept.values()):
        align([Bitext.of(each[:2], grid.data.tokenization) for each in files.values()], alignment)
    return {split: [*each[:2], kept[split]] for split, each in files.items()}


def make_task(
    grid: Grid, cell: Cell, seed: int, samples: dict[str, JointSamples], words: tuple[Vocabulary, Vocabulary]
) -> JointLanguageModelTask:
    """The task that trains a cell."""
    rate = cell.arguments.get("learning_rate", grid.optimisation.learning_rate)
    recipe = JointLanguageModelRecipe(
        model=Model(name=cell.model, arguments=cell.model_arguments),
        data=grid.data,
        optimisation=grid.optimisation.model_copy(update={"learning_rate": rate}),
    )
    task = JointLanguageModelTask(RunSettings(recipe_name="", seed=seed, command="", recipe=recipe))
    task.vocabularies = dict(zip(task.vocabulary_kinds, words, strict=True))
    task.samples = samples
    return task


def _build(task: JointLanguageModelTask, length: int, cell: Cell, runs: Path, data_dir: Path) -> keras.Model:
    keras.utils.set_random_seed(task.settings.seed)
    keras.backend.clear_session()
    model = task.build_model_for(length)
    if cell.word_vectors:
        start = model_file(runs, cell.word_vectors, task.settings.seed)
        if not start.exists():
            raise FileNotFoundError(f"There is no {start}, whose word vectors are needed. Train that cell here first.")
        model.bootstrap(**keras.saving.load_model(start).word_vectors)
    for side, file in cell.vectors.items():
        vocabulary, layer = {
            "source": (task.source_vocabulary, model.source_embedding),
            "target": (task.vocabulary, model.embedding),
        }[side]
        model.bootstrap(**{side: vectors_for(vocabulary, data_dir / file)})
        layer.trainable = False
    return model


def _train(task: JointLanguageModelTask, model: keras.Model, path: Path) -> dict[str, Any]:
    """Trains a model or resumes its training, saves it at `path` and returns its results."""
    folder = path.with_suffix("")
    run = Run.open(folder) if folder.exists() else Run.create(folder, task.settings, lambda _: None)
    progress = fit(task, model, run)
    results = {**task.measure(model), **training_record(task.settings, progress, task.unit, task.epoch_size)}
    with replacing(path) as new:
        model.save(new)
    return {
        **{split: results[f"{name}_perplexity"] for split, name in SPLITS.items()},
        "parameters": model.count_params(),
        **{name: results[name] for name in OF_A_TRAINING},
        "valid_by_epoch": [metrics["val_perplexity"] for metrics in progress.history],
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
