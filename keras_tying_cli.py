"""Starts the commands. A process that starts here imports Keras only when it computes."""

import signal
from collections.abc import Callable

from keras_tying.commands import main, run_script

__all__ = ["main", "run_script", "start_worker"]


def start_worker(initializer: Callable | None, arguments: tuple) -> None:
    """Starts a process of a pool that prepares text."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process handles Ctrl-C
    if initializer is not None:
        initializer(*arguments)
