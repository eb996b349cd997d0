"""The current Keras backend, and dispatch to functions written for it.

A portable function uses only `keras.ops`. Its version for a backend is a function of the same name in
`keras_tying/backend/NAME/MODULE.py`, where `MODULE` is the last part of the name of the portable module: `gru_sequence`
of `layers/gru.py` has its TensorFlow version in `backend/tensorflow/gru.py`. The decorator `dispatch` of the portable
function returns the function to use. A version that needs other names of the portable module imports the module, not
the names, because `dispatch` runs before the portable module is complete.

No other module of the library reads the name of the backend.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeVar

import keras

T = TypeVar("T", bound=Callable)

NAME = keras.backend.backend()
"""`"tensorflow"`, `"jax"` or `"torch"`."""

HAS_STRATEGIES = NAME == "tensorflow"
"""Whether a `tf.distribute.Strategy` can run several replicas of a model."""

WRITES_SAVED_MODELS = NAME == "tensorflow"
"""Whether models can be exported as a SavedModel."""

ANY_SHAPE = NAME == "tensorflow"
"""Whether one compiled function takes batches of any shape. Other backends compile one function per shape."""

SHAPE_MULTIPLE = 1 if ANY_SHAPE else 8
"""Rows and lengths of batches are padded to multiples of this, so that few shapes are compiled."""

COMPILES_STEPS = NAME != "torch"
"""Whether several training steps are compiled into one call."""


class Replacement(NamedTuple):
    """A portable function or class and its version for this backend."""

    portable: Any
    fast: Any


_replacements: dict[str, Replacement] = {}


def dispatch(portable: T) -> T:
    """Decorator of a portable function or class that returns its version for the current backend.

    Args:
        portable: A function or class.

    Returns:
        The object of the same name in `keras_tying.backend.NAME.MODULE`, or `portable` if there is none.
    """
    module = _module_of_backend(portable.__module__.rpartition(".")[2])
    fast = getattr(module, portable.__name__, None)
    if fast is None:
        return portable
    _replacements[f"{portable.__module__}.{portable.__name__}"] = Replacement(portable, fast)
    return fast


def replacements() -> dict[str, Replacement]:
    """The replaced functions of this backend, by the full names of the portable functions."""
    return dict(_replacements)


def portable(fast: T) -> T:
    """The portable version of a function that `dispatch` returned."""
    return next((pair.portable for pair in _replacements.values() if pair.fast is fast), fast)


def _module_of_backend(name):
    folder = f"{__name__}.{NAME}"
    if find_spec(folder) is None or find_spec(f"{folder}.{name}") is None:
        return None
    return import_module(f"{folder}.{name}")
