"""Batches of windows."""

import numpy as np

from keras_tying.data import Windows
from keras_tying.training.batches import Blocks


class WindowBatches(Blocks):
    """Windows of a text in batches, the same each epoch.

    Args:
        windows: The text.
    """

    def __init__(self, windows: Windows):
        super().__init__()
        self.windows = windows
        self.batch_size = windows.batch_size

    def __len__(self):
        return self.windows.batches - self.first_batch

    def block(self, index: int, count: int, rows: slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """So many batches from the given one on, or those that are left: inputs and targets `int32 [N, B, T]`."""
        return self.windows.block(self.first_batch + index, count, rows)
