"""Registry of the builders of published models."""

from collections.abc import Callable
from fnmatch import fnmatchcase

import keras

_MODELS: dict[str, Callable[..., keras.Model]] = {}


def register(function: Callable[..., keras.Model]) -> Callable[..., keras.Model]:
    """Decorator that registers a builder under the name of the function."""
    _MODELS[function.__name__] = function
    return function


def list_models(pattern: str = "*") -> list[str]:
    """Names of the builders that match a shell pattern, in alphabetical order.

    Example:

    >>> import keras_tying as kt
    >>> kt.zoo.list_models("ptb_*")
    ['ptb_large', 'ptb_medium', 'ptb_small']
    """
    return sorted(name for name in _MODELS if fnmatchcase(name, pattern))


def create_model(name: str, **arguments) -> keras.Model:
    """Builds a model of the zoo.

    Args:
        name: One of `list_models()`.
        **arguments: Arguments of the builder.

    Raises:
        ValueError: If there is no such model.

    Example:

    >>> import keras_tying as kt
    >>> kt.zoo.create_model("ptb_small", tied=True).count_params()
    2651600
    """
    if name not in _MODELS:
        raise ValueError(f"There is no model {name!r} in the zoo. Known: {list_models()}")
    return _MODELS[name](**arguments)
