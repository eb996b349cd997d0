"""What all batches of an epoch have: a place to begin at."""

from typing import Any

import keras


class EpochBatches(keras.utils.PyDataset):
    """The batches of an epoch from one of them on. A subclass has `__len__` and `__getitem__`.

    Attributes:
        epoch: The epoch they are of.
        first_batch: The batch of it that they begin with.
    """

    epoch = 0
    first_batch = 0
    whole_epochs: dict[str, Any] | None = None  # what `feed` has made of them

    def begin(self, epoch: int, first_batch: int = 0) -> None:
        """Goes to a batch of an epoch, counted from 0, as if those before had been seen."""
        self.epoch, self.first_batch = epoch, first_batch


class Blocks(EpochBatches):
    """Batches of one shape, of which many are made at once. A subclass has `__len__` and `block`.

    Attributes:
        batch_size: Rows of a batch.
    """

    batch_size: int

    def __getitem__(self, index):
        return keras.tree.map_structure(lambda stacked: stacked[0], self.block(index, 1))

    def block(self, index: int, count: int, rows: slice = slice(None)) -> Any:
        """So many batches from the given one on, or those that are left, or some rows of them: arrays `[N, B, ...]`."""
        raise NotImplementedError
