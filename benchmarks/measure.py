"""Comparison of contenders: each in its own process, measured in turns."""

import multiprocessing
import os
import re
import statistics
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from benchmarks import (
    joint_models,
    language_models,
    large_vocabularies,
    lstm_layers,
    mogrifiers,
    output_layers,
    products,
    text_translators,
    translators,
)
from benchmarks.work import Size

MEBIBYTE = 2**20
ROOMS = (
    language_models,
    output_layers,
    lstm_layers,
    mogrifiers,
    large_vocabularies,
    joint_models,
    translators,
    text_translators,
    products,
)
CONTENDERS = {kind: functions for room in ROOMS for kind, functions in room.CONTENDERS.items()}


def compare(kind: str, size: Size, work: int, rounds: int, without: tuple[str, ...] = (), backend: str = "") -> dict:
    """Measures every contender of a kind.

    Each contender warms up in its own process. Then they take turns, A B C A B C, so that a machine that slows down
    slows all of them. The ratio of two contenders is the median of their ratios within a round.

    Args:
        kind: Key of `CONTENDERS`.
        size: What to compute.
        work: Steps per turn.
        rounds: Turns of each contender.
        without: Contenders to leave out.
        backend: Backend of Keras; by default that of this process.

    Returns:
        Words per second, peak memory in MiB above that of the imported libraries, and ratios. In ratios, memory counts
        as at least 1 MiB.
    """
    workers = {name: Worker(kind, name, size, work, backend) for name in CONTENDERS[kind] if name not in without}
    seconds = {name: [] for name in workers}
    for _ in range(rounds):
        for name, worker in workers.items():
            seconds[name].append(worker.turn())
    memory = {name: worker.close() for name, worker in workers.items()}
    ours = "keras-tying"
    return {
        "size": asdict(size),
        "steps_per_turn": work,
        "rounds": rounds,
        "words_per_second": {n: round(size.words * work / statistics.median(s), 1) for n, s in seconds.items()},
        "peak_memory_mib": {n: round(value, 1) for n, value in memory.items()},
        "speed_ratio": {
            name: round(statistics.median(t / o for t, o in zip(times, seconds[ours], strict=True)), 3)
            for name, times in seconds.items()
            if name != ours
        },
        "memory_ratio": {n: round(max(memory[ours], 1) / max(value, 1), 3) for n, value in memory.items() if n != ours},
        "seconds": {n: [round(value, 4) for value in s] for n, s in seconds.items()},
    }


class Worker:
    """A contender in its own process, warmed up. Arguments as of `compare`."""

    def __init__(self, kind: str, name: str, size: Size, work: int, backend: str = ""):
        context = multiprocessing.get_context("spawn")
        self._pipe, pipe = context.Pipe()
        self._process = context.Process(target=_serve, args=(pipe, kind, name, size, work), daemon=True)
        if name.startswith("PyTorch"):  # its times differ in a process that has imported TensorFlow
            backend = "torch"
        with _environment(KERAS_BACKEND=backend or os.environ.get("KERAS_BACKEND", "tensorflow")):
            self._process.start()
        pipe.close()  # so that a worker that fails ends the wait
        self._pipe.recv()  # warmed up

    def turn(self) -> float:
        """Seconds of a turn."""
        self.begin_turn()
        return self.end_turn()

    def begin_turn(self) -> None:
        self._pipe.send("turn")

    def end_turn(self) -> float:
        """Waits for the end of the turn and returns its seconds."""
        return self._pipe.recv()

    def close(self) -> float:
        """Ends the process and returns its peak memory in MiB above that of the imported libraries."""
        self._pipe.send("close")
        memory = self._pipe.recv()
        self._process.join()
        return memory


@contextmanager
def _environment(**variables: str):
    """A context with other environment variables, which processes that start in it inherit."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _serve(pipe, kind: str, name: str, size: Size, work: int) -> None:
    function = CONTENDERS[kind][name](size.tiny())
    function(2)  # loads the libraries and starts their threads
    before = _peak_memory()
    function = CONTENDERS[kind][name](size)
    function(work)
    pipe.send("ready")
    while pipe.recv() == "turn":
        pipe.send(function(work))
    pipe.send(_peak_memory() - before)


def _peak_memory() -> float:
    """Peak memory of this process. That of `getrusage` is at least the memory of the process that started it."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024 / MEBIBYTE


def matrix_product_rate(size: Size) -> float:
    """Floating-point operations per second of TensorFlow's matrix product in the shape of the output layer."""
    import tensorflow as tf

    left, right = tf.random.normal([size.words, size.units]), tf.random.normal([size.units, size.vocabulary])

    @tf.function
    def product():
        return tf.matmul(left, right)

    product()
    times = []
    for _ in range(20):
        start = time.perf_counter()
        product().numpy()
        times.append(time.perf_counter() - start)
    return 2 * size.words * size.units * size.vocabulary / statistics.median(times)
