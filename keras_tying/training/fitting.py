"""`fit`, from where a run stood to its end."""

from collections.abc import Callable
from typing import Any

import keras

from keras_tying import backend
from keras_tying.backend.replicas import is_chief
from keras_tying.training.callbacks import stalled
from keras_tying.training.checkpointing import Checkpoints
from keras_tying.training.progress import Progress
from keras_tying.training.tensorboard import TensorBoardLog

STEPS_PER_CALL = 20 if backend.COMPILES_STEPS else 1
"""Training steps a compiled call takes; losses are read back between calls."""


def fit_to_the_end(
    model: keras.Model,
    data: Callable[[int, int], dict[str, Any]],
    epochs: int,
    patience: int | None,
    checkpoints: Checkpoints,
    callbacks: list[keras.callbacks.Callback],
) -> None:
    """Trains a compiled model on, from the epoch and batch its checkpoints stand at.

    Args:
        model: The model, restored.
        data: Takes an epoch and a batch of it, gives the arguments of `fit` that hold the data from there
            on; the data of later epochs begins at their first batch. With `steps_per_epoch` among them, they are of
            one epoch.
        epochs: Epochs of the whole run.
        patience: Epochs without a better validation perplexity before training stops; `None` never stops.
        checkpoints: Knows where the run stands; one of the callbacks.
        callbacks: Of `fit`; what they print and log, of several workers the chief does.

    Raises:
        TrainingDiverged: If the loss becomes NaN or infinite.
        TrainingInterrupted: If SIGINT or SIGTERM asked to stop; a checkpoint is written.
    """
    if not is_chief(model):
        callbacks = [callback for callback in callbacks if not isinstance(callback, (Progress, TensorBoardLog))]

    with checkpoints.stop_on_signals():
        while checkpoints.epoch < epochs and not stalled(checkpoints.history, patience):
            arguments = data(checkpoints.epoch, checkpoints.batch)
            one_epoch = "steps_per_epoch" in arguments or checkpoints.batch  # the rest of one that was interrupted
            model.fit(
                **arguments,
                shuffle=False,
                initial_epoch=checkpoints.epoch,
                epochs=checkpoints.epoch + 1 if one_epoch else epochs,
                callbacks=callbacks,
                verbose=0,
            )
