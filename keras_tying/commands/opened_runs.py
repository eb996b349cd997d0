"""The runs that a training command trains: existing ones, or new ones."""

import argparse
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from keras_tying.commands.changed_runs import change_epochs, check_can_be_recorded, check_same_settings
from keras_tying.commands.continued_models import continued_task
from keras_tying.commands.new_settings import new_settings
from keras_tying.commands.text import check_are_files
from keras_tying.distribution import Distribution
from keras_tying.training.engine import check_continues, create_runs
from keras_tying.training.runs import Run
from keras_tying.training.task import Task, open_task


def resumed_runs(
    task_class: type[Task], arguments: argparse.Namespace, distribution: Distribution
) -> list[tuple[Task, Run]]:
    """The runs of `--resume`. With `--epochs` the chief changes their settings; all are checked before."""
    runs = find_runs(task_class, arguments.resume)
    if not Run(arguments.resume).config.is_file():
        _check_none_missing(runs)
    resumed = _open_each(task_class, runs)

    def change_all() -> None:
        for task, run in resumed:  # what it needs may be missing, or another text: then nothing is changed
            task.open_text()
            check_continues(task, run, arguments.from_scratch)
        change_epochs(runs, arguments.epochs, arguments.record)

    def check_unfinished() -> None:
        for task, run in resumed:
            if not run.results.exists():
                check_continues(task, run, from_scratch=True)

    if arguments.epochs is not None:
        distribution.on_chief(change_all)
        return _open_each(task_class, runs)
    if arguments.record:
        for task, _ in resumed:
            check_can_be_recorded(task.settings)
    if arguments.from_scratch and len(resumed) > 1:
        distribution.on_chief(check_unfinished)
    return resumed


def new_runs(
    task_class: type[Task], arguments: argparse.Namespace, distribution: Distribution
) -> list[tuple[Task, Run]]:
    """The runs of the command's recipes, made by the chief. With `--restartable` those that exist are opened."""
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
        made = {folder: _new_task(task_class, arguments, recipe, files) for recipe, folder in folders.items()}
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

    return distribution.chief_first(make_missing, lambda: _open_each(task_class, map(Run.open, folders.values())))


def _new_task(
    task_class: type[Task], arguments: argparse.Namespace, recipe: str, files: dict[str, list[list[Path]]] | None
) -> Task:
    if "from" in arguments.given:
        return continued_task(arguments, files)
    return task_class(new_settings(task_class, arguments, recipe, files))


def _open_each(task_class: type[Task], runs: Iterable[Run]) -> list[tuple[Task, Run]]:
    return [(open_task(task_class, run), run) for run in runs]


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


def find_runs(task_class: type[Task], folder: Path) -> list[Run]:
    """The run that a folder is, or the runs of this task in it."""
    runs = Run.find(folder)
    return [run for run in runs if run.settings().recipe.task == task_class.name] or runs
