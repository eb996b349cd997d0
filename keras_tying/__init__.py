"""A model zoo for weight tying: one variable embeds words on the way in and scores them on the way out.

Its import registers all classes with Keras, which then loads any of the models. Only commands import Keras later.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from keras_tying.version import __version__

if TYPE_CHECKING:
    from keras_tying import (
        data,
        export,
        inference,
        layers,
        losses,
        metrics,
        models,
        optimizers,
        pretrained,
        regularizers,
        tasks,
        training,
        zoo,
    )
    from keras_tying.pretrained import load

__all__ = [
    "__version__",
    "data",
    "export",
    "inference",
    "layers",
    "load",
    "losses",
    "metrics",
    "models",
    "optimizers",
    "pretrained",
    "regularizers",
    "tasks",
    "training",
    "zoo",
]


def import_rooms() -> None:
    """Imports the packages whose classes Keras must know before it loads a model."""
    for package in ("layers", "losses", "metrics", "models", "optimizers", "regularizers"):
        import_module(f"{__name__}.{package}")


def _starts_a_command() -> bool:
    """Whether this process started in `keras_tying_cli`, or as `python -m keras_tying`."""
    if "keras_tying_cli" in sys.modules:
        return True
    if sys.argv[:1] != ["-m"]:  # it is while Python looks for the module
        return False
    return sys.orig_argv[-len(sys.argv)].removeprefix("-m").split(".")[0] == __name__


def __getattr__(name: str) -> Any:
    if name == "load":
        return import_module(f"{__name__}.pretrained").load
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'keras_tying' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


if not _starts_a_command():
    import_rooms()
