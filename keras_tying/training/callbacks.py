"""What is looked at between the steps and epochs of a run."""

import math
from collections.abc import Callable

import keras

from keras_tying.backend.replicas import of_chief


class TrainingDiverged(ArithmeticError):
    """The loss is no longer a number."""


class CarryState(keras.callbacks.Callback):
    """Carries the recurrent state from window to window and forgets it where an epoch begins."""

    def on_epoch_begin(self, epoch, logs=None):
        self.model.reset_state()


class BeginEpoch(keras.callbacks.Callback):
    """Tells batches which epoch it is: Keras calls their own `on_epoch_end` at other times too."""

    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def on_epoch_begin(self, epoch, logs=None):
        if epoch != self.batches.epoch:
            self.batches.begin(epoch)


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


class LearningRate(keras.callbacks.Callback):
    """Adds the learning rate an epoch ends with to its logs."""

    def on_epoch_end(self, epoch, logs=None):
        logs["learning_rate"] = float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))


class GradientNorm(keras.callbacks.Callback):
    """Adds the norm of the last gradient, before clipping, to each epoch's logs."""

    def on_epoch_end(self, epoch, logs=None):
        optimizer = getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)  # of one that scales losses
        logs["gradient_norm"] = float(keras.ops.convert_to_numpy(optimizer.gradient_norm))


class Validation(keras.callbacks.Callback):
    """Adds a figure of a validation text, such as its perplexity, to each epoch's logs; `measure` takes it.

    Every worker measures and goes by what the chief measured.
    """

    def __init__(self, measure: Callable[[], float], name: str = "val_perplexity"):
        super().__init__()
        self.measure = measure
        self.name = name

    def on_epoch_end(self, epoch, logs=None):
        logs[self.name] = of_chief(self.model, self.measure())
