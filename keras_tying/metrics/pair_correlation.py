"""Rank correlation of the cosines of all word pairs between embeddings."""

import math
from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np

from keras_tying.metrics.neighbours import RESOLUTION, unit_rows

BLOCK = 2**22
"""Maximum number of pairs in memory."""


def pair_correlations(matrices: Mapping[str, np.ndarray]) -> dict[tuple[str, str], float | None]:
    """Spearman's correlation between embeddings of the cosines of all pairs of words.

    For each embedding, the cosines of all `V (V - 1) / 2` pairs are ranked. Equal cosines have their mean rank. The
    result is Pearson's correlation of the ranks. The pairs are processed in blocks: a first pass counts the
    occurrences of each cosine, rounded to 1 / `RESOLUTION`, which gives the ranks; a second pass sums the products of
    ranks. This takes about 100 MiB of memory per embedding for any number of words.

    Args:
        matrices: Embeddings `[V, H]` by name, of the same words in the same order; `H` may differ.

    Returns:
        The correlation of each pair of embeddings; `None` if all cosines of one embedding are equal.

    Raises:
        ValueError: If there are fewer than three words, the embeddings have different numbers of words, or a number is
            NaN or infinite.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> matrix = np.random.default_rng(0).normal(size=(50, 4))
    >>> rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0]
    >>> round(kt.metrics.pair_correlations({"a": matrix, "b": matrix @ rotation})["a", "b"], 4)
    1.0

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, table 4.
    """
    sizes = {len(matrix) for matrix in matrices.values()}
    if len(sizes) != 1 or min(sizes) < 3:
        raise ValueError(f"Expected embeddings of the same words, at least three. Received: {sorted(sizes)} words.")
    if wrong := [name for name, matrix in matrices.items() if not np.isfinite(matrix).all()]:
        raise ValueError(
            f"Expected finite vectors. Received: {wrong[0]!r} with NaN or infinity. Leave these words out."
        )
    rows = {name: unit_rows(matrix) for name, matrix in matrices.items()}
    centred, squares = {}, {}
    for name, matrix in rows.items():
        counts = np.zeros(2 * RESOLUTION + 1, np.int64)
        for levels in _blocks(matrix):
            counts += np.bincount(levels, minlength=len(counts))
        ranks = np.cumsum(counts) - (counts - 1) / 2
        centred[name] = ranks - (counts.sum() + 1) / 2
        squares[name] = float(counts @ centred[name] ** 2)
    products = dict.fromkeys(combinations(rows, 2), 0.0)
    for blocks in zip(*map(_blocks, rows.values()), strict=True):
        ranks_of = {name: centred[name][levels] for name, levels in zip(rows, blocks, strict=True)}
        for a, b in products:
            products[a, b] += float(ranks_of[a] @ ranks_of[b])
    return {
        (a, b): product / math.sqrt(squares[a] * squares[b]) if squares[a] * squares[b] > 0 else None
        for (a, b), product in products.items()
    }


def _blocks(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Cosines of all pairs of rows, rounded to integers from 0 to `2 * RESOLUTION`, in blocks."""
    height = max(1, BLOCK // len(rows))
    for start in range(0, len(rows) - 1, height):
        block = rows[start : start + height]
        cosines = block @ rows[start:].T
        later = np.arange(len(rows) - start) > np.arange(len(block))[:, None]
        levels = np.rint(cosines[later] * RESOLUTION).astype(np.int32)
        yield np.clip(levels, -RESOLUTION, RESOLUTION) + RESOLUTION
