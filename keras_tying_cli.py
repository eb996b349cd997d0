"""Starts the commands. A process that starts here imports Keras only when it computes."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable

from keras_tying.commands import main, run_script

__all__ = ["main", "run_script", "start_worker"]


def start_worker(initializer: Callable | None, arguments: tuple) -> None:
    """Starts a process of a pool that prepares text."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process handles Ctrl-C
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if initializer is not None:
        initializer(*arguments)


def _end_with_parent() -> None:
    """Ends this process when the one that started it has ended, even if it was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
