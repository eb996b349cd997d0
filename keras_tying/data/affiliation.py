"""Which source word each target word belongs to."""

import numpy as np


def affiliate(links: np.ndarray, source_starts: np.ndarray, target_starts: np.ndarray) -> np.ndarray:
    """Affiliates every target word of a text with one source position, by Devlin's rules.

    A word with links belongs to the one in their middle; of an even number, to the left of the two.
    A word without links belongs where the nearest word with links does, and of two equally near ones
    where the right one does. The ends of a sentence pair are linked to each other whether or not a
    link says so: a sentence without links is affiliated with the end of its source.

    Args:
        links: Integers `[M, 2]` in any order, source and target positions in the whole text.
        source_starts: Where sentences start in the source text, `[S + 1]`; the last entry is the text's
            length. Each sentence's last position is its end.
        target_starts: The same for the target text.

    Returns:
        Source positions `int64 [N]`, one a target position, in the whole text.

    Example:

    Two pairs: "a b c <eos>" linked to "x y z <eos>" by a-x and c-x, and "a <eos>" to "x <eos>" by nothing.

    >>> links, starts = np.array([[0, 0], [2, 0]]), np.array([0, 4, 6])
    >>> affiliate(links, starts, starts).tolist()
    [0, 0, 3, 3, 5, 5]

    Reference:
        Devlin et al., Fast and Robust Neural Network Joint Models for Statistical Machine Translation,
        section 2.1.
    """
    ends = np.stack([source_starts[1:], target_starts[1:]], axis=1) - 1
    links = np.unique(np.concatenate([links, ends])[:, ::-1], axis=0)  # by target, then by source
    count = np.bincount(links[:, 0], minlength=target_starts[-1])
    first = np.cumsum(count) - count
    middle = links[first + (count - 1) // 2, 1]  # of a word without links: any, never looked at
    return middle[_nearest_linked(count > 0, np.repeat(target_starts[:-1], np.diff(target_starts)))]


def _nearest_linked(linked: np.ndarray, first: np.ndarray) -> np.ndarray:
    """For each position `[N]` the nearest linked one of its sentence, which begins at `first` `[N]`."""
    places = np.arange(len(linked))
    right = np.minimum.accumulate(np.where(linked, places, len(linked))[::-1])[::-1]
    left = np.maximum.accumulate(np.where(linked, places, -1))
    return np.where((left < first) | (right - places <= places - left), right, left)
