"""The command line of all training commands: new run, resume, evaluate."""

import argparse
import json
import shutil
import tomllib
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import keras

from keras_tying.commands.exit_codes import run_command
from keras_tying.distribution import STRATEGIES, Distribution, open_distribution
from keras_tying.tables import validate_table
from keras_tying.training.checkpoints import CheckpointStore
from keras_tying.training.engine import create_run, train
from keras_tying.training.runs import Run, RunSettings
from keras_tying.training.task import Task, check_task, open_task
from keras_tying.zoo.recipes import Precision, Recipe, check_recordable, load_recipe, record_measured

NOT_REPRODUCED = {
    *("run", "resume", "evaluate", "restartable", "record", "checkpoint_minutes"),
    *("strategy", "replicas", "wait_minutes", "data_dir", "recipe", "seed"),
}
"""Arguments that a reproducing command leaves out, or names at a fixed place."""

WITH_RESUME = {
    "recipe",
    "resume",
    "record",
    "restartable",
    "checkpoint_minutes",
    "strategy",
    "replicas",
    "wait_minutes",
}
"""Arguments that a resumed run takes. All others are in its settings."""


def train_command(task_class: type[Task], argv: Sequence[str]) -> int:
    """Trains, resumes or evaluates runs of one task, or runs another of its modes.

    Args:
        task_class: The task.
        argv: The command's arguments.

    Returns:
        The exit code.
    """
    parser = make_parser(task_class)
    arguments = parser.parse_args(argv)
    return run_command(
        lambda: _work(task_class, parser, arguments),
        f"Continue with: python {task_class.script} --resume {{run}}",
    )


def make_parser(task_class: type[Task]) -> argparse.ArgumentParser:
    """The parser of a training command. All commands share its arguments, except those of the task."""
    parser = argparse.ArgumentParser(
        prog=task_class.script, description=task_class.usage, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--recipe",
        nargs="+",
        default=list(task_class.default_recipes),
        metavar="RECIPE",
        help=f"names of recipes, or TOML files; default: {' '.join(task_class.default_recipes)}",
    )
    mode.add_argument("--resume", type=Path, metavar="RUN", help="continue a run, or all runs in a folder")
    mode.add_argument("--evaluate", type=Path, metavar="RUN", help="measure a trained run, or all runs in a folder")
    for name, (text, _) in task_class.modes().items():
        if text.startswith("RUN:"):
            mode.add_argument(f"--{name}", type=Path, metavar="RUN", help=text.removeprefix("RUN:").strip())
        else:
            parser.add_argument(f"--{name}", action="store_true", help=text)
    run = parser.add_argument_group("run")
    run.add_argument("--run", type=Path, metavar="FOLDER", help="folder of the run; default: runs/RECIPE")
    run.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    run.add_argument("--epochs", type=int, help="instead of the recipe's number")
    run.add_argument("--precision", choices=get_args(Precision), default="float32", help="default: %(default)s")
    run.add_argument(
        "--set", nargs="+", default=[], metavar="KEY=VALUE", help="change the recipe: optimisation.learning_rate=0.5"
    )
    run.add_argument("--checkpoint-minutes", type=float, default=5.0, help="time between checkpoints; default: 5")
    run.add_argument("--restartable", action="store_true", help="continue the run if its folder exists")
    run.add_argument("--record", action="store_true", help="write the results into the recipe")
    material = parser.add_argument_group("text and model")
    material.add_argument("--data-dir", type=Path, metavar="DIR", help="folder of the corpus, instead of a download")
    task_class.add_arguments(material)  # type: ignore[arg-type]  # a group takes arguments as a parser does
    place = parser.add_argument_group("distribution, see docs/distributed.md")
    place.add_argument("--strategy", choices=STRATEGIES, default="auto", help="default: %(default)s")
    place.add_argument("--replicas", type=int, help="mirrored: number of GPUs, or of parts of the processor")
    place.add_argument("--wait-minutes", type=float, default=10.0, help="multiworker: maximum wait for other workers")
    return parser


