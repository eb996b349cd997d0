"""Embeddings from wherever they are: the folder of a run, or a word2vec file."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import keras
import numpy as np

from keras_tying.data import Vocabulary, load_word_vectors, words_alone
from keras_tying.training import Run


@dataclass(frozen=True)
class Embedding:
    """One matrix and its words, the most frequent first.

    Attributes:
        label: What tables and plots call it: its role, and its source where two have the same role.
        source: The run's or the file's name.
        words: Its words, without `<unk>` and `<eos>`.
        matrix: `float32 [V, H]`.
        updates: How many pairs of the training text updated each word, `[V]`; `None` where not counted.
    """

    label: str
    source: str
    words: list[str]
    matrix: np.ndarray
    updates: np.ndarray | None = None


@dataclass(frozen=True)
class Update:
    """How often words of similar frequency were updated.

    Attributes:
        rank: Geometric middle of their places in the vocabulary, counted from 1.
        pairs: Pairs that updated such a word, on average.
    """

    rank: float
    pairs: float


def read_embeddings(paths: Sequence[str | Path]) -> list[Embedding]:
    """The embeddings of trained runs and word2vec files.

    A model is any that has `embedding_matrices()`: skip-gram or language model.

    Args:
        paths: Folders of runs, or word2vec files (binary if their name ends in `.bin`).

    Raises:
        FileNotFoundError: If a path is not there, or a run is not finished.
        ValueError: If a file is not in word2vec's format, or vocabulary and model differ in size.
    """
    found = [embedding for path in map(Path, paths) for embedding in _read(path)]
    roles = Counter(embedding.label for embedding in found)
    return [
        replace(embedding, label=f"{embedding.source} {embedding.label}") if roles[embedding.label] > 1 else embedding
        for embedding in found
    ]


def _read(path: Path) -> list[Embedding]:
    if not path.is_dir():
        return [Embedding(path.stem, path.name, *load_word_vectors(path))]
    run = Run.open(path)
    model = run.load_model()
    if not hasattr(model, "embedding_matrices"):
        raise ValueError(f"Expected a model with input and output embeddings. Received: {type(model).__name__}")
    vocabulary = Vocabulary.load(run.vocabulary)
    updates = _updates(model)
    embeddings = []
    for role, variable in model.embedding_matrices().items():
        matrix = keras.ops.convert_to_numpy(variable)
        if len(matrix) != len(vocabulary):
            raise ValueError(
                f"{path} has {len(matrix)} words in its model. Received: a vocabulary of {len(vocabulary)}."
            )
        words, rows = words_alone(vocabulary, matrix)
        counted = words_alone(vocabulary, updates[role])[1] if role in updates else None
        embeddings.append(Embedding(role, path.name, words, rows, counted))
    return embeddings


def _updates(model: keras.Model) -> dict[str, np.ndarray]:
    """Update counts by role, where the model has counted them."""
    if not hasattr(model, "input_updates"):
        return {}
    read = keras.ops.convert_to_numpy
    if model.tied:
        return {"tied": read(model.input_updates) + read(model.output_updates)}
    return {"input": read(model.input_updates), "output": read(model.output_updates)}


def updates_by_frequency(updates: np.ndarray, bins: int = 20) -> list[Update]:
    """Mean updates of words of similar frequency.

    Args:
        updates: Updates of each word, the most frequent word first.
        bins: Groups of words, evenly spread over the logarithm of their place.

    Example:

    >>> updates_by_frequency(np.array([8.0, 4.0, 2.0, 2.0]), bins=2)
    [Update(rank=1.0, pairs=8.0), Update(rank=2.8, pairs=2.7)]
    """
    edges = np.unique(np.rint(np.geomspace(1, len(updates) + 1, bins + 1)).astype(int))
    return [
        Update(round(float(np.sqrt(low * (high - 1))), 1), round(float(np.mean(updates[low - 1 : high - 1])), 1))
        for low, high in pairwise(edges)
    ]
