"""Batches of one shape, of which many are made at once."""

from typing import Any

import keras


class Blocks(keras.utils.PyDataset):
    """Batches from one of an epoch on. A subclass has `__len__` and `block`.

    Attributes:
        batch_size: Rows of a batch.
        epoch: The epoch they are of.
        first_batch: The batch of it that they begin with.
    """

    batch_size: int
    epoch = 0
    first_batch = 0
    whole_epochs = None  # what `feed` has made of them

    def __getitem__(self, index):
        return keras.tree.map_structure(lambda stacked: stacked[0], self.block(index, 1))

    def block(self, index: int, count: int, rows: slice = slice(None)) -> Any:
        """So many batches from the given one on, or those that are left, or some rows of them: arrays `[N, B, ...]`."""
        raise NotImplementedError

    def begin(self, epoch: int, first_batch: int = 0) -> None:
        """Goes to a batch of an epoch, counted from 0, as if those before had been seen."""
        self.epoch, self.first_batch = epoch, first_batch
