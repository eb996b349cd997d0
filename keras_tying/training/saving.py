"""What a training saves on its way: checkpoints, and the best epoch."""

import signal
import time
from pathlib import Path
from typing import NoReturn

import keras
import numpy as np

from keras_tying.backend.replicas import is_chief, of_chief, sum_over_workers
from keras_tying.errors import TrainingDiverged, TrainingInterrupted
from keras_tying.optimizers import averaged_weights
from keras_tying.signals import handling_stop_signals
from keras_tying.training.callbacks import NOT_FINITE
from keras_tying.training.checkpoints import Checkpoint, CheckpointStore, read_variables, write_variables
from keras_tying.training.progress import Progress, read_progress
from keras_tying.training.runs import Run


class BestEpoch:
    """The variables of the epoch with the best validation metric, with averaged weights if there are any.

    Args:
        folder: Where they are kept, with those of the epochs that were best before: a run that is killed before it
            writes its checkpoint, or whose checkpoint is damaged, goes on without its last epochs.
        metric: `"val_perplexity"`, where smaller is better, or `"val_bleu"`.
    """

    def __init__(self, folder: Path, metric: str):
        self.store = CheckpointStore(folder, keep=4)  # one more than checkpoints
        self.metric = metric
        self.sign = 1 if metric == "val_bleu" else -1

    def keep(self, model: keras.Model, values: dict[str, np.ndarray], history: list[dict[str, float]]) -> None:
        """Keeps the last epoch if it is the best so far.

        Args:
            model: The model. All workers must call this at the same time.
            values: What `read_variables` gives of it now.
            history: The metrics of all epochs, those of the last one at the end.
        """
        *before, last = [metrics[self.metric] for metrics in history]
        if not all(self.sign * last > self.sign * earlier for earlier in before):
            return
        with averaged_weights(model) as averaged:
            if averaged:
                values = read_variables(model)
        if is_chief(model):
            self.store.keep_only(lambda progress: progress in self._places(before))
            self.store.save(Checkpoint(values, {"epoch": len(before), self.metric: last}))

    def _places(self, metrics: list[float]) -> list[dict[str, float]]:
        """The progress that is stored of each epoch."""
        return [{"epoch": epoch, self.metric: value} for epoch, value in enumerate(metrics)]

    def restore(self, model: keras.Model, history: list[dict[str, float]]) -> None:
        """Gives `model` the variables of the best epoch."""
        write_variables(model, self.saved(history).values)

    def saved(self, history: list[dict[str, float]]) -> Checkpoint:
        """The best of the epochs whose metrics are in `history`.

        Raises:
            FileNotFoundError: If it is missing or damaged.
        """
        places = self._places([metrics[self.metric] for metrics in history])
        place = max(places, key=lambda place: self.sign * place[self.metric])
        best = self.store.newest(lambda progress: progress == place)
        if best is None:
            raise FileNotFoundError(
                f"{self.store.folder} lacks the best epoch so far, {place['epoch'] + 1}, or it is damaged; the run "
                "ends with it, unless a later one is better. Restore it, or train anew in another folder."
            )
        return best


