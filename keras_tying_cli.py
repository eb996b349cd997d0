"""Starts the commands, and the workers that prepare text. A process that starts here imports Keras when it computes."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command of `keras-tying`, see `keras_tying.commands.main`. Returns the exit code."""
    from keras_tying import commands

    return commands.main(arguments)


def run_script(module: str) -> int:
    """Runs the command of a module with the arguments of the process. Returns the exit code."""
    from keras_tying import commands

    return commands.run_script(module)


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
