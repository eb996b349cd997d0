"""`keras-tying cluster`: runs a command as several workers on this machine."""

import argparse
import sys

from keras_tying.commands.options import Command, Option, real, whole
from keras_tying.distribution.local_cluster import run_cluster

DESCRIPTION = """Runs a command as several workers on this machine.

{command} --workers 2 --restarts 3 -- -m keras_tying lm --run runs/two --restartable

Every worker runs the command with a `TF_CONFIG` of its own. When one fails, the others are stopped. With --restarts all
are started again, as a scheduler does, if the run can be resumed.
"""


def work(arguments: argparse.Namespace) -> int:
    command = [sys.executable, *arguments.command]
    return run_cluster(command, arguments.workers, arguments.restarts, arguments.grace_seconds)


COMMAND = Command(
    "run a command as several workers on this machine",
    DESCRIPTION,
    (
        Option("workers", "number of workers", default=2, settings={"type": whole(1)}),
        Option(
            "restarts", "maximum number of restarts after the loss of a worker", default=0, settings={"type": whole(0)}
        ),
        Option("grace-seconds", "time for a worker to stop", default=20.0, settings={"type": real(0, 1e6)}),
        Option(
            "command",
            "what Python runs, after --: a script, or -m and a module, and its arguments",
            positional=True,
            settings={"nargs": "+"},
        ),
    ),
    work,
)
