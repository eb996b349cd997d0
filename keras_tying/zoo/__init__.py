"""Builders of published models, by name. They are imported at first use: recipes are read without Keras.

>>> import keras_tying as kt
>>> model = kt.zoo.ptb_small(tied=True)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_tying.zoo.builders import *  # noqa: F403  # for type checkers, which know no `__getattr__`


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        builders = import_module(f"{__name__}.builders")
        if name in builders.__all__:
            return getattr(builders, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return import_module(f"{__name__}.builders").__all__
