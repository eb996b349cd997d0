"""Correlation of word embeddings with human similarity scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from keras_tying.extras import require
from keras_tying.metrics.neighbours import RESOLUTION, unit_rows


@dataclass(frozen=True)
class WordSimilarity:
    """Result of `word_similarity` on one set of word pairs.

    Attributes:
        spearman: Rank correlation of cosines with human scores. `None` if it is not defined: with fewer
            than two covered pairs, or if all their cosines or scores are equal.
        covered: Number of pairs with both words in the vocabulary. The other pairs are ignored.
        pairs: Number of pairs in the set.
        cosines: Cosines of the covered pairs.
        scores: Human scores of the covered pairs.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> matrix = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    >>> ids = {"cup": 0, "mug": 1, "moon": 2}
    >>> pairs = [("cup", "mug"), ("cup", "moon"), ("cup", "sun")]
    >>> result = kt.metrics.word_similarity(matrix, ids, pairs, [9, 1, 1])
    >>> result.cosines.tolist(), result.scores.tolist()
    ([1.0, 0.0], [9.0, 1.0])
    """

    spearman: float | None
    covered: int
    pairs: int
    cosines: np.ndarray
    scores: np.ndarray


def word_similarity(
    matrix: np.ndarray, ids: Mapping[str, int], pairs: Sequence[tuple[str, str]], scores: Sequence[float]
) -> WordSimilarity:
    """Spearman's correlation between cosines of embeddings and human scores.

    A word that is not in the vocabulary is looked up in lower case.

    Args:
        matrix: Embeddings `[V, H]`.
        ids: Row of each word in the matrix.
        pairs: Pairs of words.
        scores: Human scores of the pairs.

    Raises:
        ValueError: If the numbers of pairs and scores differ.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> matrix = np.array([[1.0, 0.0], [1.0, 0.2], [0.0, 1.0]])
    >>> ids = {"cup": 0, "mug": 1, "moon": 2}
    >>> pairs = [("cup", "mug"), ("cup", "moon"), ("cup", "sun")]
    >>> result = kt.metrics.word_similarity(matrix, ids, pairs, [9, 1, 1])
    >>> round(result.spearman, 3), result.covered, result.pairs
    (1.0, 2, 3)

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, section 4.1.
    """
    if len(pairs) != len(scores):
        raise ValueError(f"Expected one score per pair. Received: {len(pairs)} pairs, {len(scores)} scores")
    pair_ids = [tuple(ids.get(word, ids.get(word.lower(), -1)) for word in pair) for pair in pairs]
    covered = [i for i, both in enumerate(pair_ids) if min(both) >= 0]
    covered_ids = np.array([pair_ids[i] for i in covered], int).reshape(-1, 2)
    rows = unit_rows(np.asarray(matrix)[np.unique(covered_ids)]) if len(covered_ids) else np.zeros((0, 1))
    first, second = (rows[places].astype(float) for places in np.searchsorted(np.unique(covered_ids), covered_ids.T))
    lengths = np.sqrt(np.sum(first**2, axis=1) * np.sum(second**2, axis=1))
    cosines = np.sum(first * second, axis=1) / np.where(lengths > 0, lengths, 1)
    cosines = np.rint(cosines * RESOLUTION) / RESOLUTION  # equal ones have one rank, whatever their rounding
    human = np.array([scores[i] for i in covered], float)
    varied = len(covered) > 1 and np.ptp(cosines) > 0 and np.ptp(human) > 0
    spearman = float(require("scipy.stats", "studies").spearmanr(cosines, human).statistic) if varied else None
    return WordSimilarity(spearman, len(covered), len(pairs), cosines, human)
