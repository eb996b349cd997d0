"""A stream of word ids to windows that continue each other."""

from dataclasses import dataclass

import numpy as np

from keras_tying.data.prepared.text import PreparedText
from keras_tying.ids import check_ids


@dataclass(frozen=True)
class Windows:
    """Windows of a text cut into `batch_size` contiguous rows, in the order `fit` must see them.

    Batch `k` holds window `k` of every row of the text, so a recurrent state carried from batch to batch continues
    each row. Use `shuffle=False`.

    Attributes:
        ids: The text, `int32 [N]`, in memory or on disk.
        batch_size: Rows of the text.
        sequence_length: Words per window, `T`.
    """

    ids: np.ndarray | PreparedText
    batch_size: int
    sequence_length: int

    @property
    def batches(self) -> int:
        return (len(self.ids) // self.batch_size - 1) // self.sequence_length

    @property
    def lost(self) -> int:
        """Tokens at the ends of the text and of the rows that fill no window."""
        return len(self.ids) - self.batch_size * (self.batches * self.sequence_length + 1)

    @property
    def inputs(self) -> np.ndarray:
        """Word ids of all batches, one after another, `int32 [batches * batch_size, T]`."""
        return self.block(0, self.batches)[0].reshape(-1, self.sequence_length)

    @property
    def targets(self) -> np.ndarray:
        """The word after each input, of the same shape."""
        return self.block(0, self.batches)[1].reshape(-1, self.sequence_length)

    def block(self, first: int, count: int, rows: slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets `int32 [N, B, T]` of some batches, or of some rows of them.

        Args:
            first: The first of the batches.
            count: How many; those after the last are left out.
            rows: Which rows of the text.
        """
        count = min(count, self.batches - first)
        start, stop = first * self.sequence_length, (first + count) * self.sequence_length + 1
        texts = rows_of(self.ids, self.batch_size, start, stop, rows)

        def cut(texts: np.ndarray) -> np.ndarray:
            return np.ascontiguousarray(texts.reshape(len(texts), count, self.sequence_length).swapaxes(0, 1))

        return cut(texts[:, :-1]), cut(texts[:, 1:])


def windows(
    ids: np.ndarray | PreparedText, batch_size: int, sequence_length: int, vocabulary_size: int | None = None
) -> Windows:
    """Cuts a text into rows and the rows into windows.

    Args:
        ids: Word ids `[N]` of the whole text.
        batch_size: Rows.
        sequence_length: Words per window, `T`.
        vocabulary_size: If given, ids in memory are checked to be below it.

    Raises:
        ValueError: If the text is too short for one window a row, or an id is outside the vocabulary.

    Example:

    >>> cut = windows(np.arange(11), batch_size=2, sequence_length=2)
    >>> cut.inputs.tolist()
    [[0, 1], [5, 6], [2, 3], [7, 8]]
    >>> cut.targets[0].tolist(), cut.lost
    ([1, 2], 1)
    """
    if not isinstance(ids, PreparedText):
        ids = np.asarray(ids, np.int32)
        if vocabulary_size is not None:
            check_ids(ids, vocabulary_size)
    cut = Windows(ids, batch_size, sequence_length)
    if cut.batches < 1:
        raise ValueError(
            f"A text needs at least {batch_size * (sequence_length + 1):,} tokens for {batch_size} rows with windows "
            f"of {sequence_length} words. Received: {len(ids):,} tokens. Use more text, a smaller batch or a "
            "shorter window."
        )
    return cut


def rows_of(
    ids: np.ndarray | PreparedText, batch_size: int, start: int, stop: int, rows: slice = slice(None)
) -> np.ndarray:
    """Places `start` to `stop` of the rows that a text is cut into, `int32 [B, stop - start]`.

    Args:
        ids: Word ids `[N]` of the whole text.
        batch_size: Rows.
        start: The first place.
        stop: The place after the last.
        rows: Which of the rows.
    """
    length = len(ids) // batch_size
    places = [row * length for row in range(batch_size)[rows]]
    return np.stack([ids[place + start : place + stop] for place in places])
