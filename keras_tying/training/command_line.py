"""What training commands share: their arguments, and how they end for the user and for schedulers."""

import argparse
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, get_args

from keras_tying.training.callbacks import TrainingDiverged
from keras_tying.training.checkpointing import TrainingInterrupted
from keras_tying.training.distribution import (
    STRATEGIES,
    Distribution,
    WorkersMissing,
    errors_of_lost_workers,
    open_distribution,
)
from keras_tying.zoo.recipes import Precision

T = TypeVar("T")

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
    add_distribution_arguments(parser)


def add_distribution_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds where, and in which precision, a training runs: see docs/distributed.md."""
    parser.add_argument("--strategy", choices=STRATEGIES, default="auto", help="how training is distributed")
    parser.add_argument("--replicas", type=int, help="mirrored: GPUs, or parts of the processor; default: all")
    parser.add_argument("--wait-minutes", type=float, default=10.0, help="multiworker: for workers to come up")
    parser.add_argument("--precision", choices=get_args(Precision), default="float32", help="of computation")
    parser.add_argument("--restartable", action="store_true", help="go on with the run if its folder holds it already")


def distribution_of(arguments: argparse.Namespace) -> Distribution:
    """What the arguments of `add_distribution_arguments` ask for; raises as `open_distribution` does."""
    return open_distribution(arguments.strategy, arguments.replicas, arguments.wait_minutes)


def begin_run(
    distribution: Distribution,
    arguments: argparse.Namespace,
    folder: Path,
    start: Callable[[], T],
    resume: Callable[[Path], T],
) -> T:
    """The run that a command line is about: a new one, which the chief makes, or one that stands.

    Args:
        distribution: Where it trains.
        arguments: With `resume`, a folder or `None`, and `restartable`.
        folder: Of a new run.
        start: Makes it.
        resume: Opens one that stands in a folder.
    """
    if arguments.resume:
        return resume(Path(arguments.resume))

    def chiefs() -> T:
        stands = any(folder.glob("config.toml")) or any(folder.glob("*/config.toml"))
        return resume(folder) if arguments.restartable and stands else start()

    return distribution.chief_first(chiefs, lambda: resume(folder))


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
    except WorkersMissing as error:
        print(f"error: {error}", file=sys.stderr)
        return CAN_BE_RESUMED
    except (ValueError, OSError, ModuleNotFoundError, TrainingDiverged) as error:
        print(f"error: {error}", file=sys.stderr)
        return DIVERGED if isinstance(error, TrainingDiverged) else MISTAKEN
    except errors_of_lost_workers() as error:
        print(
            f"error: another worker is gone ({type(error).__name__}). Start all again, with --restartable.",
            file=sys.stderr,
        )
        return CAN_BE_RESUMED
