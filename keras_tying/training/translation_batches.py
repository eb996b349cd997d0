"""Batches of sentence pairs as `fit` takes them."""

import math

import keras
import numpy as np

from keras_tying.data import PairBatches
from keras_tying.training import fitting

ANY_SHAPE = keras.backend.backend() == "tensorflow"
"""Whether one compiled function takes batches of any shape."""
SHAPES_OF = 1 if ANY_SHAPE else 8
"""Rows and lengths are filled up to multiples of this."""
STEPS_PER_CALL = fitting.STEPS_PER_CALL if ANY_SHAPE else 1


class TranslationBatches(keras.utils.PyDataset):
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
        return self.batches.pairs.batch(self._order[self.first_batch + index], SHAPES_OF, self.multiple_rows)

    def begin(self, epoch: int, first_batch: int = 0) -> None:
        """Goes to a batch of an epoch, counted from 0, as if those before had been seen."""
        self.epoch, self.first_batch = epoch, first_batch
        self._order: list[np.ndarray] = self.batches.order(epoch)


if ANY_SHAPE:
    from keras_tying.training.translation_batches_tensorflow import of_any_shape
else:

    def of_any_shape(batches):
        """What `fit` takes for batches whose shapes differ."""
        return batches
