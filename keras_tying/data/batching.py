"""Consecutive windows of a text for recurrent language models."""

from dataclasses import dataclass

import numpy as np

from keras_tying.checks import check_integer
from keras_tying.data.prepared.text import PreparedText
from keras_tying.ids import check_ids


@dataclass(frozen=True)
class Windows:
    """Windows of a text that is cut into `batch_size` contiguous rows, in the order of the batches.

    Batch `k` holds window `k` of each row, so a recurrent state carried from batch to batch continues each row. Use
    `fit` with `shuffle=False`.

    Attributes:
        ids: The text, `int32 [N]`, in memory or on disk.
        batch_size: Number of rows of the text.
        sequence_length: Words per window, `T`.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> cut = kt.data.windows(np.arange(11), batch_size=2, sequence_length=2)
    >>> cut.batches
    2
    >>> inputs, targets = cut.block(first=1, count=1)
    >>> inputs.tolist(), targets.tolist()
    ([[[2, 3], [7, 8]]], [[[3, 4], [8, 9]]])
    """

    ids: np.ndarray | PreparedText
    batch_size: int
    sequence_length: int

    @property
    def batches(self) -> int:
        return (len(self.ids) // self.batch_size - 1) // self.sequence_length

    @property
    def lost(self) -> int:
        """Number of tokens at the ends of the text and of the rows that are in no window."""
        return len(self.ids) - self.batch_size * (self.batches * self.sequence_length + 1)

    @property
    def inputs(self) -> np.ndarray:
        """Word ids of all batches in order, `int32 [batches * batch_size, T]`."""
        return self.block(0, self.batches)[0].reshape(-1, self.sequence_length)

    @property
    def targets(self) -> np.ndarray:
        """The next word of each input, of the same shape."""
        return self.block(0, self.batches)[1].reshape(-1, self.sequence_length)

    def block(
        self, first: int, count: int, rows: slice = slice(None), *, skip: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets of consecutive batches, `int32 [N, B, T]`.

        Args:
            first: Index of the first batch.
            count: Maximum number of batches.
            rows: Rows of the text to include.
            skip: Words at the start of each row that are in no window. With more than 0, at most `T`, there is a batch
                less.
        """
        count = min(count, self.batches - bool(skip) - first)
        start, stop = first * self.sequence_length, (first + count) * self.sequence_length + 1
        pieces = rows_of(self.ids, self.batch_size, start + skip, stop + skip, rows)

        def cut(tokens: np.ndarray) -> np.ndarray:
            return np.ascontiguousarray(tokens.reshape(len(tokens), count, self.sequence_length).swapaxes(0, 1))

        return cut(pieces[:, :-1]), cut(pieces[:, 1:])


def windows(
    ids: np.ndarray | PreparedText, batch_size: int, sequence_length: int, vocabulary_size: int | None = None
) -> Windows:
    """Cuts a text into rows and the rows into windows.

    Args:
        ids: Word ids of the text, `[N]`.
        batch_size: Number of rows of the text.
        sequence_length: Words per window, `T`.
        vocabulary_size: Optional. Ids in memory are checked to be below it; without it, to be `int32`.

    Raises:
        ValueError: If a size is below 1, the text is too short for one window per row, or an id is outside the
            vocabulary.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> cut = kt.data.windows(np.arange(11), batch_size=2, sequence_length=2)
    >>> cut.inputs.tolist()
    [[0, 1], [5, 6], [2, 3], [7, 8]]
    >>> cut.targets[0].tolist(), cut.lost
    ([1, 2], 1)
    """
    check_integer("batch_size", batch_size)
    check_integer("sequence_length", sequence_length)
    if not isinstance(ids, PreparedText):
        ids = check_ids(ids, 2**31 if vocabulary_size is None else vocabulary_size)
        if ids.ndim != 1:
            raise ValueError(f"`ids` must be the word ids of a text, [N]. Received: shape={ids.shape}")
    cut = Windows(ids, batch_size, sequence_length)
    if cut.batches < 1:
        raise ValueError(
            f"A text needs at least {batch_size * (sequence_length + 1):,} tokens for {batch_size} rows with windows "
            f"of {sequence_length} words. Received: {len(ids):,} tokens. Use more text, a smaller batch size "
            "or a shorter sequence length."
        )
    return cut


def rows_of(
    ids: np.ndarray | PreparedText, batch_size: int, start: int, stop: int, rows: slice = slice(None)
) -> np.ndarray:
    """Positions `start` to `stop` of each row of a text, `int32 [B, stop - start]`.

    Args:
        ids: Word ids of the text, `[N]`.
        batch_size: Number of rows of the text.
        start: The first position.
        stop: The position after the last.
        rows: Rows of the text to include.
    """
    length = len(ids) // batch_size
    offsets = [row * length for row in range(batch_size)[rows]]
    return np.stack([ids[offset + start : offset + stop] for offset in offsets])
