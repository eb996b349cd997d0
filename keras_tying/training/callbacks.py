"""What happens between the steps of a run."""

import math
import signal
import time
from collections.abc import Callable
from contextlib import contextmanager

import keras
import numpy as np
from tqdm import tqdm

from keras_tying.training.checkpoints import Checkpoint, CheckpointStore, read_variables, write_variables
from keras_tying.training.evaluation import stream_perplexity


class TrainingDiverged(ArithmeticError):
    """The loss is no longer a number."""


class TrainingInterrupted(Exception):
    """Training stopped on request, after a checkpoint."""


class CarryState(keras.callbacks.Callback):
    """Carries the recurrent state from window to window and forgets it where an epoch begins."""

    def __init__(self, batch_size: int):
        super().__init__()
        self.batch_size = batch_size

    def on_epoch_begin(self, epoch, logs=None):
        self.model.reset_state()


class StopOnNaN(keras.callbacks.Callback):
    """Raises `TrainingDiverged` as soon as the loss read back is not finite."""

    def on_train_batch_end(self, batch, logs=None):
        if not math.isfinite(logs["loss"]):
            raise TrainingDiverged(
                f"The loss became {logs['loss']} near batch {batch}. A smaller learning rate or clipping norm "
                "may help; the checkpoints from before are kept."
            )


def stalled(history: list[dict[str, float]], patience: int | None) -> bool:
    """Whether the best validation perplexity is at least `patience` epochs old."""
    if patience is None or not history:
        return False
    perplexities = [logs["val_perplexity"] for logs in history]
    return len(history) - 1 - perplexities.index(min(perplexities)) >= patience


class StopWhenStalled(keras.callbacks.Callback):
    """Ends training when the validation perplexity no longer falls.

    It looks at the whole run's history, which checkpoints keep, so a resumed run stops where an
    undisturbed one would.
    """

    def __init__(self, history: list[dict[str, float]], patience: int | None):
        super().__init__()
        self.history = history
        self.patience = patience

    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = stalled(self.history, self.patience)


class GradientNorm(keras.callbacks.Callback):
    """Adds the norm of the last gradient, before clipping, to each epoch's logs."""

    def on_epoch_end(self, epoch, logs=None):
        logs["gradient_norm"] = float(self.model.optimizer.gradient_norm)


class Validation(keras.callbacks.Callback):
    """Adds the perplexity of a validation text, read with carried state, to each epoch's logs."""

    def __init__(self, ids: np.ndarray, batch_size: int):
        super().__init__()
        self.ids = ids
        self.batch_size = batch_size

    def on_epoch_end(self, epoch, logs=None):
        logs["val_perplexity"] = stream_perplexity(self.model, self.ids, self.batch_size)


class Checkpoints(keras.callbacks.Callback):
    """Saves after each epoch, every few minutes, and when asked to stop; restores where a run stood.

    Within `stop_on_signals()`, SIGINT (Ctrl-C) and SIGTERM ask to stop: the steps in flight are finished,
    a checkpoint is written and `TrainingInterrupted` is raised.

    Args:
        store: Where checkpoints go.
        minutes: Time between checkpoints within an epoch.

    Attributes:
        history: Logs of each finished epoch.
        epoch: The epoch the run stands in, counted from 0.
        batch: Batches of that epoch that are done.
        seconds: Training time so far, earlier parts of the run included.
    """

    def __init__(self, store: CheckpointStore, minutes: float):
        super().__init__()
        self.store = store
        self.minutes = minutes
        self.history: list[dict[str, float]] = []
        self.epoch = 0
        self.batch = 0
        self.seconds = 0.0
        self._first_batch = 0
        self._restored: dict[str, np.ndarray] | None = None
        self._stop_signal: int | None = None
        self._started = self._saved = time.monotonic()

    def restore(self, model: keras.Model) -> bool:
        """Puts `model` where the newest whole checkpoint left it; `False` if there is none."""
        checkpoint = self.store.newest()
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
            self._stop_signal = number

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
        self.batch = self._first_batch + batch + 1
        if self._stop_signal is not None:
            path = self._save()
            raise TrainingInterrupted(f"Stopped by {signal.Signals(self._stop_signal).name}; saved {path.name}.")
        if time.monotonic() - self._saved > 60 * self.minutes:
            self._save()

    def on_epoch_end(self, epoch, logs=None):
        self.history.append({name: float(value) for name, value in (logs or {}).items()})
        self.epoch, self.batch = epoch + 1, 0
        self._save()

    def _save(self):
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
        path = self.store.save(Checkpoint(values, progress))
        self._saved = time.monotonic()
        return path


class Progress(keras.callbacks.Callback):
    """A bar with words a second, loss, perplexity and time left, and a line for each epoch.

    Stands after `Validation`, whose result the line shows; adds `words_per_second` to the epoch's logs.

    Args:
        epochs: Epochs of the whole run.
        batches: Batches of an epoch.
        words_per_batch: Words of a batch.
        first_batch: Returns the batch an epoch starts at: a resumed epoch does not start at 0.
    """

    def __init__(self, epochs: int, batches: int, words_per_batch: int, first_batch: Callable[[], int]):
        super().__init__()
        self.epochs = epochs
        self.batches = batches
        self.words_per_batch = words_per_batch
        self.first_batch = first_batch

    def on_epoch_begin(self, epoch, logs=None):
        self._start = self.first_batch()
        self._time = time.monotonic()
        self._rate = float("nan")
        self._bar = tqdm(
            total=self.batches * self.words_per_batch,
            initial=self._start * self.words_per_batch,
            desc=f"epoch {epoch + 1}/{self.epochs}",
            unit=" words",
            unit_scale=True,
            leave=False,
            disable=None,
        )

    def on_train_batch_end(self, batch, logs=None):
        words = (batch + 1) * self.words_per_batch
        self._rate = words / (time.monotonic() - self._time)
        self._bar.set_postfix_str(f"loss {logs['loss']:.2f}, perplexity {logs['perplexity']:.1f}", refresh=False)
        self._bar.update(self._start * self.words_per_batch + words - self._bar.n)

    def on_epoch_end(self, epoch, logs=None):
        self._bar.close()
        logs["words_per_second"] = self._rate
        print(
            f"epoch {epoch + 1:2}/{self.epochs}  perplexity: train {logs['perplexity']:8.2f}, "
            f"validation {logs['val_perplexity']:8.2f}  learning rate {logs['learning_rate']:.4g}  "
            f"{self._rate:,.0f} words/s",
            flush=True,
        )
