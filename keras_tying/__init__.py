"""A model zoo for weight tying: one variable embeds words on the way in and scores them on the way out."""

from importlib import import_module

from keras_tying import data, layers, losses, metrics, models, optimizers, regularizers, zoo
from keras_tying.version import __version__

__all__ = [
    "__version__",
    "data",
    "export",
    "layers",
    "losses",
    "metrics",
    "models",
    "optimizers",
    "regularizers",
    "tasks",
    "training",
    "zoo",
]

_LAZY = ("export", "tasks", "training")
"""Imported at first use: they need more packages than a model does."""


def __getattr__(name):
    if name in _LAZY:
        return import_module(f"keras_tying.{name}")
    raise AttributeError(f"module 'keras_tying' has no attribute {name!r}")


def __dir__():
    return __all__
