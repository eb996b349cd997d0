"""Signals that ask a process to stop."""

import os
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

STDOUT, STDERR = 1, 2


@contextmanager
def handling_stop_signals(handle: Callable[[signal.Signals], None]) -> Iterator[None]:
    """A context in which Ctrl-C (SIGINT), SIGTERM and SIGHUP call `handle` with the signal.

    SIGHUP says that the terminal was closed, and perhaps the reader of a pipe with it (`| tee log`). What is printed to
    them afterwards is lost, and is no error. A process that ignores SIGHUP, as with `nohup`, goes on ignoring it.
    """

    def receive(number, frame):
        if number == signal.SIGHUP:
            _discard_what_is_printed()
        handle(signal.Signals(number))

    ignores_hangup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    signals = (signal.SIGINT, signal.SIGTERM, *(() if ignores_hangup else (signal.SIGHUP,)))
    before = {number: signal.signal(number, receive) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _discard_what_is_printed() -> None:
    """Sends what is printed to a terminal or a pipe nowhere; a file still gets it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (STDOUT, STDERR):
        with suppress(OSError):  # it is closed
            mode = os.fstat(number).st_mode
            if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode):  # `isatty` is false where the terminal is gone
                os.dup2(nowhere, number)
    os.close(nowhere)
