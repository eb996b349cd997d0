"""Registry of the builders of published models."""

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import wraps
from typing import Any

import keras

from keras_tying.checks import check_boolean
from keras_tying.zoo.presets import list_presets
from keras_tying.zoo.recipes import Recipe, list_recipes, load_recipe

_MODELS: dict[str, Callable[..., keras.Model]] = {}


def register(function: Callable[..., keras.Model]) -> Callable[..., keras.Model]:
    """Decorator that registers a builder under the name of the function and checks its boolean arguments."""
    signature = inspect.signature(function)
    switches = {name for name, parameter in signature.parameters.items() if isinstance(parameter.default, bool)}

    @wraps(function)
    def builder(*arguments, **named):
        for name, value in signature.bind(*arguments, **named).arguments.items():
            if name in switches:
                check_boolean(name, value)
        return function(*arguments, **named)

    _MODELS[function.__name__] = builder
    return builder


def list_models(pattern: str = "*", *, pretrained: bool = False) -> list[str]:
    """Names of the builders, or of the trained models, that match a shell pattern, in alphabetical order.

    Args:
        pattern: The pattern.
        pretrained: Whether to list trained models, which `kt.load` loads.

    Example:

    >>> import keras_tying as kt
    >>> kt.zoo.list_models("ptb_*")
    ['ptb_large', 'ptb_medium', 'ptb_small']
    """
    names = list_presets() if pretrained else _MODELS
    return sorted(name for name in names if fnmatchcase(name, pattern))


def create_model(name: str, /, **arguments) -> keras.Model:
    """Builds a new model of the zoo, with random weights. `kt.load` loads trained ones.

    Args:
        name: One of `list_models()`, or the name of a recipe, whose builder, arguments and vocabulary sizes are used. A
            name of both, such as `"nnjm"`, is the builder's.
        **arguments: Arguments of the builder. They go over those of a recipe.

    Raises:
        ValueError: If there is no such builder or recipe. The message has names like it.

    Example:

    >>> import keras_tying as kt
    >>> kt.zoo.create_model("ptb_small", tied=True).count_params()
    2651600
    >>> kt.zoo.create_model("ptb_small_tied_projection").count_params()
    2691800
    """
    if name in _MODELS:
        return _MODELS[name](**arguments)
    recipes = list_recipes()
    if name not in recipes:
        near = get_close_matches(name, [*_MODELS, *recipes], 3, 0.5)
        hint = f"Names like it: {', '.join(near)}" if near else f"Builders: {', '.join(list_models())}"
        raise ValueError(f"There is no builder and no recipe {name!r} in the zoo. {hint}")
    recipe = load_recipe(name)
    builder = _MODELS[recipe.model.name]
    return builder(**{**_sizes(recipe, builder), **recipe.model.arguments, **arguments})


def _sizes(recipe: Recipe, builder: Callable[..., keras.Model]) -> dict[str, Any]:
    """The vocabulary sizes of a recipe's data that its builder takes."""
    data = recipe.data.model_dump(exclude_none=True)
    size = data.get("vocabulary_size")
    sizes = {"vocabulary_size": size, "source_vocabulary_size": size, "target_vocabulary_size": size, **data}
    taken = inspect.signature(builder).parameters
    return {key: sizes[key] for key in sizes if key.endswith("vocabulary_size") and key in taken and sizes[key]}