def _work(task_class: type[Task], parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    def new_task(recipe: str, files: dict[str, list[list[Path]]] | None) -> Task:
        return task_class(_new_settings(task_class, parser, arguments, recipe, files))

    if arguments.evaluate:
        return _evaluate(task_class, arguments)
    for name, (_, mode) in task_class.modes().items():
        if getattr(arguments, name):
            return mode(arguments, lambda: new_task(arguments.recipe[0], task_class.given_files(arguments)))
    if arguments.resume:
        _check_only_resumes(parser, arguments)
    distribution = open_distribution(arguments.strategy, arguments.replicas, arguments.wait_minutes)
    folders = [] if arguments.resume else run_folders(arguments).values()
    new = [folder for folder in folders if not Run(folder).config.is_file()]
    runs = _open_runs(task_class, arguments, distribution, new_task)
    for task, run in runs:
        if len(runs) == 1 or not run.results.exists():
            with _removed_unless_begun(run, run.folder in new and distribution.is_chief):
                train(task, run, distribution, arguments.checkpoint_minutes)
        if arguments.record and distribution.is_chief:
            record_measured(task.settings.recipe_name, task.recipe, json.loads(run.results.read_text()))
    return 0


def _check_only_resumes(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    given = [name for name, value in vars(arguments).items() if value != parser.get_default(name)]
    if others := [f"--{name.replace('_', '-')}" for name in given if name not in WITH_RESUME]:
        raise ValueError(f"--resume continues a run with the settings it has. Received also: {', '.join(others)}")


@contextmanager
def _removed_unless_begun(run: Run, is_new: bool):
    """Removes a new run whose settings turn out to be wrong before its first checkpoint."""
    try:
        yield
    except ValueError:
        if is_new and CheckpointStore(run.checkpoints).newest() is None:
            shutil.rmtree(run.folder)
        raise


def _open_runs(
    task_class: type[Task],
    arguments: argparse.Namespace,
    distribution: Distribution,
    new_task: Callable[[str, dict[str, list[list[Path]]] | None], Task],
) -> list[tuple[Task, Run]]:
    """The runs that the command trains: existing ones, or new ones, which the chief makes."""
    if arguments.resume:
        return [(open_task(task_class, run), run) for run in _find_runs(task_class, arguments.resume)]
    folders = run_folders(arguments)

    def make_or_open() -> list[tuple[Task, Run]]:
        existing = [folder for folder in folders.values() if arguments.restartable and Run(folder).config.is_file()]
        files = None
        if len(existing) < len(folders):
            for folder in folders.values():
                if folder not in existing:
                    Run(folder).check_free()
            files = task_class.given_files(arguments)
        tasks = {recipe: new_task(recipe, files) for recipe, folder in folders.items() if folder not in existing}
        if arguments.record:
            for recipe, task in tasks.items():
                check_recordable(recipe, task.recipe)
        task_class.complete(list(tasks.values()), next(iter(folders.values())))
        for recipe, task in tasks.items():
            create_run(task, folders[recipe])
        return open_all()

    def open_all() -> list[tuple[Task, Run]]:
        return [(open_task(task_class, run), run) for run in map(Run.open, folders.values())]

    return distribution.chief_first(make_or_open, open_all)


def run_folders(arguments: argparse.Namespace) -> dict[str, Path]:
    """The folder of each recipe's run."""
    if len(arguments.recipe) == 1:
        (recipe,) = arguments.recipe
        return {recipe: arguments.run or Path("runs") / Path(recipe).stem}
    return {recipe: (arguments.run or Path("runs")) / Path(recipe).stem for recipe in arguments.recipe}


def _new_settings(
    task_class: type[Task],
    parser: argparse.ArgumentParser,
    arguments: argparse.Namespace,
    recipe_name: str,
    files: dict[str, list[list[Path]]] | None,
) -> RunSettings:
    recipe = load_recipe(recipe_name, task_class.name)  # type: ignore[arg-type]  # each class has one of the names
    check_task(task_class, recipe, f"the recipe {recipe_name!r}")
    changes = {**({"data.corpus": "files"} if files else {}), **task_class.changes(recipe, arguments)}
    if arguments.epochs is not None:
        changes["optimisation.epochs"] = arguments.epochs
    changes |= dict(map(_assignment, arguments.set))

    def resolved(path: Path | None) -> str | None:
        return None if path is None else str(path.resolve())

    values: dict[str, Any] = {
        "recipe": changed_recipe(recipe, changes).model_dump(exclude_none=True),
        "recipe_name": recipe_name,
        "seed": arguments.seed,
        "precision": arguments.precision,
        "command": reproducing_command(task_class, parser, arguments, recipe_name),
        "data_dir": resolved(arguments.data_dir),
        "files": files
        and {split: [[str(resolved(path)) for path in group] for group in groups] for split, groups in files.items()},
        "prepared": resolved(getattr(arguments, "prepared", None)),  # not every task takes them
        "subwords": resolved(getattr(arguments, "subwords", None)),
        "initial_vectors": {name: resolved(path) for name, path in task_class.initial_vectors(arguments).items()},
    }
    return validate_table(RunSettings, values, "command line")


def _assignment(text: str) -> tuple[str, Any]:
    """Key and value of `KEY=VALUE`; the value is TOML, or else a string."""
    key, equals, value = text.partition("=")
    if not equals or "." not in key:
        raise ValueError(f"--set expects TABLE.KEY=VALUE, for example data.vocabulary_size=500. Received: {text!r}")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value


def changed_recipe(recipe: Recipe, changes: dict[str, Any]) -> Recipe:
    """A recipe with other values.

    Args:
        recipe: The recipe.
        changes: New values by key, for example `"optimisation.epochs"`. `model.` and `loss.` may leave out
            `arguments.`.

    Raises:
        ValueError: If a key is unknown or a value of the wrong type.
    """
    values = recipe.model_dump(exclude_none=True, exclude={"measured"} if changes else None)
    for key, value in changes.items():
        table, *rest = key.split(".")
        if table in ("model", "loss") and rest[0] not in ("name", "arguments"):
            rest = ["arguments", *rest]
        place = values.setdefault(table, {})
        for part in rest[:-1]:
            place = place.setdefault(part, {}) if isinstance(place, dict) else place
        if not isinstance(place, dict):
            raise ValueError(f"--set expects TABLE.KEY=VALUE, for example data.vocabulary_size=500. Received: {key}")
        place[rest[-1]] = value
    return validate_table(type(recipe), values, "the recipe with the changes of the command line")


def reproducing_command(
    task_class: type[Task], parser: argparse.ArgumentParser, arguments: argparse.Namespace, recipe: str
) -> str:
    """The command that gives the same results elsewhere. Placeholders stand for paths of this machine."""
    words = ["python", task_class.script, "--recipe", recipe, "--seed", str(arguments.seed)]
    for name, value in vars(arguments).items():
        if name in NOT_REPRODUCED or value == parser.get_default(name):
            continue
        words.append(f"--{name.replace('_', '-')}")
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Path):
                words.append(name.removesuffix("_file").upper())
            elif each is not True:
                words.append(str(each))
    return " ".join(words) + (" --data-dir DIR" if arguments.data_dir else "")


def _find_runs(task_class: type[Task], folder: Path) -> list[Run]:
    """The run that a folder is, or the runs of this task in it."""
    runs = Run.find(folder)
    return [run for run in runs if run.settings().recipe.task == task_class.name] or runs


def _evaluate(task_class: type[Task], arguments: argparse.Namespace) -> int:
    for run in _find_runs(task_class, arguments.evaluate):
        task = open_task(task_class, run)
        keras.utils.set_random_seed(task.settings.seed)
        model = run.load_model()
        task.load_text()
        for line in task.evaluate(model, arguments):
            print(line if run.folder == arguments.evaluate else f"{run.folder.name:12} {line}", flush=True)
    return 0
