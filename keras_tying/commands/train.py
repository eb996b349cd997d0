"""The work of all training commands: new run, resume, evaluate."""

import argparse
import logging
from pathlib import Path
from typing import Any

import keras

from keras_tying.commands.inference import MODES
from keras_tying.commands.opened_runs import find_runs, new_runs, resumed_runs
from keras_tying.commands.text import check_data_dir
from keras_tying.distribution import open_distribution
from keras_tying.errors import TrainingInterrupted
from keras_tying.pretrained.loading import model_of, open_trained
from keras_tying.training.engine import export, train
from keras_tying.training.runs import Run
from keras_tying.training.task import Task, open_task
from keras_tying.zoo.presets import MANIFEST
from keras_tying.zoo.records import record_measured

log = logging.getLogger(__name__)


def run_training(task_class: type[Task], arguments: argparse.Namespace) -> int:
    """Trains, resumes or evaluates runs of one task, or runs another of its modes.

    Args:
        task_class: The task.
        arguments: The command's arguments.

    Returns:
        The exit code.
    """
    if arguments.evaluate:
        return _evaluate(task_class, arguments)
    if arguments.export:
        return _export(task_class, arguments.export, arguments.given.get("precision"))
    if arguments.mode in MODES:
        return MODES[arguments.mode](arguments)

    distribution = open_distribution(arguments.strategy, arguments.replicas, arguments.wait_minutes)
    open_runs = resumed_runs if arguments.resume else new_runs
    runs = open_runs(task_class, arguments, distribution)
    for task, run in runs:
        if len(runs) == 1 or (arguments.resume and arguments.epochs is not None) or not run.results.exists():
            try:
                train(task, run, distribution, arguments.checkpoint_minutes, arguments.from_scratch)
            except TrainingInterrupted as stopped:
                only = run.folder if len(runs) == 1 else None
                stopped.run = arguments.resume or only  # the first holds several runs, if they are resumed together
                stopped.options = _kept_options(arguments)
                raise
        elif distribution.is_chief:
            print(f"{run.folder} is finished")
        if arguments.record and distribution.is_chief:
            record_measured(task.settings.recipe_name, task.recipe, run.read_results())
    return 0


def _kept_options(arguments: argparse.Namespace) -> list[str]:
    """The options that a run which is continued on this machine needs again."""
    kept = ["--record"] if arguments.record else []
    if arguments.strategy == "mirrored":
        kept += ["--strategy", "mirrored"]
    if arguments.replicas:
        kept += ["--replicas", str(arguments.replicas)]
    return kept


def _finished(runs: list[Run]) -> list[Run]:
    """The runs whose training has ended. A warning names the others; FileNotFoundError if there are only such."""
    finished = [run for run in runs if run.model.exists()]
    if not finished:
        runs[0].check_finished()
    for run in runs:
        if run not in finished:
            log.warning("%s is left out: it has no trained model yet.", run.folder)
    return finished


def _evaluate(task_class: type[Task], arguments: argparse.Namespace) -> int:
    for task, folder in _trained(task_class, arguments.evaluate):
        if data_dir := getattr(arguments, "data_dir", None):
            _change_data_dir(task, folder, data_dir)
        keras.utils.set_random_seed(task.settings.seed)
        run = Run(folder)
        results = run.read_results()  # before the model: they may be those of one that is older, but not of a newer one
        if not results and not (folder / MANIFEST).exists():
            log.warning(
                "%s has no results, as while it trains for more epochs: what is measured here is not stored.", folder
            )
        precision = arguments.given.get("precision", task.settings.precision)
        model = model_of(folder, precision)
        task.open_text()
        stored = bool(results)
        for line, metrics in task.evaluate(model, arguments):
            if precision != task.settings.precision:
                metrics |= {name: f"{metrics[name]}, {precision}" for name in metrics if name.endswith("_settings")}
            print(f"{folder.name:12} {line}" if folder.parent == arguments.evaluate else line, flush=True)
            if stored and metrics:
                stored = _store(run, results.get("history"), metrics)
    return 0


def _change_data_dir(task: Task, folder: Path, data_dir: Path) -> None:
    """Makes a task read its corpus from another folder. Raises ValueError if it has a text of its own."""
    if not task.reads_corpus:
        raise ValueError(f"{folder} has a text of its own, not a corpus. Received: --data-dir {data_dir}")
    check_data_dir(task.recipe.data.corpus, data_dir)
    task.settings = task.settings.model_copy(update={"data_dir": str(data_dir.absolute())})


def _store(run: Run, history: Any, metrics: dict[str, Any]) -> bool:
    """Adds metrics to the results of a run, if they are still those of this training. Returns whether it did."""
    try:
        with run.changing_results():
            now = run.read_results()
            if now.get("history") == history:
                run.write_results(now | metrics)
                return True
            log.warning("%s was trained meanwhile: its results do not get metrics of the earlier model.", run.folder)
            return False
    except OSError as error:
        log.warning("What is measured here is not stored: %s", error)
        return False


def _trained(task_class: type[Task], model: str | Path) -> list[tuple[Task, Path]]:
    """The task and the folder of a trained model of the zoo, of a run, or of each run in a folder."""
    if isinstance(model, Path) and not (model / MANIFEST).exists():
        return [(open_task(task_class, run), run.folder) for run in _finished(find_runs(task_class, model))]
    return [open_trained(model, task=task_class.name)]


def _export(task_class: type[Task], folder: Path, precision: str | None) -> int:
    for run in _finished(find_runs(task_class, folder)):
        export(open_task(task_class, run), run, precision)
        print(f"SavedModel      {run.saved_model}", flush=True)
    return 0
