"""The most probable next words."""

from typing import Any

import numpy as np
from keras import ops

from keras_tying.data import Vocabulary


def most_probable(scores: Any, vocabulary: Vocabulary, k: int) -> list[tuple[str, float]]:
    """The `k` words with the largest scores `[1, V]` and their probabilities, most probable first."""
    probabilities = ops.convert_to_numpy(ops.softmax(ops.cast(scores, "float32")))[0]
    best = np.argsort(-probabilities, kind="stable")[:k]
    return list(zip(vocabulary.decode(best), probabilities[best].tolist(), strict=True))
