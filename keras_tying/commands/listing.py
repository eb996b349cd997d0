"""`keras-tying list`: recipes and trained models by name."""

import argparse
from fnmatch import fnmatchcase
from typing import Any

from keras_tying.commands.options import Command, Option
from keras_tying.commands.training_options import FLAG
from keras_tying.zoo.presets import MANIFEST, list_presets, parse_manifest, preset_folder
from keras_tying.zoo.recipes import Recipe, list_recipes, load_recipe

DESCRIPTION = """Lists the zoo: trained models with their result, other recipes with that of the first seed, if they
have one. Means of the seeds are on the pages of the zoo.

{command}                    all of them
{command} "ptb_*"            those whose name matches
{command} --pretrained       trained models, for kt.load(NAME)
"""


def work(arguments: argparse.Namespace) -> int:
    trained, recipes = set(list_presets()), set(list_recipes())
    names = trained if arguments.pretrained else trained | recipes
    chosen = sorted(name for name in names if fnmatchcase(name, arguments.pattern))
    if not chosen:
        raise ValueError(f"No name in the zoo matches {arguments.pattern!r}. See keras-tying list")
    width = max(map(len, chosen))
    for name in chosen:
        mark = "trained" if name in trained else ""
        recipe = load_recipe(name) if name in recipes else None
        metrics = parse_manifest(preset_folder() / name / MANIFEST).measured if name in trained else _measured(recipe)
        print(f"{name:{width}}  {mark:7}  {_figure(metrics):24}  {recipe.title if recipe else ''}".rstrip())
    return 0


def _measured(recipe: Recipe | None) -> dict[str, Any]:
    """The measured metrics of a recipe."""
    return recipe.measured.model_dump(exclude_none=True) if recipe and recipe.measured else {}


def _figure(metrics: dict[str, Any]) -> str:
    """The main metric of a model."""
    names = {"test_bleu": "test BLEU", "test_perplexity": "test perplexity"}
    return next((f"{shown} {metrics[name]:.1f}" for name, shown in names.items() if name in metrics), "")


COMMAND = Command(
    "list recipes and trained models",
    DESCRIPTION,
    (
        Option(
            "pattern", "a shell pattern", default="*", positional=True, settings={"nargs": "?", "metavar": "PATTERN"}
        ),
        Option("pretrained", "only trained models", default=False, settings=FLAG),
    ),
    work,
)
