"""What a run prints."""

import time
from collections.abc import Callable

import keras
from tqdm import tqdm

MEASURES = {
    "perplexity": "perplexity: train",
    "val_perplexity": "validation",
    "val_bleu": "BLEU",
    "pair_loss": "loss of a pair",
}


class Progress(keras.callbacks.Callback):
    """A bar with words a second, losses and time left, and a line for each epoch.

    Stands after the callbacks whose results the line shows; adds `words_per_second` to the epoch's logs.

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
        batches = min(batch + 1, self.batches - self._start)  # the last call of several steps counts too many
        words = batches * self.words_per_batch
        self._rate = words / (time.monotonic() - self._time)
        self._bar.set_postfix_str(
            ", ".join(f"{name} {logs[name]:.2f}" for name in MEASURES if name in logs), refresh=False
        )
        self._bar.update(self._start * self.words_per_batch + words - self._bar.n)

    def on_epoch_end(self, epoch, logs=None):
        self._bar.close()
        logs["words_per_second"] = self._rate
        figures = "  ".join(f"{label} {logs[name]:8.2f}" for name, label in MEASURES.items() if name in logs)
        print(
            f"epoch {epoch + 1:2}/{self.epochs}  {figures}  learning rate {logs['learning_rate']:.4g}  "
            f"{self._rate:,.0f} words/s",
            flush=True,
        )
