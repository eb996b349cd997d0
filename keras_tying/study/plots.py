"""Plots of the study."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from keras_tying.data.similarity import SimilaritySet
from keras_tying.files import write_atomically
from keras_tying.metrics import nearest_neighbours, unit_rows, word_similarity
from keras_tying.study.embeddings import Embedding, updates_by_frequency

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


def draw(
    path: Path, embeddings: Sequence[Embedding], sets: Sequence[SimilaritySet], queries: Sequence[str]
) -> list[Path]:
    """Draws cosines against human scores, a map of neighbourhoods, and update counts where there are any.

    Args:
        path: Where the files go, and how their names start.
        embeddings: What to draw, a panel each.
        sets: Word-similarity sets; the largest is drawn.
        queries: Words whose neighbourhoods are mapped.

    Returns:
        The files.
    """
    figures = {"similarity": _similarity(embeddings, sets), "map": _map(embeddings, queries)}
    if any(embedding.updates is not None for embedding in embeddings):
        figures["updates"] = _updates(embeddings)
    return [write_png(figure, path.with_name(f"{path.name}_{name}.png")) for name, figure in figures.items()]


def write_png(figure: Figure, path: Path, dpi: int = 80) -> Path:
    """Writes a figure whole; returns its path."""
    content = BytesIO()
    figure.savefig(content, format="png", dpi=dpi)
    write_atomically(path, content.getvalue())
    return path


def _panels(number: int, title: str) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(4.2 * number, 4.4), layout="constrained")
    figure.suptitle(title)
    return figure, list(np.atleast_1d(figure.subplots(1, number)))


def _similarity(embeddings: Sequence[Embedding], sets: Sequence[SimilaritySet]) -> Figure:
    largest = max(sets, key=lambda one: len(one.pairs))
    figure, panels = _panels(len(embeddings), f"{largest.name}: cosine of two words against how alike people find them")
    for axes, embedding in zip(panels, embeddings, strict=True):
        ids = {word: i for i, word in enumerate(embedding.words)}
        result = word_similarity(embedding.matrix, ids, largest.pairs, largest.scores)
        axes.scatter(result.scores, result.cosines, s=4, alpha=0.35, color=COLOURS[0], linewidths=0)
        rho = "not defined" if result.spearman is None else f"{result.spearman:.2f}"
        axes.set_title(f"{embedding.label}: Spearman {rho}, {result.covered} pairs", fontsize=10)
        axes.set_xlabel("human score")
    panels[0].set_ylabel("cosine")
    return figure


def _map(embeddings: Sequence[Embedding], queries: Sequence[str], near: int = 6) -> Figure:
    figure, panels = _panels(
        len(embeddings), "Neighbourhoods: words and those nearest to them, first two principal axes"
    )
    for axes, embedding in zip(panels, embeddings, strict=True):
        ids = {word: i for i, word in enumerate(embedding.words)}
        known = np.array([ids[word] for word in queries if word in ids], int)
        axes.set_title(embedding.label, fontsize=10)
        axes.set_xticks([])
        axes.set_yticks([])
        if not len(known):
            continue
        nearest, _ = nearest_neighbours(embedding.matrix, known, near)
        groups = np.concatenate([known[:, None], nearest], axis=1)
        points = _plane(unit_rows(embedding.matrix[groups.reshape(-1)])).reshape(*groups.shape, 2)
        for place, (group, where) in enumerate(zip(groups, points, strict=True)):
            colour = COLOURS[place % len(COLOURS)]
            axes.scatter(where[:, 0], where[:, 1], s=5, color=colour)
            for member, (word, point) in enumerate(zip(group, where, strict=True)):
                weight = "bold" if member == 0 else "normal"
                axes.annotate(embedding.words[word], point, fontsize=7, color=colour, weight=weight)
        axes.margins(0.12)
    return figure


def _plane(rows: np.ndarray) -> np.ndarray:
    """Rows `[N, H]` on their first two principal axes, `[N, 2]`."""
    centred = rows - rows.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    plane = centred @ axes[:2].T
    return np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))


def _updates(embeddings: Sequence[Embedding]) -> Figure:
    figure = Figure(figsize=(6, 4.4), layout="constrained")
    axes = figure.subplots()
    counted = [(e.label, updates_by_frequency(e.updates)) for e in embeddings if e.updates is not None]
    for (label, updates), colour in zip(counted, COLOURS, strict=False):
        axes.loglog([u.rank for u in updates], [u.pairs for u in updates], "o-", ms=3, color=colour, label=label)
    axes.set_xlabel("place of the word by frequency")
    axes.set_ylabel("pairs that updated its row")
    axes.set_title("Updates of a word's row in training", fontsize=10)
    axes.legend()
    return figure
