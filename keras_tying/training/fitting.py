"""`fit`, from where a run stood to its end."""

from collections.abc import Callable
from typing import Any

import keras

from keras_tying.training.callbacks import stalled
from keras_tying.training.checkpointing import Checkpoints

STEPS_PER_CALL = 1 if keras.backend.backend() == "torch" else 20
"""Training steps a compiled call takes; losses are read back between calls. PyTorch compiles none."""


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
            on; the data of later epochs begins at their first batch.
        epochs: Epochs of the whole run.
        patience: Epochs without a better validation perplexity before training stops; `None` never stops.
        checkpoints: Knows where the run stands; one of the callbacks.
        callbacks: Of `fit`.

    Raises:
        TrainingDiverged: If the loss becomes NaN or infinite.
        TrainingInterrupted: If SIGINT or SIGTERM asked to stop; a checkpoint is written.
    """

    def fit(last: int) -> None:
        if checkpoints.epoch >= last or stalled(checkpoints.history, patience):
            return
        model.fit(
            **data(checkpoints.epoch, checkpoints.batch),
            shuffle=False,
            initial_epoch=checkpoints.epoch,
            epochs=last,
            callbacks=callbacks,
            verbose=0,
        )

    with checkpoints.stop_on_signals():
        if checkpoints.batch:  # the rest of an epoch that was interrupted
            fit(checkpoints.epoch + 1)
        fit(epochs)