class SaveCheckpoints(keras.callbacks.Callback):
    """Saves checkpoints after each epoch, every few minutes and on request to stop; restores the newest.

    Within `stop_on_signals()`, SIGINT (Ctrl-C), SIGTERM and SIGHUP (the terminal was closed) request a stop: the
    running steps are finished, a checkpoint is written and `TrainingInterrupted` is raised. The chief writes, every
    worker restores from the same folder, and a signal to one worker stops all.

    Args:
        run: The run whose checkpoints they are.
        minutes: Time between checkpoints within an epoch.
        batches: Batches per epoch.
        progress: Position of the run, which this callback advances.
        best: Keeps the best epoch, if the run ends with that.
    """

    def __init__(self, run: Run, *, minutes: float, batches: int, progress: Progress, best: BestEpoch | None = None):
        super().__init__()
        self.run = run
        self.store = CheckpointStore(run.checkpoints)
        self.minutes = minutes
        self.batches = batches
        self.progress = progress
        self.best = best
        self._within_epoch: dict[str, np.ndarray] | None = None
        self._stop_signal: signal.Signals | None = None
        self._saved = time.monotonic()

    def restore(self, model: keras.Model) -> bool:
        """Continues from the newest intact checkpoint; `False` if there is none.

        A checkpoint from within an epoch is written to the variables when the epoch begins, because `fit`
        resets the metrics before that.

        Raises:
            FileNotFoundError: If only some of the workers find the checkpoint.
            ValueError: If the checkpoint says of another thing where it stands, if workers read another one than the
                chief, or if an epoch of the run had another number of batches.
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
        progress = read_progress(checkpoint.progress, str(self.store.index))
        self._check_continues(model, progress)
        vars(self.progress).update(vars(progress))
        if self.progress.batch:
            self._within_epoch = checkpoint.values
        else:
            write_variables(model, checkpoint.values)
        return True

    def _check_continues(self, model: keras.Model, progress: Progress) -> None:
        """Raises ValueError if workers stand at different places, or an epoch has other batches than before."""
        place = [float(progress.epoch), float(progress.batch)]
        (others,) = sum_over_workers(model, [float(of_chief(model, place) != place)])
        if others:
            raise ValueError(
                f"{others:.0f} workers read another checkpoint in {self.store.folder} than the chief. Look for damaged "
                "files there, see their warnings, and start all workers again."
            )
        if progress.batches != self.batches:
            raise ValueError(
                f"An epoch of {self.run.folder} has {progress.batches:,} batches, which depend on its settings and "
                f"the number of replicas. Received: {self.batches:,}. Continue it with those that it had before."
            )

    def save_start(self, model: keras.Model) -> None:
        """Saves a model that no epoch trains, so that the run can be resumed. It has an optimizer with variables."""
        self.set_model(model)
        self.on_train_begin()
        self._save(self._read())

    def stop_on_signals(self):
        """A context in which SIGINT, SIGTERM and SIGHUP stop training after a checkpoint."""

        def request_stop(received):
            self._stop_signal = received

        return handling_stop_signals(request_stop)

    def on_train_begin(self, logs=None):
        self.progress.batches = self.batches
        self._start = time.monotonic() - self.progress.seconds
        self._processor_start = time.process_time() - self.progress.processor_seconds

    def on_epoch_begin(self, epoch, logs=None):
        self._first_batch = self.progress.batch
        if self._within_epoch is not None:
            write_variables(self.model, self._within_epoch)
            self._within_epoch = None

    def on_train_batch_end(self, batch, logs=None):
        # The last call of several steps counts past the end of the data.
        self.progress.batch = min(self._first_batch + batch + 1, self.batches)
        if self.progress.batch == self.batches:
            return  # on_epoch_end saves
        due = is_chief(self.model) and time.monotonic() - self._saved > 60 * self.minutes
        stop, save = sum_over_workers(self.model, [float(self._stop_signal is not None), float(due)])
        if stop:
            self._stop(self._save(self._read()))
        if save:
            self._save(self._read())

    def on_epoch_end(self, epoch, logs=None):
        self.progress.history.append({name: float(value) for name, value in (logs or {}).items()})
        self.progress.epoch, self.progress.batch = epoch + 1, 0
        values = self._read()
        if self.best is not None:
            self.best.keep(self.model, values, self.progress.history)
        saved = self._save(values)
        (stop,) = sum_over_workers(self.model, [float(self._stop_signal is not None)])
        if stop:
            self._stop(saved)

    def _stop(self, saved: str) -> NoReturn:
        by = "a signal to another worker" if self._stop_signal is None else self._stop_signal.name
        raise TrainingInterrupted(f"Stopped by {by}; saved {saved}.", self.run.folder)

    def _read(self) -> dict[str, np.ndarray]:
        values = read_variables(self.model)
        if not all(np.isfinite(value).all() for value in values.values()):
            raise TrainingDiverged(NOT_FINITE)
        return values

    def _save(self, values: dict[str, np.ndarray]) -> str:
        self.progress.seconds = time.monotonic() - self._start
        self.progress.processor_seconds = time.process_time() - self._processor_start
        saved = "by the chief"
        if is_chief(self.model):
            saved = self.store.save(Checkpoint(values, dict(vars(self.progress)))).name
            self.run.mark_begun()
        self._saved = time.monotonic()
        return saved
