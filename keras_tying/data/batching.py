"""A stream of word ids to windows that continue each other."""

from dataclasses import dataclass

import numpy as np

from keras_tying.ids import check_ids


@dataclass(frozen=True)
class Windows:
    """Windows of a text cut into `batch_size` contiguous rows, in the order `fit` must see them.

    Batch `k`, rows `k * batch_size` to `(k + 1) * batch_size` of the arrays, holds window `k` of every
    row of the text, so a recurrent state carried from batch to batch continues each row. Use
    `shuffle=False`.

    Attributes:
        inputs: Word ids `int32 [batches * batch_size, T]`.
        targets: The word after each input, of the same shape.
        batch_size: Rows of the text.
        lost: Tokens at the ends of the text and of the rows that fill no window.
    """

    inputs: np.ndarray
    targets: np.ndarray
    batch_size: int
    lost: int

    @property
    def batches(self) -> int:
        return len(self.inputs) // self.batch_size

    def since(self, batch: int) -> "Windows":
        """The windows from the given batch on."""
        start = batch * self.batch_size
        return Windows(self.inputs[start:], self.targets[start:], self.batch_size, self.lost)


def windows(ids: np.ndarray, batch_size: int, steps: int, vocabulary_size: int | None = None) -> Windows:
    """Cuts a text into rows and the rows into windows.

    Args:
        ids: Word ids `[N]` of the whole text.
        batch_size: Rows.
        steps: Window length `T`.
        vocabulary_size: If given, ids are checked to be below it.

    Raises:
        ValueError: If the text is too short for one window a row, or an id is outside the vocabulary.

    Example:

    >>> cut = windows(np.arange(11), batch_size=2, steps=2)
    >>> cut.inputs.tolist()
    [[0, 1], [5, 6], [2, 3], [7, 8]]
    >>> cut.targets[0].tolist(), cut.lost
    ([1, 2], 1)
    """
    ids = np.asarray(ids, np.int32)
    if vocabulary_size is not None:
        check_ids(ids, vocabulary_size)
    length = len(ids) // batch_size
    count = (length - 1) // steps
    if count < 1:
        raise ValueError(
            f"A text needs at least {batch_size * (steps + 1):,} tokens for {batch_size} rows of {steps} "
            f"steps. Received: {len(ids):,} tokens. Use more text, a smaller batch or a shorter window."
        )
    rows = ids[: length * batch_size].reshape(batch_size, length)

    def cut(start: int) -> np.ndarray:
        spans = rows[:, start : start + count * steps].reshape(batch_size, count, steps)
        return np.ascontiguousarray(spans.swapaxes(0, 1)).reshape(-1, steps)

    return Windows(cut(0), cut(1), batch_size, lost=len(ids) - batch_size * (count * steps + 1))
