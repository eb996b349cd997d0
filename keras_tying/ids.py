"""Word ids: the padding id and the range check."""

import numpy as np
from numpy.typing import ArrayLike

PAD_ID = -1
"""The id that pads sentences, and the input before the first word of a target sentence. Its vector is zero."""


def check_ids(ids: ArrayLike, vocabulary_size: int, padded: bool = False) -> np.ndarray:
    """`ids` as an array `int32`, checked before it is converted.

    Args:
        ids: Integers of any shape.
        vocabulary_size: Ids must be below it.
        padded: Whether ids can be `PAD_ID`.

    Raises:
        ValueError: If an id is not an integer or outside the vocabulary.
    """
    ids = np.asarray(ids)
    least = PAD_ID if padded else 0
    if ids.size and ids.dtype.kind not in "iu":
        raise ValueError(f"Word ids must be integers. Received: {ids.dtype} {ids.flat[0]}")
    outside = ids[(ids < least) | (ids >= vocabulary_size)]
    if outside.size:
        padding = f"{PAD_ID} for padding or " if padded else ""
        raise ValueError(f"Word ids must be {padding}in [0, {vocabulary_size}). Received: {outside[0]}")
    return ids.astype(np.int32, copy=False)
