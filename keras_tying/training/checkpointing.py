"""When a run is saved, and how it goes on."""

import signal
import time
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import keras
import numpy as np

from keras_tying.backend.replicas import is_chief, sum_over_workers
from keras_tying.training.callbacks import TrainingDiverged
from keras_tying.training.checkpoints import Checkpoint, CheckpointStore, read_variables, write_variables


class TrainingInterrupted(Exception):
    """Training stopped on request, after a checkpoint.

    Attributes:
        run: Folder of the run.
    """

    def __init__(self, message: str = "Stopped.", run: Path | None = None):
        super().__init__(message)
        self.run = run


class Checkpoints(keras.callbacks.Callback):
    """Saves after each epoch, every few minutes, and when asked to stop; restores where a run stood.

    Within `stop_on_signals()`, SIGINT (Ctrl-C) and SIGTERM ask to stop: the steps in flight are finished,
    a checkpoint is written and `TrainingInterrupted` is raised. Of several workers the chief writes, all restore
    from the same folder, and a signal to one of them stops all.

    Args:
        store: Where checkpoints go.
        minutes: Time between checkpoints within an epoch.
        batches: Batches of an epoch.

    Attributes:
        history: Logs of each finished epoch.
        epoch: The epoch the run stands in, counted from 0.
        batch: Batches of that epoch that are done.
        seconds: Training time so far, earlier parts of the run included.
    """

    def __init__(self, store: CheckpointStore, minutes: float, batches: int):
        super().__init__()
        self.store = store
        self.minutes = minutes
        self.batches = batches
        self.history: list[dict[str, float]] = []
        self.epoch = 0
        self.batch = 0
        self.seconds = 0.0
        self._first_batch = 0
        self._restored: dict[str, np.ndarray] | None = None
        self._stop_signal: signal.Signals | None = None
        self._started = self._saved = time.monotonic()

    def restore(self, model: keras.Model) -> bool:
        """Puts `model` where the newest whole checkpoint left it; `False` if there is none.

        Raises:
            FileNotFoundError: If some workers find the checkpoint and others do not.
        """
        checkpoint = self.store.newest()
        workers, found = sum_over_workers(model, [1.0, float(checkpoint is not None)])
        if found not in (0.0, workers):
            raise FileNotFoundError(
                f"{found:.0f} of {workers:.0f} workers find a checkpoint in {self.store.folder}. "
                "The folder of a run must be one that all of them see."
            )
        if checkpoint is None:
            return False
        write_variables(model, checkpoint.values)
        progress = checkpoint.progress
        self.history[:] = progress["history"]
        self.epoch, self.batch = progress["epoch"], progress["batch"]
        self.seconds = progress["seconds"]
        self._restored = checkpoint.values
        return True

    def on_train_begin(self, logs=None):
        self._started = self._saved = time.monotonic()
        self._earlier_seconds = self.seconds

    @contextmanager
    def stop_on_signals(self):
        """Within it, SIGINT and SIGTERM stop training cleanly."""

        def request_stop(number, frame):
            self._stop_signal = signal.Signals(number)

        handlers = {number: signal.signal(number, request_stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
        self._first_batch = self.batch
        if self.batch and self._restored is not None:  # fit has reset metrics, CarryState the state
            write_variables(self.model, self._restored)
        self._restored = None

    def on_train_batch_end(self, batch, logs=None):
        # A call of several steps counts on past the end of the data.
        self.batch = min(self._first_batch + batch + 1, self.batches)
        if self.batch == self.batches:
            return  # on_epoch_end saves
        due = is_chief(self.model) and time.monotonic() - self._saved > 60 * self.minutes
        stop, save = sum_over_workers(self.model, [float(self._stop_signal is not None), float(due)])
        if stop:
            self._stop(self._save())
        if save:
            self._save()

    def on_epoch_end(self, epoch, logs=None):
        self.history.append({name: float(value) for name, value in (logs or {}).items()})
        self.epoch, self.batch = epoch + 1, 0
        saved = self._save()
        (stop,) = sum_over_workers(self.model, [float(self._stop_signal is not None)])
        if stop:
            self._stop(saved)

    def _stop(self, saved: str) -> NoReturn:
        by = "a signal to another worker" if self._stop_signal is None else self._stop_signal.name
        raise TrainingInterrupted(f"Stopped by {by}; saved {saved}.", self.store.folder.parent)

    def _save(self) -> str:
        self.seconds = self._earlier_seconds + time.monotonic() - self._started
        progress = {
            "epoch": self.epoch,
            "batch": self.batch,
            "seconds": self.seconds,
            "history": self.history,
        }
        values = read_variables(self.model)
        if not all(np.isfinite(value).all() for value in values.values()):
            raise TrainingDiverged("The weights are no longer numbers; the checkpoints from before are kept.")
        saved = self.store.save(Checkpoint(values, progress)).name if is_chief(self.model) else "by the chief"
        self._saved = time.monotonic()
        return saved


class KeepBest(keras.callbacks.Callback):
    """Keeps the variables of the epoch with the best validation figure.

    Stands after `Validation` and before `Checkpoints`, whose history has the epochs before.

    Args:
        store: Where they go.
        history: Logs of each finished epoch of the run.
        measure: The figure's name: `"val_perplexity"`, the smaller the better, or `"val_bleu"`.
    """

    def __init__(self, store: CheckpointStore, history: list[dict[str, float]], measure: str = "val_perplexity"):
        super().__init__()
        self.store = store
        self.history = history
        self.measure = measure
        self.sign = 1 if measure == "val_bleu" else -1

    def on_epoch_end(self, epoch, logs=None):
        figure = float(logs[self.measure])
        if all(self.sign * figure > self.sign * earlier[self.measure] for earlier in self.history):
            progress = {"epoch": epoch, self.measure: figure}
            values = read_variables(self.model)
            if is_chief(self.model):
                self.store.save(Checkpoint(values, progress))

    def restore(self, model: keras.Model) -> None:
        """Puts `model` where it was best."""
        best = self.store.newest()
        if best is None:
            raise FileNotFoundError(f"{self.store.folder} holds no whole best epoch. Train the run anew.")
        write_variables(model, best.values)
