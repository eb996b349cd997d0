"""Progress of a training on the console."""

import time

import keras
from tqdm import tqdm

from keras_tying.training.batches import EpochBatches
from keras_tying.training.progress import Progress

LABELS = {
    "perplexity": "perplexity: train",
    "val_perplexity": "validation",
    "val_bleu": "BLEU",
    "pair_loss": "loss per pair",
}
"""Metrics that are shown, and what they are called."""


class ProgressBar(keras.callbacks.Callback):
    """A bar with words per second, losses and time left, and a line for each epoch.

    It comes after the callbacks whose metrics the line shows, and adds `words_per_second` to them.

    Args:
        epochs: Epochs of the whole run.
        batches: The training batches.
        progress: Position of the run.
    """

    def __init__(self, epochs: int, batches: EpochBatches, progress: Progress):
        super().__init__()
        self.epochs = epochs
        self.batches = batches
        self.progress = progress

    def on_epoch_begin(self, epoch, logs=None):
        words = self.batches.words_per_batch
        self._start = self.progress.batch
        self._time = time.monotonic()
        self._rate = float("nan")
        self._bar = tqdm(
            total=self.batches.total * words,
            initial=self._start * words,
            desc=f"epoch {epoch + 1}/{self.epochs}",
            unit=" words",
            unit_scale=True,
            leave=False,
            disable=None,
        )

    def on_train_batch_end(self, batch, logs=None):
        done = min(batch + 1, self.batches.total - self._start)  # the last call of several steps counts too many
        words = done * self.batches.words_per_batch
        self._rate = words / (time.monotonic() - self._time)
        self._bar.set_postfix_str(", ".join(f"{name} {logs[name]:.2f}" for name in LABELS if name in logs), False)
        self._bar.update(self._start * self.batches.words_per_batch + words - self._bar.n)

    def on_epoch_end(self, epoch, logs=None):
        self._bar.close()
        logs["words_per_second"] = self._rate
        metrics = "  ".join(f"{label} {logs[name]:8.2f}" for name, label in LABELS.items() if name in logs)
        print(
            f"epoch {epoch + 1:2}/{self.epochs}  {metrics}  learning rate {logs['learning_rate']:.4g}  "
            f"{self._rate:,.0f} words/s",
            flush=True,
        )
