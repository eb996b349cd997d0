"""Exit codes of commands, and one-line errors instead of tracebacks."""

import logging
import os
import shlex
import sys
from collections.abc import Callable

from keras_tying.distribution.workers import errors_of_lost_workers
from keras_tying.errors import RESUMABLE, TrainingDiverged, TrainingInterrupted, WorkersMissing

DIVERGED = 1
USAGE = 2
"""Arguments, or the files they name, are wrong. argparse uses the same code."""
INTERRUPTED = 130
"""Ctrl-C outside of training, where no checkpoint is written: 128 and the number of SIGINT, as shells count."""
CLOSED = 141
"""The reader of the output has gone, as in `| head -1`: 128 and the number of SIGPIPE."""
DISK_IS_FULL = ("No space left on device", "Disk quota exceeded", "File too large", "Too many open files")
"""What errors of TensorFlow contain that say "resource exhausted" as well."""
OUT_OF_MEMORY = ("ResourceExhausted", "RESOURCE_EXHAUSTED", "out of memory", "can't allocate memory")
"""What the errors of TensorFlow, JAX and PyTorch contain where memory is full."""


def run_command(command: Callable[[], int], to_continue: str = "The same command continues.") -> int:
    """Runs a command. Errors that its user can mend become one line.

    Args:
        command: The work; returns an exit code.
        to_continue: How an interrupted run is continued; `{run}` in it becomes the run's folder, `{options}` its
            options.

    Returns:
        The exit code.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):  # in the order of their numbers
        if getattr(sys, name) is None:  # the shell closed it
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # until the process ends
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    try:
        try:
            return command()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return CLOSED
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return INTERRUPTED
    except TrainingInterrupted as stopped:
        print(f"\n{stopped} {_continuing(stopped, to_continue)}")
        return RESUMABLE
    except TrainingDiverged as error:
        return _fail(error, DIVERGED)
    except WorkersMissing as error:
        return _fail(error, RESUMABLE)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        return _fail(error, USAGE)
    except errors_of_lost_workers() as error:
        what = f"another worker was lost ({type(error).__name__}). Start all workers again, with --restartable."
        return _fail(what, RESUMABLE)
    except Exception as error:
        for sign in DISK_IS_FULL:  # before memory
            if sign in str(error):
                return _fail(f"{sign}: {error}", USAGE)
        if _is_out_of_memory(error):
            return _fail(f"there is not enough memory ({error}). Smaller sizes in the recipe need less.", USAGE)
        raise


def _is_out_of_memory(error: Exception) -> bool:
    text = f"{type(error).__name__} {error}"
    return isinstance(error, MemoryError) or any(sign in text for sign in OUT_OF_MEMORY)


def _continuing(stopped: TrainingInterrupted, to_continue: str) -> str:
    """How a stopped training is continued, see `run_command`."""
    if stopped.run is None:
        return "Continue with the same command and --restartable."
    options = "".join(f" {shlex.quote(each)}" for each in stopped.options)
    for placeholder, text in (("{run}", shlex.quote(str(stopped.run))), ("{options}", options)):
        to_continue = to_continue.replace(placeholder, text)  # there can be other braces, in the command's path
    return to_continue


def _fail(error: object, code: int) -> int:
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
    return code


def _discard_output() -> None:
    """Sends what is left to print nowhere, so that Python says nothing when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
