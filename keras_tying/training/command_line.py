"""What training commands share: their arguments, and how they end for the user and for schedulers."""

import argparse
import logging
import sys
from collections.abc import Callable
from pathlib import Path

from keras_tying.training.callbacks import TrainingDiverged
from keras_tying.training.checkpointing import TrainingInterrupted

CAN_BE_RESUMED = 75
"""Exit code of a run that was asked to stop (EX_TEMPFAIL: try again later)."""

DIVERGED = 1
MISTAKEN = 2
"""Exit code where the arguments or the files they name are at fault, as argparse has it."""


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what every training from a recipe can be told."""
    parser.add_argument("--data-dir", type=Path, help="folder with the corpus's files, instead of a download")
    parser.add_argument("--run", type=Path, help="folder of the run; default: runs/RECIPE")
    parser.add_argument("--epochs", type=int, help="instead of the recipe's number")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint-minutes", type=float, default=5.0, help="time between checkpoints")
    parser.add_argument("--record", action="store_true", help="write the figures to the recipe")


def run_command(command: Callable[[], int], to_continue: str = "The same command goes on from there.") -> int:
    """Runs the work of a command line; what its user can mend becomes one line instead of a traceback.

    Args:
        command: The work; returns an exit code.
        to_continue: How a run that was asked to stop is continued; `{run}` in it becomes the run's folder.

    Returns:
        The exit code.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    try:
        return command()
    except TrainingInterrupted as stop:
        print(f"\n{stop} {to_continue.format(run=stop.run)}")
        return CAN_BE_RESUMED
    except (ValueError, OSError, ModuleNotFoundError, TrainingDiverged) as error:
        print(f"error: {error}", file=sys.stderr)
        return DIVERGED if isinstance(error, TrainingDiverged) else MISTAKEN
