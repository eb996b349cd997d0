"""Word ids: the padding id and the range check."""

import numpy as np

PAD_ID = -1
"""The id that pads sentences, and the input before the first word of a target sentence. Its vector is zero."""


def check_ids(ids: np.ndarray, vocabulary_size: int) -> None:
    """Raises ValueError if an id is not in `[0, vocabulary_size)`."""
    ids = np.asarray(ids)
    outside = ids[(ids < 0) | (ids >= vocabulary_size)]
    if outside.size:
        raise ValueError(f"Word ids must be in [0, {vocabulary_size}). Received: {outside[0]}")
