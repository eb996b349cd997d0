"""Nearest neighbours of words."""

import numpy as np

from keras_tying.checks import check_integer
from keras_tying.ids import check_ids

RESOLUTION = 2**22
"""Cosines that are ranked are rounded to 1 / RESOLUTION, about the precision of a sum of a few hundred float32
products."""


def unit_rows(matrix: np.ndarray) -> np.ndarray:
    """`matrix` `[V, H]` with rows scaled to length 1. Zero rows are unchanged.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> kt.metrics.unit_rows(np.array([[0, 2], [4, 0], [0, 0]])).tolist()
    [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
    """
    matrix = np.asarray(matrix, np.float32)
    if matrix.ndim != 2:
        raise ValueError(f"Expected a matrix [V, H]. Received: shape {matrix.shape}")
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix / np.where(lengths > 0, lengths, 1)


def nearest_neighbours(matrix: np.ndarray, ids: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The `k` words with the largest cosines to each given word, without the word itself.

    Args:
        matrix: Embeddings `[V, H]`.
        ids: Word ids `[N]`.
        k: Integer; at most `V - 1` are returned.

    Returns:
        Ids `[N, k]`, nearest first, and their cosines `[N, k]`.

    Raises:
        ValueError: If `k` is below 1, or an id is outside the matrix.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> ids, cosines = kt.metrics.nearest_neighbours(np.array([[1, 0], [2, 1], [0, 3]]), np.array([0]), 1)
    >>> ids.tolist(), f"{cosines[0, 0]:.3f}"
    ([[1]], '0.894')
    """
    check_integer("k", k)
    rows = unit_rows(matrix)
    ids = check_ids(ids, len(rows))
    cosines = rows[ids] @ rows.T
    cosines[np.arange(len(ids)), ids] = -np.inf
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, : min(k, len(rows) - 1)]
    return nearest, np.take_along_axis(cosines, nearest, axis=1)
