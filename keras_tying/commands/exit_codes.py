"""Exit codes of commands, and one-line errors instead of tracebacks."""

import logging
import sys
from collections.abc import Callable

from keras_tying.distribution import WorkersMissing, errors_of_lost_workers
from keras_tying.distribution.strategies import RESUMABLE
from keras_tying.training.callbacks import TrainingDiverged, TrainingInterrupted

DIVERGED = 1
USAGE = 2
"""Arguments, or the files they name, are wrong. argparse uses the same code."""


def run_command(command: Callable[[], int], to_continue: str = "The same command continues.") -> int:
    """Runs a command. Errors that its user can mend become one line.

    Args:
        command: The work; returns an exit code.
        to_continue: How an interrupted run is continued; `{run}` in it becomes the run's folder.

    Returns:
        The exit code.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    try:
        return command()
    except TrainingInterrupted as stop:
        print(f"\n{stop} {to_continue.format(run=stop.run)}")
        return RESUMABLE
    except WorkersMissing as error:
        print(f"error: {error}", file=sys.stderr)
        return RESUMABLE
    except (ValueError, OSError, ModuleNotFoundError, TrainingDiverged) as error:
        print(f"error: {error}", file=sys.stderr)
        return DIVERGED if isinstance(error, TrainingDiverged) else USAGE
    except errors_of_lost_workers() as error:
        print(
            f"error: another worker was lost ({type(error).__name__}). Start all workers again, with --restartable.",
            file=sys.stderr,
        )
        return RESUMABLE
