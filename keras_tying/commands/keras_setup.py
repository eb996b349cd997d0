"""The import of Keras by a command: quiet, with memory that is kept, and refused where it cannot train."""

import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import keras_tying

BACKENDS = ("tensorflow", "jax", "torch")
LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
ALLOCATOR = "TF_CPU_ALLOCATOR_USE_BFC"
REMARK = re.compile(rb"[IWE]\d{4} \d\d:|WARNING: All log messages before absl::|To enable the following instructions: ")
"""How the lines start that TensorFlow prints before it reads its log level."""


def import_keras() -> None:
    """Imports Keras, checks its settings, and registers the classes of models.

    Unless the user has set `TF_CPP_MIN_LOG_LEVEL`, TensorFlow's logs of C++ and Python show fatal errors and errors
    only. TensorFlow keeps its memory (see `keep_memory`).

    Raises:
        ValueError: If the backend is unknown or cannot train, numbers are not float32 by default, or Keras cuts epochs.
        ModuleNotFoundError: If the backend is not installed.
    """
    quiet = LOG_LEVEL not in os.environ and "tensorflow" not in sys.modules
    os.environ.setdefault(LOG_LEVEL, "3")
    keep_memory()
    name = os.environ.get("KERAS_BACKEND")
    chosen = f"KERAS_BACKEND={name}" if name else "the backend in keras.json"
    try:
        with _without_remarks() if quiet else nullcontext():
            import keras
        if quiet:
            logging.getLogger("tensorflow").setLevel(logging.ERROR)
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
    for name in ("max_epochs", "max_steps_per_epoch"):
        if (limit := getattr(keras.config, name)()) is not None:
            raise ValueError(
                f"Epochs are trained whole here. Received: {name}={limit} of Keras. Unset KERAS_{name.upper()}, or "
                "remove it from keras.json."
            )
    keras_tying.import_rooms()


def keep_memory() -> None:
    """Lets TensorFlow keep the memory of a training step for the next one, by its allocator for devices (BFC).

    Without oneDNN, which is on where the CPU has AVX-512, it returns memory on a CPU to the system and asks for it
    again in each step, which can take longer than the step itself where steps are short. The allocator may use all
    memory of the machine: its default limit is 64 GiB. On Linux only, and without effect if the user has set
    `TF_CPU_ALLOCATOR_USE_BFC`, or after TensorFlow's first operation.
    """
    if sys.platform == "linux" and ALLOCATOR not in os.environ:
        os.environ[ALLOCATOR] = "1"
        mebibytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
        os.environ.setdefault("TF_CPU_BFC_MEM_LIMIT_IN_MB", str(mebibytes))


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
