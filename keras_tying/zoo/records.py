"""Results of runs, recorded beside the recipes of the zoo."""

import json
from pathlib import Path
from typing import Any

import tomlkit

from keras_tying.files import locked, supersede, write_atomically
from keras_tying.zoo.recipes import DECIDING, Measured, Recipe, list_recipes, load_recipe, recipe_file, recipe_folder


def record_measured(name: str, trained: Recipe, results: dict[str, Any]) -> None:
    """Records the results of a run beside the recipes of the zoo.

    The first seed is written to the `[measured]` table of the recipe and to `results/NAME.json`, another seed only to
    `results/NAME_s2.json`, with its number. Earlier results of the same seed are kept in `results/superseded/`. Results
    of a recipe whose settings have changed since must be moved there by hand.

    Args:
        name: Name of the recipe in the zoo.
        trained: The recipe of the run.
        results: The contents of the run's `results.json`.

    Raises:
        ValueError: If the settings of the run differ from the current recipe in the zoo.
    """
    check_recordable(name, trained)
    path = recipe_file(recipe_folder() / f"{name}.toml")
    assert path is not None  # it is recordable
    measured = Measured(**{key: value for key, value in results.items() if key in Measured.model_fields})
    first = results_path(name)
    with locked(recipe_folder() / "records.lock"):  # other rows of the file, or seeds, may be recorded at the same time
        if first.exists() and json.loads(first.read_bytes())["seed"] != measured.seed:
            write_results(f"{name}_s{measured.seed}", results)
            return
        document = tomlkit.parse(path.read_text(encoding="utf-8"))
        table: Any = document if path.stem == name else document["rows"][name.removeprefix(f"{path.stem}_")]
        table["measured"] = measured.model_dump(exclude_none=True)
        write_results(name, results)
        write_atomically(path, tomlkit.dumps(document).encode())


def check_recordable(name: str, trained: Recipe) -> None:
    """Raises ValueError unless the settings of a run, `trained`, are those of the recipe `name` in the zoo."""
    recipe = load_recipe(name)
    if name not in list_recipes() or recipe.model_dump(include=DECIDING) != trained.model_dump(include=DECIDING):
        raise ValueError(
            f"The settings of the run differ from the recipe {name!r} of the zoo, so its results are not recorded. "
            "Run the recipe without changes."
        )


def results_path(name: str) -> Path:
    """The file of recorded results of this name."""
    return recipe_folder() / "results" / f"{name}.json"


def write_results(name: str, results: dict[str, Any]) -> Path:
    """Writes results to `results/NAME.json` beside the recipes. Returns the path.

    Earlier results are kept, unless the new ones contain them: those of a run that was measured in one more way.
    """
    path = results_path(name)
    path.parent.mkdir(exist_ok=True)
    earlier = json.loads(path.read_bytes()) if path.exists() else {}
    write = write_atomically if earlier.items() <= results.items() else supersede
    write(path, (json.dumps(results, indent=2) + "\n").encode())
    return path
