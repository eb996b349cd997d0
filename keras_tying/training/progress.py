"""Where a run stands."""

import json
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError


@dataclass
class Progress:
    """The position of a run: the one place that knows its epoch and batch.

    Attributes:
        epoch: The current epoch, counted from 0.
        batch: Batches of this epoch that are done.
        seconds: Training time so far, including the parts before an interruption.
        processor_seconds: Processor time of the training process so far, of the chief's if there are several.
        batches: Batches of an epoch. 0 before training.
        history: Metrics of each finished epoch.
        environments: Device, replicas, commit and versions of the processes that trained, in order.
    """

    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0
    batches: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    environments: list[dict[str, Any]] = field(default_factory=list)

    def train_in(self, environment: dict[str, Any]) -> None:
        """Notes where training begins or goes on."""
        if self.environments[-1:] != [environment]:
            self.environments.append(environment)

    def finished(self, epochs: int, patience: int | None) -> bool:
        """Whether training ends here: after the last epoch, or when the validation perplexity stalls.

        Args:
            epochs: Maximum number of epochs.
            patience: Maximum number of epochs since the best validation perplexity. `None`: no limit.

        Example:

        >>> import keras_tying as kt
        >>> history = [{"val_perplexity": perplexity} for perplexity in (9.0, 7.0, 8.0)]
        >>> progress = kt.training.Progress(epoch=3, history=history)
        >>> progress.finished(epochs=9, patience=2), progress.finished(epochs=9, patience=1)
        (False, True)
        """
        if self.epoch >= epochs:
            return True
        if patience is None or not self.history:
            return False
        perplexities = [metrics["val_perplexity"] for metrics in self.history]
        return len(perplexities) - 1 - perplexities.index(min(perplexities)) >= patience


def read_progress(values: dict[str, Any], origin: str) -> Progress:
    """The progress that a file holds.

    Args:
        values: Its attributes.
        origin: The file, for error messages.

    Raises:
        ValueError: If they are not those of a `Progress`.

    Example:

    >>> read_progress(vars(Progress(batch=7, seconds=1.5)), "index.json").batch
    7
    """
    names = set(vars(Progress()))
    if set(values) != names:
        raise ValueError(f"{origin}: progress must have the keys {sorted(names)}. Received: {sorted(values)}")
    try:
        progress = TypeAdapter(Progress).validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{origin}: progress.{place}: {first['msg']}. Received: {first['input']!r}") from None
    if progress.batch < 0 or len(progress.history) != progress.epoch:
        raise ValueError(
            f"{origin}: expected a batch of at least 0 and the metrics of each finished epoch. Received: "
            f"batch {progress.batch}, epoch {progress.epoch}, the metrics of {len(progress.history)} epochs. "
            "Restore the file."
        )
    return progress
