"""`keras-tying list`: recipes and trained models by name."""

import argparse
from fnmatch import fnmatchcase

from keras_tying.commands.options import Command, Option
from keras_tying.commands.training import FLAG
from keras_tying.zoo.presets import list_presets
from keras_tying.zoo.recipes import Recipe, list_recipes, load_recipe

DESCRIPTION = """Lists the zoo: recipes, the figure that each was measured with, and trained models.

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
        print(f"{name:{width}}  {mark:7}  {_figure(recipe):24}  {recipe.title if recipe else ''}".rstrip())
    return 0


def _figure(recipe: Recipe | None) -> str:
    """The main measured metric of a recipe."""
    measured = recipe.measured if recipe else None
    if measured is None:
        return ""
    if measured.test_bleu is not None:
        return f"test BLEU {measured.test_bleu:.1f}"
    if measured.test_perplexity is not None:
        return f"test perplexity {measured.test_perplexity:.1f}"
    return ""


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
