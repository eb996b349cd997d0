"""How alike two embeddings arrange the same words: table 4 of Press and Wolf."""

import math
from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np

from keras_tying.metrics.neighbours import unit_rows

STEPS = 2**22
"""Cosines are told apart to 1 / STEPS, about what a sum of a few hundred float32 products is exact to."""

BLOCK = 2**22
"""Pairs in memory at a time."""


def pair_correlations(matrices: Mapping[str, np.ndarray]) -> dict[tuple[str, str], float | None]:
    """Spearman's correlation between the cosines that embeddings give all pairs of words.

    For each embedding, the cosines of all `V (V - 1) / 2` pairs are ranked, equal ones with their mean
    rank; the result is Pearson's correlation of the ranks. Nothing is sampled, and the pairs are never
    in memory together: one pass over blocks of pairs counts how often each cosine occurs, to the
    resolution of `STEPS`, which gives the ranks; a second one sums the products of ranks. Memory is
    about 100 MiB an embedding, whatever the number of words.

    Args:
        matrices: Embeddings `[V, H]` by name, of the same words in the same order; `H` may differ.

    Returns:
        The correlation of each two of them; `None` where all cosines of one are equal.

    Raises:
        ValueError: If there are fewer than three words, or the embeddings differ in their number.

    Example:

    >>> matrix = np.random.default_rng(0).normal(size=(50, 4))
    >>> rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0]
    >>> round(pair_correlations({"a": matrix, "b": matrix @ rotation})["a", "b"], 4)
    1.0

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, table 4.
    """
    sizes = {len(matrix) for matrix in matrices.values()}
    if len(sizes) != 1 or min(sizes) < 3:
        raise ValueError(f"Expected embeddings of the same words, three or more. Received: {sorted(sizes)} words.")
    rows = {name: unit_rows(matrix) for name, matrix in matrices.items()}
    centred, squares = {}, {}
    for name, matrix in rows.items():
        counts = np.zeros(2 * STEPS + 1, np.int64)
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
    """Cosines of all pairs of rows, each pair once, as integers from 0 to `2 * STEPS`; a block at a time."""
    height = max(1, BLOCK // len(rows))
    for start in range(0, len(rows) - 1, height):
        block = rows[start : start + height]
        cosines = block @ rows[start:].T
        later = np.arange(len(rows) - start) > np.arange(len(block))[:, None]
        levels = np.rint(cosines[later] * STEPS).astype(np.int32)
        yield np.clip(levels, -STEPS, STEPS) + STEPS
