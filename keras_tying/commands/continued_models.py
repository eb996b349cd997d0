"""`keras-tying lm --from`: new runs that start from a trained model."""

import argparse
from collections.abc import Callable
from typing import Any

from keras_tying.pretrained.loading import model_of, open_trained
from keras_tying.tasks import LanguageModelTask
from keras_tying.training.runs import Run, RunSettings
from keras_tying.training.task import check_run
from keras_tying.zoo.recipes import Model, Recipe


def continued_task(arguments: argparse.Namespace, settings_of: Callable[[Recipe], RunSettings]) -> LanguageModelTask:
    """The task of a new run that starts from the weights and words of a trained model.

    Args:
        arguments: The command's arguments.
        settings_of: Makes the settings of the run from the recipe of the trained model.

    Raises:
        ValueError: If the model is of another task, or the settings change more of it than its dropout.
    """
    start: Any
    start, folder = open_trained(arguments.given["from"])
    name = folder.name
    check_run(LanguageModelTask, Run(folder))
    recipe = start.recipe.model_copy(
        update={
            "title": f"Continued from {name}",
            "description": f"The model {name} ({start.recipe.title}), trained further.",
            "notes": "",
            "published": None,
            "measured": None,
            "data": start.recipe.data.model_copy(
                update={"tokenization": start.tokenization, "vocabulary_size": None, "minimum_count": 1}
            ),
        }
    )
    settings = settings_of(recipe)
    if _without_dropout(settings.recipe.model) != _without_dropout(recipe.model):
        given = [each for each in arguments.set if each.startswith("model.")]
        changed = " ".join(each for each in given if not _is_dropout(each.partition("=")[0]))
        raise ValueError(f"--from keeps the model of {name}; only its dropout can change. Received: --set {changed}")
    task = LanguageModelTask(settings)
    task.start = start.trained(model_of(folder))
    return task


def _without_dropout(model: Model) -> Model:
    """The model without its dropout rates, which do not change its weights."""
    kept = {name: value for name, value in model.arguments.items() if not _is_dropout(name)}
    return model.model_copy(update={"arguments": kept})


def _is_dropout(name: str) -> bool:
    """Whether an argument of a model is about dropout: `input_dropout`, `weight_drop`."""
    return "drop" in name
