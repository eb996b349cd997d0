"""Word vectors from text files, for the words of a vocabulary."""

from pathlib import Path

import numpy as np

from keras_tying.data.text import read_lines
from keras_tying.data.vocabulary import Vocabulary


def read_word_vectors(path: str | Path, vocabulary: Vocabulary, size: int) -> np.ndarray:
    """Reads vectors in word2vec's text format: a word and its numbers a line, perhaps after a line of counts.

    Args:
        path: UTF-8 text, gzipped if its name ends in `.gz`.
        vocabulary: Words whose vectors are kept.
        size: Numbers a word.

    Returns:
        Float32 `[len(vocabulary), size]`; words that are not in the file have rows of NaN.

    Raises:
        ValueError: If a line has another number of numbers; names file and line.
    """
    vectors = np.full((len(vocabulary), size), np.nan, np.float32)
    places = {word: place for place, word in enumerate(vocabulary.words)}
    for number, line in enumerate(read_lines(path), start=1):
        word, *values = line.split()
        if number == 1 and len(values) == 1:
            continue  # how many words there are, and their size
        if len(values) != size:
            raise ValueError(f"{path}, line {number}: expected a word and {size} numbers. Received: {len(values)}")
        if word in places:
            vectors[places[word]] = values
    return vectors
