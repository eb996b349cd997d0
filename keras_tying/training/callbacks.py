"""Keras callbacks: carried state, metrics of an epoch, averaging, divergence."""

import math
from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np

from keras_tying.backend.compilation import write_back
from keras_tying.backend.keras_internals.optimizers import without_loss_scale
from keras_tying.backend.replicas import is_chief, of_chief
from keras_tying.errors import TrainingDiverged
from keras_tying.optimizers import averaged_weights
from keras_tying.training.progress import Progress


class ResetState(keras.callbacks.Callback):
    """Resets the carried recurrent state at the start of an epoch, unless the epoch is resumed in the middle."""

    def __init__(self, progress: Progress):
        super().__init__()
        self.progress = progress

    def on_epoch_begin(self, epoch, logs=None):
        if self.progress.batch == 0:
            self.model.reset_state()


SMALLER = "A smaller learning rate or clipping norm may help"
NOT_FINITE = "A weight became NaN or infinite; the checkpoints from before are kept."


def check_perplexities(logs: Mapping[str, float], epoch: int) -> None:
    """Raises `TrainingDiverged` if a perplexity among the metrics of an epoch is not finite."""
    for name, split in (("perplexity", "training"), ("val_perplexity", "validation")):
        if not math.isfinite(logs.get(name, 0.0)):
            raise TrainingDiverged(
                f"The {split} perplexity became {logs[name]} in epoch {epoch + 1}. {SMALLER}; the checkpoints from "
                "before are kept."
            )


class StopOnNaN(keras.callbacks.Callback):
    """Raises `TrainingDiverged` as soon as the loss is not finite, or at the end of an epoch a perplexity or weight."""

    def on_train_batch_end(self, batch, logs=None):
        if not math.isfinite(logs["loss"]):
            raise TrainingDiverged(
                f"The loss became {logs['loss']} near batch {batch}. {SMALLER}; the checkpoints from before are kept."
            )

    def on_epoch_end(self, epoch, logs=None):
        check_perplexities(logs or {}, epoch)
        write_back(self.model)
        if not all(np.isfinite(keras.ops.convert_to_numpy(weight)).all() for weight in self.model.weights):
            raise TrainingDiverged(NOT_FINITE)


class LogLearningRate(keras.callbacks.Callback):
    """Adds the learning rate at the end of the epoch to its metrics."""

    def on_epoch_end(self, epoch, logs=None):
        logs["learning_rate"] = float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))


class LogGradientNorm(keras.callbacks.Callback):
    """Adds the norm of the last gradient, before clipping, to the metrics of the epoch."""

    def on_epoch_end(self, epoch, logs=None):
        optimizer = without_loss_scale(self.model.optimizer)
        logs["gradient_norm"] = float(keras.ops.convert_to_numpy(optimizer.gradient_norm))


class Validation(keras.callbacks.Callback):
    """Adds the metrics of the validation text to those of the epoch, with averaged weights if the optimizer has them.

    The chief measures; the other workers wait for its numbers.

    Args:
        measure: Measures the model. Returns values by the name of the metric.
        names: The names.
    """

    def __init__(self, measure: Callable[[], dict[str, float]], names: Sequence[str]):
        super().__init__()
        self.measure = measure
        self.names = names

    def on_epoch_end(self, epoch, logs=None):
        measured = dict.fromkeys(self.names, 0.0)
        if is_chief(self.model):
            with averaged_weights(self.model):
                measured = self.measure()
        values = of_chief(self.model, [measured[name] for name in self.names])
        measured = dict(zip(self.names, values, strict=True))
        logs.update(measured)
        check_perplexities(measured, epoch)


class StartAveraging(keras.callbacks.Callback):
    """Starts the mean of the weights when `starts` says so. It comes after `Validation`.

    Args:
        starts: Takes the validation perplexities of all epochs so far.
        progress: With the metrics of the epochs before.
    """

    def __init__(self, starts: Callable[[list[float]], bool], progress: Progress):
        super().__init__()
        self.starts = starts
        self.progress = progress

    def on_epoch_end(self, epoch, logs=None):
        optimizer = without_loss_scale(self.model.optimizer)
        perplexities = [metrics["val_perplexity"] for metrics in self.progress.history] + [logs["val_perplexity"]]
        if not float(keras.ops.convert_to_numpy(optimizer.is_averaging)) and self.starts(perplexities):
            optimizer.start_averaging()
