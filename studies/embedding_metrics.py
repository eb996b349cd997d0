"""Embeddings of runs and word2vec files, and their metrics (tables 2 to 4 of Press and Wolf)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_tying.data import load_word_vectors, without_special_words
from keras_tying.data.similarity import SimilaritySet
from keras_tying.metrics import nearest_neighbours, pair_correlations, word_similarity
from keras_tying.pretrained import load
from keras_tying.pretrained.loading import open_trained
from keras_tying.training import Run
from keras_tying.zoo.presets import MANIFEST, parse_manifest
from studies.results import labels, read_results

NEIGHBOURS = 8
"""Nearest words that are listed for a word."""


@dataclass(frozen=True)
class Embedding:
    """One matrix and its words, the most frequent first.

    Attributes:
        label: Its name in tables and plots: its role, with its source if another embedding has the same role.
        source: The end of the path of its run or file that no other has.
        words: Its words, without `<unk>` and `<eos>`.
        matrix: `float32 [V, H]`.
        updates: Number of training pairs that updated each word, `[V]`; `None` if not counted.
    """

    label: str
    source: str
    words: list[str]
    matrix: np.ndarray
    updates: np.ndarray | None = None

    @cached_property
    def ids(self) -> dict[str, int]:
        """Row of each word."""
        return {word: i for i, word in enumerate(self.words)}


def read_embeddings(paths: Sequence[str | Path]) -> list[Embedding]:
    """Reads the embeddings of trained models and word2vec files.

    Args:
        paths: Folders of runs as `Path`, or names of trained models of the zoo, whose models have one vocabulary, or
            word2vec files (binary if their name ends in `.bin`).

    Raises:
        FileNotFoundError: If a path does not exist, or a run is not finished.
        ValueError: If a file is not in word2vec's format, a model has a source vocabulary too, or vocabulary and model
            differ in size.
    """
    found = [each for path, source in zip(paths, labels(paths), strict=True) for each in _read(path, source)]
    roles = Counter(embedding.label for embedding in found)
    return [
        replace(embedding, label=f"{embedding.source} {embedding.label}") if roles[embedding.label] > 1 else embedding
        for embedding in found
    ]


def trainings(paths: Sequence[str | Path]) -> list[dict[str, Any]]:
    """Seed, time, device, commit and versions of the training of each run; files have none."""
    kept = ("seed", "epochs", "wall_time_seconds", "device", "precision", "commit", "versions")
    described = zip(paths, labels(paths), strict=True)
    trained = {label: _training(path) for path, label in described if not Path(path).is_file()}
    return [{"run": label, **{key: results.get(key) for key in kept}} for label, results in trained.items()]


def _training(path: str | Path) -> dict[str, Any]:
    """What is known of the training of a run or of a trained model of the zoo."""
    _, folder = open_trained(path)
    manifest = folder / MANIFEST
    return parse_manifest(manifest).training if manifest.is_file() else read_results(Run(folder).results) or {}


def _read(path: str | Path, source: str) -> list[Embedding]:
    if Path(path).is_file():
        return [Embedding(source.removesuffix(Path(path).suffix), source, *load_word_vectors(path))]
    trained = load(path)
    model = trained.model
    matrices = model.embedding_matrices()
    if "source" in matrices:
        raise ValueError(
            f"Expected {path} to have a model with one vocabulary. Received: {type(model).__name__} with "
            f"the embeddings {', '.join(matrices)}"
        )
    vocabulary = trained.vocabulary
    updates, embeddings = _updates(model), []
    for role, variable in matrices.items():
        matrix = keras.ops.convert_to_numpy(variable)
        counted = without_special_words(vocabulary, updates[role])[1] if role in updates else None
        embeddings.append(Embedding(role, source, *without_special_words(vocabulary, matrix), counted))
    return embeddings


def _updates(model: keras.Model) -> dict[str, np.ndarray]:
    """Number of updates of each word by role, if the model has counted them."""
    if not hasattr(model, "input_updates"):
        return {}
    read = keras.ops.convert_to_numpy
    if model.tied:
        return {"tied": read(model.input_updates) + read(model.output_updates)}
    return {"input": read(model.input_updates), "output": read(model.output_updates)}


def measure_embeddings(
    embeddings: Sequence[Embedding],
    sets: Sequence[SimilaritySet],
    queries: Sequence[str],
    most_frequent: int | None = None,
) -> dict[str, Any]:
    """Measures word similarity, correlation over all pairs of words, neighbours and numbers of updates.

    Args:
        embeddings: What to measure.
        sets: Word-similarity sets.
        queries: Words whose neighbours are listed; unknown ones are skipped.
        most_frequent: Number of most frequent words whose pairs are correlated. Default: all words.

    Returns:
        What is written as JSON.

    Raises:
        ValueError: If the embeddings have fewer than three words in common.
    """
    common = [word for word in embeddings[0].words if all(word in e.ids for e in embeddings)][:most_frequent]
    if len(common) < 3:
        raise ValueError(f"The embeddings need three words in common. Received: {len(common)}.")
    aligned = {e.label: e.matrix[[e.ids[word] for word in common]] for e in embeddings}
    correlations = {", ".join(pair): _rounded(rho) for pair, rho in pair_correlations(aligned).items()}
    return {
        "embeddings": {
            e.label: {"source": e.source, "words": len(e.words), "units": e.matrix.shape[1]} for e in embeddings
        },
        "word_similarity": {each.name: {e.label: _similarity(e, each) for e in embeddings} for each in sets},
        "pair_correlation": {
            "words": len(common),
            "pairs": len(common) * (len(common) - 1) // 2,
            "spearman": correlations,
        },
        "neighbours": {e.label: _neighbours(e, queries) for e in embeddings},
        "updates": {e.label: updates_by_frequency(e.updates) for e in embeddings if e.updates is not None},
    }


def _similarity(embedding: Embedding, judged: SimilaritySet) -> dict[str, Any]:
    result = word_similarity(embedding.matrix, embedding.ids, judged.pairs, judged.scores)
    return {"spearman": _rounded(result.spearman), "covered": result.covered, "pairs": result.pairs}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _neighbours(embedding: Embedding, queries: Sequence[str]) -> dict[str, list[str]]:
    known = [word for word in queries if word in embedding.ids]
    if not known:
        return {}
    nearest, _ = nearest_neighbours(embedding.matrix, np.array([embedding.ids[word] for word in known]), NEIGHBOURS)
    return {word: [embedding.words[i] for i in row] for word, row in zip(known, nearest, strict=True)}


def updates_by_frequency(updates: np.ndarray, bins: int = 20) -> list[dict[str, float]]:
    """Mean number of updates of words of similar frequency.

    Args:
        updates: Number of updates of each word, the most frequent word first.
        bins: Number of groups of words, evenly spaced over the logarithm of their rank.

    Returns:
        For each group the geometric mean of its lowest and highest `rank`, counted from 1, and the mean number of
        `pairs` that updated a word.

    Example:

    >>> updates_by_frequency(np.array([8.0, 4.0, 2.0, 2.0]), bins=2)
    [{'rank': 1.0, 'pairs': 8.0}, {'rank': 2.8, 'pairs': 2.7}]
    """
    edges = np.unique(np.rint(np.geomspace(1, len(updates) + 1, bins + 1)).astype(int))
    return [
        {
            "rank": round(float(np.sqrt(low * (high - 1))), 1),
            "pairs": round(float(np.mean(updates[low - 1 : high - 1])), 1),
        }
        for low, high in pairwise(edges)
    ]
