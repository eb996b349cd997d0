"""Settings of new runs, from the arguments of a command."""

import argparse
import shlex
from pathlib import Path
from typing import Any

from keras_tying.commands.text import check_are_files, check_data_dir
from keras_tying.tables import validate_table
from keras_tying.training.runs import Run, RunSettings
from keras_tying.training.task import SCRIPTS, Task, check_run, check_task
from keras_tying.zoo.changed_recipes import assignments, changed_recipe, without_conflict
from keras_tying.zoo.recipes import Recipe, for_other_text, load_recipe

NOT_REPRODUCED = {
    *("run", "resume", "evaluate", "export", "restartable", "from_scratch", "record", "checkpoint_minutes"),
    *("strategy", "replicas", "wait_minutes", "data_dir", "recipe", "seed"),
}
"""Arguments that a reproducing command leaves out, or names at a fixed place."""


def new_settings(
    task_class: type[Task],
    arguments: argparse.Namespace,
    recipe_name: str,
    files: dict[str, list[list[Path]]] | None,
    recipe: Recipe | None = None,
) -> RunSettings:
    """The settings of a new run by a recipe of the zoo, or by another one if it is given."""
    if recipe is None:
        recipe = load_recipe(recipe_name, task_class.name)  # type: ignore[arg-type]  # each class has one of the names
    check_task(task_class, recipe, f"the recipe {recipe_name!r}")
    assigned = assignments(arguments.set)
    given = task_class.changes(changed_recipe(recipe, assigned), arguments)
    changes = {**({"data.corpus": "files"} if files else {}), **given}
    if arguments.epochs is not None:
        changes["optimisation.epochs"] = arguments.epochs
    changes = without_conflict(changes, assigned)
    if recipe_name and changes.get("data.corpus", recipe.data.corpus) != recipe.data.corpus:  # type: ignore[attr-defined]  # all have it
        recipe = for_other_text(recipe, recipe_name, changes["data.corpus"])

    def resolved(path: Path | str | None) -> str | None:
        # Links stay: the name of a file says whether it is compressed, and what a link points to may have another.
        return str(path.absolute()) if isinstance(path, Path) else path

    vectors = task_class.initial_vectors(arguments)
    check_are_files([[path for name, path in vectors.items() if name != "run"]])
    values: dict[str, Any] = {
        "recipe": changed_recipe(recipe, changes).model_dump(exclude_none=True),
        "recipe_name": recipe_name,
        "seed": arguments.seed,
        "precision": arguments.precision or "float32",
        "command": reproducing_command(task_class, arguments, recipe_name),
        "data_dir": resolved(getattr(arguments, "data_dir", None)),  # not every task takes them
        "files": files
        and {split: [[str(resolved(path)) for path in group] for group in groups] for split, groups in files.items()},
        "prepared": resolved(getattr(arguments, "prepared", None)),
        "start": [resolved(each) for each in arguments.given.get("from", [])],
        "add_words": getattr(arguments, "add_words", False),
        "subwords": resolved(getattr(arguments, "subwords", None)),
        "initial_vectors": {name: resolved(path) for name, path in vectors.items()},
    }
    settings = validate_table(RunSettings, values, "command line")
    if "run" in settings.initial_vectors:
        start = Run.open(settings.initial_vectors["run"])
        check_run(task_class, start)
        start.check_finished()
    check_data_dir(settings.recipe.data.corpus, getattr(arguments, "data_dir", None))
    return settings


def reproducing_command(task_class: type[Task], arguments: argparse.Namespace, recipe: str) -> str:
    """The command that gives the same results elsewhere. Placeholders stand for paths of this machine."""
    named = "RECIPE" if recipe.endswith(".toml") and Path(recipe).is_absolute() else shlex.quote(recipe)
    given_recipe = ["--recipe", named] if recipe else []
    words = ["python", SCRIPTS[task_class.name], *given_recipe, "--seed", str(arguments.seed)]
    for name, value in arguments.given.items():
        if name in NOT_REPRODUCED:
            continue
        words.append(f"--{name.replace('_', '-')}")
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Path):
                words.append(name.removesuffix("_file").upper())
            elif each is not True:
                words.append(shlex.quote(str(each)))
    return " ".join(words) + (" --data-dir DIR" if "data_dir" in arguments.given else "")
