"""Batches of an epoch, from any of them on."""

from typing import Any

import keras

from keras_tying.backend import dispatch


class EpochBatches(keras.utils.PyDataset):
    """The batches of one epoch, from `first_batch` on. A subclass has `total`, and `__getitem__` or its own `feed`.

    Attributes:
        total: Batches of a whole epoch.
        words_per_batch: Average number of words per batch, for the display of speed.
        one_shape: Whether all batches have the same shape.
        epoch: The epoch, counted from 0.
        first_batch: The batch that they begin with.
        failure: The error that making a batch has raised. `fit` may raise another one, which contains its traceback.
    """

    total: int
    words_per_batch: int
    one_shape = True
    epoch = 0
    first_batch = 0
    failure: Exception | None = None
    whole_epochs: dict[str, Any] | None = None  # the arguments of `fit` for epochs from their start, kept by `feed`

    def begin(self, epoch: int, first_batch: int = 0) -> None:
        """Goes to a batch of an epoch, as if those before it had been seen."""
        self.epoch, self.first_batch = epoch, first_batch

    def __len__(self):
        return self.total - self.first_batch

    def feed(self, model: keras.Model) -> dict[str, Any]:
        """The arguments of `fit` that hold these batches."""
        return feed(model, self)


class BlockBatches(EpochBatches):
    """Batches of one shape, of which many are made at once. A subclass has `block`.

    Attributes:
        batch_size: Rows per batch.
    """

    batch_size: int

    def __getitem__(self, index):
        return keras.tree.map_structure(lambda stacked: stacked[0], self.block(index, 1))

    def block(self, index: int, count: int, rows: slice = slice(None)) -> Any:
        """Up to `count` batches from `index` on, or some rows of each: arrays `[N, B, ...]`."""
        raise NotImplementedError


class RowBatches(EpochBatches):
    """Batches of different shapes, each made by the rows of a replica. A subclass has `rows`."""

    one_shape = False

    def __getitem__(self, index):
        return self.rows(index, 0, 1)

    def rows(self, index: int, replica: int, replicas: int) -> Any:
        """The rows of a batch that belong to one replica of so many: arrays of any size, of the same number of axes."""
        raise NotImplementedError


@dispatch
def feed(model, batches):
    """The arguments of `fit` for batches from where they stand, with the rows of this worker's replicas.

    Args:
        model: The model.
        batches: `EpochBatches`.
    """
    return {"x": batches}
