"""Training the cells of the study of joint language models; `zoo/results/nnjm_GRID.json` keeps what came of them."""

import shutil
from pathlib import Path
from typing import Any

import keras

from keras_tying.data import JointSamples, Vocabulary
from keras_tying.study.joint_plots import position_weights
from keras_tying.study.joint_study import Cell, Grid, JointStudy, results_file
from keras_tying.study.results import read_results, write_results
from keras_tying.tables import dump_table
from keras_tying.training import Run, environment
from keras_tying.training.joint_language_model import train_joint_language_model
from keras_tying.training.joint_runs import (
    JointFiles,
    JointRunSettings,
    align_files,
    joint_results,
    texts,
    vocabularies,
)
from keras_tying.zoo.joint_language_models import create_joint_model
from keras_tying.zoo.recipes import recipe_folder


def model_file(runs: Path, cell: str, seed: int) -> Path:
    """Where a trained model stays, in the folder of its grid's runs."""
    words = "".join(letter if letter.isalnum() else " " for letter in cell.lower()).split()
    return runs / f"{'-'.join(words)}-{seed}.keras"


def train_grid(
    study: JointStudy,
    name: str,
    data_dir: Path,
    runs: Path,
    folder: Path | None = None,
    seeds: int | None = None,
    main_only: bool = False,
) -> None:
    """Trains the cells of a grid that have no results yet, and writes the results after each of them.

    A cell whose training was interrupted goes on where it stood.

    Args:
        study: What is trained on what.
        name: Name of a grid.
        data_dir: Folder with its files.
        runs: Folder of runs, in which its trained models stay.
        folder: The zoo's, which has the results. Default: where the recipes are.
        seeds: Seeds of a cell at most.
        main_only: Whether to leave out all groups but the first.

    Raises:
        FileNotFoundError: If a text is not there, or a model whose word vectors are needed.
        ValueError: If there are results of other settings.
        TrainingInterrupted: If SIGINT or SIGTERM asked to stop.
        TrainingDiverged: If a loss becomes NaN or infinite.
    """
    grid = study.grids[name]
    path = results_file(folder or recipe_folder(), name)
    settings = {"data": grid.data.model_dump(), "schedule": grid.schedule.model_dump()}
    found = read_results(path) or {"cells": {}, **settings}
    if settings != {part: found[part] for part in settings}:
        raise ValueError(f"{path} has results of other settings than the study's. Expected: {settings}. Remove it.")
    cells = found["cells"]
    todo = [
        (cell_name, cell, seed)
        for cell_name, cell, seed in study.todo(name, seeds, main_only)
        if cell_name not in cells or str(seed) not in cells[cell_name]["runs"]
    ]
    if not todo:
        return
    bitexts = texts(_files(grid, data_dir, runs / name / "alignment"), grid.data)
    words = vocabularies(bitexts["train"], grid.data)
    samples = {split: text.encode(*words) for split, text in bitexts.items()}
    found = {
        "grid": name,
        "command": f"python train/nnjm_grid.py {name} --data-dir DIR",
        **settings,
        "samples": {split: len(each) for split, each in samples.items()},
        **environment(),
        "cells": cells,
    }
    for cell_name, cell, seed in todo:
        print(f"{name}: {cell_name}, seed {seed}", flush=True)
        entry = cells.setdefault(cell_name, {"model": cell.model, "arguments": cell.arguments, "runs": {}})
        model = _build(study, cell, seed, words, runs / name)
        entry["runs"][str(seed)] = _train(
            model, grid, cell, seed, samples, words, model_file(runs / name, cell_name, seed)
        )
        write_results(path, found)


def _files(grid: Grid, data_dir: Path, alignment: Path) -> dict[str, JointFiles]:
    """The grid's files where they are; links that are missing are made once and kept in `alignment`."""
    files = {
        split: JointFiles(**{part: str(data_dir / file) for part, file in each.model_dump(exclude_none=True).items()})
        for split, each in grid.files.items()
    }
    if all(each.alignment for each in files.values()):
        return files
    kept = {split: alignment / f"{place}.align" for place, split in enumerate(files)}
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
    """Trains a model, from where it stood if it was interrupted, saves it at `path` and returns its figures."""
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
        "train": results["train_perplexity"],
        "valid": results["valid_perplexity"],
        "test": results["test_perplexity"],
        "parameters": results["parameters"],
        "epochs": results["epochs"],
        "samples_per_second": results["samples_per_second"],
        "valid_by_epoch": [logs["val_perplexity"] for logs in results["history"]],
        "position_weights": position_weights(model),
    }
