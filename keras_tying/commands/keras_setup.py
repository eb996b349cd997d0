"""The import of Keras by a command: without TensorFlow's start-up lines, and refused where it cannot train."""

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import keras_tying

BACKENDS = ("tensorflow", "jax", "torch")
LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
REMARK = re.compile(rb"[IWE]\d{4} \d\d:|WARNING: All log messages before absl::|To enable the following instructions: ")
"""How the lines start that TensorFlow prints before it reads its log level."""


def import_keras() -> None:
    """Imports Keras, checks its settings, and registers the classes of models.

    TensorFlow's log shows fatal errors only, unless the user has set `TF_CPP_MIN_LOG_LEVEL`.

    Raises:
        ValueError: If the backend is unknown or cannot train, or numbers are not float32 by default.
        ModuleNotFoundError: If the backend is not installed.
    """
    quiet = LOG_LEVEL not in os.environ and "tensorflow" not in sys.modules
    os.environ.setdefault(LOG_LEVEL, "3")
    name = os.environ.get("KERAS_BACKEND")
    chosen = f"KERAS_BACKEND={name}" if name else "the backend in keras.json"
    try:
        with _without_remarks() if quiet else _as_it_is():
            import keras
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{chosen} needs the package {error.name}, which is not installed.") from None
    except (ValueError, AssertionError) as error:
        raise ValueError(
            f"Keras cannot be imported with {chosen} and the settings of keras.json in KERAS_HOME or ~/.keras "
            f"({error}). Backends that train: {', '.join(BACKENDS)}"
        ) from None
    from keras_tying import backend

    if backend.NAME not in BACKENDS:
        raise ValueError(f"Expected one of the backends {', '.join(BACKENDS)}. Received: {chosen}")
    if keras.config.floatx() != "float32":
        raise ValueError(
            f"Variables are float32 here. Received: floatx={keras.config.floatx()!r} in keras.json of KERAS_HOME or "
            "~/.keras. Set it to float32; --precision sets the type of computation."
        )
    keras_tying.import_rooms()


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield


@contextmanager
def _without_remarks() -> Iterator[None]:
    """Holds back what is written to stderr, also by C++, and prints it at the end without TensorFlow's remarks."""
    sys.stderr.flush()
    before = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(before, 2)
            os.close(before)
            held.seek(0)
            lines = [line for line in held if not REMARK.match(line)]
            os.write(2, b"".join(lines))
