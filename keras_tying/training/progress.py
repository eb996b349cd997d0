"""Where a run stands."""

from dataclasses import dataclass, field


@dataclass
class Progress:
    """The position of a run: the one place that knows its epoch and batch.

    Attributes:
        epoch: The current epoch, counted from 0.
        batch: Batches of this epoch that are done.
        seconds: Training time so far, including the parts before an interruption.
        history: Metrics of each finished epoch.
    """

    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)

    def finished(self, epochs: int, patience: int | None) -> bool:
        """Whether training ends here: after the last epoch, or when the validation perplexity stalls.

        Args:
            epochs: Maximum number of epochs.
            patience: Maximum number of epochs since the best validation perplexity. `None`: no limit.

        Example:

        >>> progress = Progress(epoch=3, history=[{"val_perplexity": p} for p in (9.0, 7.0, 8.0)])
        >>> progress.finished(epochs=9, patience=2), progress.finished(epochs=9, patience=1)
        (False, True)
        """
        if self.epoch >= epochs:
            return True
        if patience is None or not self.history:
            return False
        perplexities = [metrics["val_perplexity"] for metrics in self.history]
        return len(perplexities) - 1 - perplexities.index(min(perplexities)) >= patience
