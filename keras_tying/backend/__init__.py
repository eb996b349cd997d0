"""The Keras backend that runs, and the dispatch to functions written for it.

A portable function uses `keras.ops` alone. Where a backend gains from code of its own, a function of the same name
stands in `keras_tying/backend/NAME/MODULE.py`, `MODULE` being the last part of the name of the portable function's
module: `gru_sequence` of `layers/gru.py` has its TensorFlow version in `backend/tensorflow/gru.py`. The portable
function is decorated with `dispatch`, which returns the one to use. A version that needs other parts of the portable
module imports the module, not names of it: the portable module is not complete when its versions are looked for.

No other module of the library asks which backend runs.
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
"""Whether models are exported as a SavedModel."""

ANY_SHAPE = NAME == "tensorflow"
"""Whether one compiled function takes batches of any shape; other backends compile a function for each shape."""

COMPILES_STEPS = NAME != "torch"
"""Whether several training steps are compiled into one call."""


class Replacement(NamedTuple):
    """A portable function or class and the one of the same name that stands in for it on this backend."""

    portable: Any
    fast: Any


_replacements: dict[str, Replacement] = {}


def dispatch(portable: T) -> T:
    """Decorator of a portable function or class that returns the version of the running backend.

    Args:
        portable: A function or class. Its name and the last part of its module's name say where versions for a backend
            are looked for.

    Returns:
        The object of that name in `keras_tying.backend.NAME.MODULE`, or `portable` where there is none.
    """
    module = _module_of_backend(portable.__module__.rpartition(".")[2])
    fast = getattr(module, portable.__name__, None)
    if fast is None:
        return portable
    _replacements[f"{portable.__module__}.{portable.__name__}"] = Replacement(portable, fast)
    return fast


def replacements() -> dict[str, Replacement]:
    """The portable functions that are replaced on this backend, by their full names."""
    return dict(_replacements)


def portable(fast: T) -> T:
    """The portable version of a function that `dispatch` returned."""
    return next((pair.portable for pair in _replacements.values() if pair.fast is fast), fast)


def _module_of_backend(name):
    folder = f"{__name__}.{NAME}"
    if find_spec(folder) is None or find_spec(f"{folder}.{name}") is None:
        return None
    return import_module(f"{folder}.{name}")
