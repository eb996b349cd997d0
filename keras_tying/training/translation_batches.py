"""Batches of sentence pairs as `fit` takes them."""

import math

from keras_tying.backend import ANY_SHAPE
from keras_tying.data import PairBatches
from keras_tying.training import fitting
from keras_tying.training.batches import EpochBatches

SHAPES_OF = 1 if ANY_SHAPE else 8
"""Rows and lengths are filled up to multiples of this."""
STEPS_PER_CALL = fitting.STEPS_PER_CALL if ANY_SHAPE else 1


class TranslationBatches(EpochBatches):
    """Batches of an epoch, in the order `PairBatches` gives them.

    Args:
        batches: The text.
        replicas: Of the model, each of which gets as many rows of a batch.
    """

    def __init__(self, batches: PairBatches, replicas: int = 1):
        super().__init__()
        self.batches = batches
        self.multiple_rows = math.lcm(replicas, SHAPES_OF)
        self.begin(0)

    def __len__(self):
        return len(self.batches) - self.first_batch

    def __getitem__(self, index):
        return self.rows(index, 0, 1)

    def rows(self, index: int, replica: int, replicas: int):
        """The rows of a batch that one of so many replicas takes; their sentences alone are read and filled up."""
        chosen = self._order[self.first_batch + index]
        return self.batches.pairs.batch(chosen, SHAPES_OF, self.multiple_rows, part=(replica, replicas))

    def begin(self, epoch: int, first_batch: int = 0) -> None:
        super().begin(epoch, first_batch)
        self._order = self.batches.order(epoch)
