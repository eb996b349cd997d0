"""`keras-tying lm --from`: new runs that start from trained models."""

import argparse
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_tying.commands.new_settings import new_settings
from keras_tying.pretrained.loading import model_of, open_trained
from keras_tying.tasks import LanguageModelTask
from keras_tying.zoo.recipes import Model


def continued_task(arguments: argparse.Namespace, files: dict[str, list[list[Path]]] | None) -> LanguageModelTask:
    """The task of a new run that starts from the weights and words of a trained model, or from the mean of several.

    Args:
        arguments: The command's arguments.
        files: The files of its text, if it has a text of its own.

    Raises:
        ValueError: If a model is of another task, the models differ in their words or in more than their dropout, or
            the settings change more of the first than its dropout, or its tokenization.

    Reference:
        Izmailov et al., Averaging Weights Leads to Wider Optima and Better Generalization, 2018.
    """
    opened: Any = [open_trained(each, task=LanguageModelTask.name) for each in arguments.given["from"]]
    (start, first), *others = opened
    for other, folder in others:
        _check_alike(start, first, other, folder)
    name = " and ".join(folder.name for _, folder in opened)
    recipe = start.recipe.model_copy(
        update={
            "title": f"Continued from {name}",
            "description": f"{name} ({start.recipe.title}), trained further.",
            "notes": "",
            "published": None,
            "measured": None,
            "data": start.recipe.data.model_copy(
                update={"tokenization": start.tokenization, "vocabulary_size": None, "minimum_count": 1}
            ),
        }
    )
    settings = new_settings(LanguageModelTask, arguments, "", files, recipe)
    if _without_dropout(settings.recipe.model) != _without_dropout(recipe.model):
        given = [each for each in arguments.set if each.startswith("model.")]
        changed = " ".join(each for each in given if not _is_dropout(each.partition("=")[0]))
        raise ValueError(f"--from keeps the model of {name}; only its dropout can change. Received: --set {changed}")
    task = LanguageModelTask(settings)
    if task.tokenization != start.tokenization:
        raise ValueError(
            f"--from keeps the tokenization of {name}. Expected: {start.tokenization!r}. Received: "
            f"{task.tokenization!r}. Leave it out"
        )
    task.start = start.trained(_mean_model([folder for _, folder in opened]))
    return task


def _mean_model(folders: list[Path]) -> keras.Model:
    """The model of the first folder, with the mean of the weights of all."""
    models = [model_of(folder) for folder in folders]
    weights = zip(*(model.get_weights() for model in models), strict=True)
    models[0].set_weights([np.mean(each, axis=0, dtype="float32") for each in weights])
    return models[0]


def _check_alike(one: Any, folder: Path, other: Any, place: Path) -> None:
    """Raises ValueError if two models have no mean."""
    same = _without_dropout(one.recipe.model) == _without_dropout(other.recipe.model)
    if not same or one.vocabulary.words != other.vocabulary.words or one.tokenization != other.tokenization:
        raise ValueError(
            "--from takes the mean of models with the same words and layers; only their dropout can differ. Received: "
            f"{folder} and {place}"
        )


def _without_dropout(model: Model) -> Model:
    """The model without its dropout rates, which do not change its weights."""
    kept = {name: value for name, value in model.arguments.items() if not _is_dropout(name)}
    return model.model_copy(update={"arguments": kept})


def _is_dropout(name: str) -> bool:
    """Whether an argument of a model is about dropout: `input_dropout`, `weight_drop`."""
    return "drop" in name
