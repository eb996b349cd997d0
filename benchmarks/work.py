"""What contenders share: the size of their work, and functions that do it and return the seconds.

A contender is a function that takes a `Size`, prepares the work and returns a function. That function does a given
number of steps and returns the seconds they took. Each contender runs in its own process, so that contenders do not
share threads or memory. The modules beside this one have them by kind, each with a table `CONTENDERS`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np


@dataclass(frozen=True)
class Size:
    """A language model's size and its batches."""

    vocabulary: int = 10_000
    units: int = 200
    layers: int = 2
    batch_size: int = 20
    sequence_length: int = 20

    @property
    def words(self) -> int:
        """Words per batch."""
        return self.batch_size * self.sequence_length

    @property
    def operations(self) -> int:
        """Floating-point operations per training step, of matrix products only."""
        return 3 * (self.layers * 16 * self.units**2 + 2 * self.units * self.vocabulary) * self.words

    def tiny(self) -> Self:
        """What a contender computes first, to load its libraries and to start their threads."""
        return replace(self, vocabulary=11, units=3, batch_size=2, sequence_length=2)


Work = Callable[[int], float]


def timed(function: Callable[[Any], None]) -> Callable[[Any], float]:
    """A function that calls `function` and returns the seconds it took."""

    def work(argument: Any) -> float:
        start = time.perf_counter()
        function(argument)
        return time.perf_counter() - start

    return work


def repeated(step: Callable[[], object]) -> Work:
    """Work whose steps are calls of a function."""

    @timed
    def work(count: int) -> None:
        for _ in range(count):
            step()

    return work


def tokens(size: Size, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of `count` batches of random words. The words do not change the speed."""
    rng = np.random.default_rng(0)
    shape = (count * size.batch_size, size.sequence_length)
    return rng.integers(0, size.vocabulary, shape, np.int32), rng.integers(0, size.vocabulary, shape, np.int32)


def fit_seconds(model, *data, **arguments) -> float:
    """Seconds of `fit`, measured inside it: TensorFlow may take seconds to end its input threads afterwards."""
    import keras

    class Stopwatch(keras.callbacks.Callback):
        seconds = 0.0

        def on_train_begin(self, logs=None):
            self.start = time.perf_counter()

        def on_train_end(self, logs=None):
            self.seconds = time.perf_counter() - self.start

    watch = Stopwatch()
    model.fit(*data, shuffle=False, verbose=0, callbacks=[watch], **arguments)
    return watch.seconds
