"""The work of all training commands: new run, resume, evaluate."""

import argparse
import logging
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import keras

from keras_tying.commands.changed_runs import change_epochs, check_can_be_recorded, check_same_settings
from keras_tying.commands.continued_models import continued_task
from keras_tying.commands.inference import MODES
from keras_tying.commands.new_settings import new_settings
from keras_tying.commands.text import check_are_files, check_data_dir
from keras_tying.distribution import Distribution, open_distribution
from keras_tying.pretrained.loading import model_of, open_trained
from keras_tying.training.callbacks import TrainingInterrupted
from keras_tying.training.engine import check_continues, create_runs, export, train
from keras_tying.training.runs import Run
from keras_tying.training.task import Task, check_run, open_task
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

    def new_task(recipe: str, files: dict[str, list[list[Path]]] | None) -> Task:
        if "from" not in arguments.given:
            return task_class(new_settings(task_class, arguments, recipe, files))
        return continued_task(arguments, files)

    distribution = open_distribution(arguments.strategy, arguments.replicas, arguments.wait_minutes)
    runs = _open_runs(task_class, arguments, distribution, new_task)
    for task, run in runs:
        if len(runs) == 1 or (arguments.resume and arguments.epochs) or not run.results.exists():
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


def _open_runs(
    task_class: type[Task],
    arguments: argparse.Namespace,
    distribution: Distribution,
    new_task: Callable[[str, dict[str, list[list[Path]]] | None], Task],
) -> list[tuple[Task, Run]]:
    """The runs that the command trains: existing ones, or new ones, which the chief makes."""

    def open_each(runs: Iterable[Run]) -> list[tuple[Task, Run]]:
        return [(open_task(task_class, run), run) for run in runs]

    if arguments.resume:
        runs = _find_runs(task_class, arguments.resume)
        if not Run(arguments.resume).config.is_file():
            _check_none_missing(runs)
        resumed = open_each(runs)
        if arguments.epochs:

            def change() -> None:
                for task, run in resumed:  # what it needs may be missing, or another text: then nothing is changed
                    task.open_text()
                    check_continues(task, run, arguments.from_scratch)
                change_epochs(runs, arguments.epochs, arguments.record)

            distribution.chief_first(change, lambda: None)
            return open_each(runs)
        if arguments.record:
            for task, _ in resumed:
                check_can_be_recorded(task.settings)
        if arguments.from_scratch and len(resumed) > 1:

            def check() -> None:  # all that are not finished, before the first is trained
                for task, run in resumed:
                    if not run.results.exists():
                        check_continues(task, run, from_scratch=True)

            distribution.chief_first(check, lambda: None)
        return resumed
    folders = run_folders(arguments)

    def make_missing() -> list[tuple[Task, Run]]:
        existing = [folder for folder in folders.values() if arguments.restartable and Run(folder).config.is_file()]
        if arguments.from_scratch and not existing:  # when the same command is restarted, its run has checkpoints
            raise ValueError(
                "--from-scratch is for runs whose checkpoints are lost. Received: "
                f"{', '.join(map(str, folders.values()))}, where there is no run. Leave the option out."
            )
        for folder in folders.values():
            if folder not in existing:
                Run(folder).check_free()
        files = task_class.given_files(arguments)
        made = {folder: new_task(recipe, files) for recipe, folder in folders.items()}
        if arguments.record:
            for task in made.values():
                check_can_be_recorded(task.settings)
        for folder in existing:
            check_same_settings(Run(folder), made.pop(folder).settings)
        if made:
            check_are_files(group for groups in (files or {}).values() for group in groups)
            with tempfile.TemporaryDirectory() as temporary:
                task_class.complete(list(made.values()), [Run(folder) for folder in existing], Path(temporary))
                create_runs(made, distribution.replicas)
        return [(made.get(folder) or open_task(task_class, Run(folder)), Run(folder)) for folder in folders.values()]

    return distribution.chief_first(make_missing, lambda: open_each(map(Run.open, folders.values())))


def _check_none_missing(runs: Sequence[Run]) -> None:
    """Raises FileNotFoundError if a run is missing of those that one command made together."""
    expected = {run.folder.with_name(name): run for run in runs for name in run.settings().together}
    for folder, beside in expected.items():
        if not Run(folder).config.is_file():
            raise FileNotFoundError(
                f"The run {folder} is missing, which the command that made {beside.folder} makes too. Give that "
                "command again with --restartable, or resume each run by its own folder."
            )


def run_folders(arguments: argparse.Namespace) -> dict[str, Path]:
    """The folder of each recipe's run.

    Raises:
        ValueError: If two recipes would have the same folder.
    """
    if "from" in arguments.given:
        return {"": arguments.run or Path("runs") / f"{Path(arguments.given['from'][0]).name}_continued"}
    names = {recipe: Path(recipe).name.removesuffix(".toml") for recipe in arguments.recipe}
    if len(set(names.values())) < len(arguments.recipe):
        raise ValueError(f"Recipes of one command need different names. Received: {' '.join(arguments.recipe)}")
    if len(names) == 1:
        ((recipe, name),) = names.items()
        return {recipe: arguments.run or Path("runs") / name}
    return {recipe: (arguments.run or Path("runs")) / name for recipe, name in names.items()}


def _find_runs(task_class: type[Task], folder: Path) -> list[Run]:
    """The run that a folder is, or the runs of this task in it."""
    runs = Run.find(folder)
    return [run for run in runs if run.settings().recipe.task == task_class.name] or runs


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
            if task.settings.files or task.settings.prepared:
                raise ValueError(f"{folder} has a text of its own, not a corpus. Received: --data-dir {data_dir}")
            check_data_dir(task.recipe.data.corpus, data_dir)
            task.settings = task.settings.model_copy(update={"data_dir": str(data_dir.absolute())})
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
        for line, metrics in task.evaluate(model, arguments):
            if precision != task.settings.precision:
                metrics |= {name: f"{metrics[name]}, {precision}" for name in metrics if name.endswith("_settings")}
            print(f"{folder.name:12} {line}" if folder.parent == arguments.evaluate else line, flush=True)
            if not metrics or not results:
                continue
            now = run.read_results()
            if now.get("history") != results.get("history"):
                log.warning("%s was trained meanwhile: its results do not get metrics of the earlier model.", folder)
                results = {}
                continue
            try:
                run.write_results(now | metrics)
            except OSError as error:
                log.warning("What is measured here is not stored: %s", error)
                results = {}
    return 0


def _trained(task_class: type[Task], model: str | Path) -> list[tuple[Task, Path]]:
    """The task and the folder of a trained model of the zoo, of a run, or of each run in a folder."""
    if isinstance(model, Path) and not (model / MANIFEST).exists():
        return [(open_task(task_class, run), run.folder) for run in _finished(_find_runs(task_class, model))]
    task, folder = open_trained(model)
    check_run(task_class, Run(folder))
    return [(task, folder)]


def _export(task_class: type[Task], folder: Path, precision: str | None) -> int:
    for run in _finished(_find_runs(task_class, folder)):
        export(open_task(task_class, run), run, precision)
        print(f"SavedModel      {run.saved_model}", flush=True)
    return 0
