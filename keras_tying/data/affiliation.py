"""Affiliation of target words with source words."""

import numpy as np


def affiliate(links: np.ndarray, source_starts: np.ndarray, target_starts: np.ndarray) -> np.ndarray:
    """Affiliates each target word with one source position, by the rules of Devlin et al.

    A word with an odd number of links gets the middle one. A word with an even number of links gets the left one of
    the two in the middle. A word without links gets the source position of the nearest word with links. If two are
    equally near, the right one is used. The ends of a sentence pair are always linked to each other, so a sentence
    without links is affiliated with the end of its source sentence.

    Args:
        links: Source and target positions in the text, integers `[M, 2]` in any order.
        source_starts: Start positions of the source sentences, `[S + 1]`. The last entry is the length of the
            text. The last position of each sentence is its end.
        target_starts: Start positions of the target sentences, `[S + 1]`.

    Returns:
        Source positions in the text, `int64 [N]`, one per target position.

    Example:

    Two sentence pairs. The first links a-x and c-x of "a b c <eos>" and "x y z <eos>". The second, "a <eos>" and
    "x <eos>", has no links.

    >>> import numpy as np, keras_tying as kt
    >>> links, starts = np.array([[0, 0], [2, 0]]), np.array([0, 4, 6])
    >>> kt.data.affiliate(links, starts, starts).tolist()
    [0, 0, 3, 3, 5, 5]

    Reference:
        Devlin et al., Fast and Robust Neural Network Joint Models for Statistical Machine Translation,
        section 2.1.
    """
    ends = np.stack([source_starts[1:], target_starts[1:]], axis=1) - 1
    links = np.unique(np.concatenate([links, ends])[:, ::-1], axis=0)  # by target, then by source
    count = np.bincount(links[:, 0], minlength=target_starts[-1])
    first = np.cumsum(count) - count
    middle = links[first + (count - 1) // 2, 1]  # of a word without links: arbitrary, not used
    return middle[_nearest_linked(count > 0, np.repeat(target_starts[:-1], np.diff(target_starts)))]


def _nearest_linked(linked: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The nearest linked position in the sentence of each position, `[N]`; sentences start at `first` `[N]`."""
    positions = np.arange(len(linked))
    right = np.minimum.accumulate(np.where(linked, positions, len(linked))[::-1])[::-1]
    left = np.maximum.accumulate(np.where(linked, positions, -1))
    return np.where((left < first) | (right - positions <= positions - left), right, left)
