"""A cluster of workers on this machine: `keras-tying cluster`.

Every worker runs the command with a `TF_CONFIG` of its own. When one fails, the others are stopped. All are started
again, as a scheduler does, as often as restarts are allowed and if the run can be resumed.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

from keras_tying.errors import RESUMABLE
from keras_tying.signals import handling_stop_signals


def run_cluster(command: list[str], workers: int, restarts: int = 0, grace_seconds: float = 20.0) -> int:
    """Runs a command as several workers.

    Args:
        command: The command and its arguments.
        workers: Number of workers.
        restarts: Maximum number of restarts after the loss of a worker.
        grace_seconds: Time for a worker to stop.

    Returns:
        The exit code of the first worker that failed, or 0. Of workers that failed at the same time, a code counts
        that ends the job. That of a worker killed by a signal is 128 and the number of the signal, as shells count.

    Raises:
        OSError: If what the workers print cannot be written, as BrokenPipeError when its reader has gone. The workers
            are stopped.
    """
    asked_to_stop = threading.Event()
    for attempt in range(restarts + 1):
        code = _run_once(command, workers, grace_seconds, asked_to_stop)
        if not _can_go_on(code) or attempt == restarts or asked_to_stop.is_set():
            break
        print(f"[cluster] a worker ended with {code}; starting all workers again", flush=True)
    return code if code >= 0 else 128 - code


def _can_go_on(code: int) -> bool:
    return code == RESUMABLE or code < 0  # negative: killed by a signal


def _run_once(command: list[str], workers: int, grace_seconds: float, asked_to_stop: threading.Event) -> int:
    processes: list[subprocess.Popen] = []
    printers: list[threading.Thread] = []
    failures: list[OSError] = []

    def pass_on(received):
        asked_to_stop.set()
        for process in processes:
            process.send_signal(received)

    with handling_stop_signals(pass_on):
        try:
            addresses = [f"127.0.0.1:{port}" for port in free_ports(workers)]
            for index in range(workers):
                process = _start(command, addresses, index)
                processes.append(process)
                printers.append(threading.Thread(target=_print_lines, args=(index, process, failures), daemon=True))
                printers[-1].start()
                print(f"[cluster] worker {index} is process {process.pid}", flush=True)
                if asked_to_stop.is_set():  # perhaps before it was among the processes
                    process.terminate()
                    break
            code = _wait(processes, failures, grace_seconds)
            for printer in printers:
                printer.join(grace_seconds)  # not for ever: a child of the worker may hold its output open
            if failures:
                raise failures[0]
            return code
        except BaseException:  # one could not be started
            for process in processes:
                process.kill()
            raise


def _start(command: list[str], addresses: list[str], index: int) -> subprocess.Popen:
    config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    environment = {**os.environ, "TF_CONFIG": json.dumps(config)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def _wait(processes: list[subprocess.Popen], failures: list[OSError], grace_seconds: float) -> int:
    """Waits for all workers. When one fails, or its output cannot be printed, stops the others."""
    while True:
        codes = [process.poll() for process in processes]
        failed = [code for code in codes if code]
        if failed or failures or None not in codes:
            break
        time.sleep(0.1)
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + grace_seconds
    for process in processes:
        try:
            process.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            process.kill()  # it waits for the lost worker
            process.wait()
    return min(failed, key=_can_go_on, default=0)


def _print_lines(index: int, process: subprocess.Popen, failures: list[OSError]) -> None:
    """Prints the output of a worker, and reads it to its end in any case: a worker waits if nobody reads it."""
    assert process.stdout is not None
    for line in process.stdout:
        if failures:
            continue
        try:
            sys.stdout.buffer.write(b"[%d] %b\n" % (index, line.removesuffix(b"\n")))  # any bytes
            sys.stdout.flush()
        except OSError as error:
            failures.append(error)


def free_ports(count: int) -> list[int]:
    """Free TCP ports of this machine."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
