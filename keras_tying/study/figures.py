"""The figures of tables 2 to 4 of Press and Wolf for any embeddings."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from keras_tying.data.similarity import SimilaritySet
from keras_tying.metrics import nearest_neighbours, pair_correlations, word_similarity
from keras_tying.study.embeddings import Embedding, updates_by_frequency

NOT_DEFINED = "—"


def measure_embeddings(
    embeddings: Sequence[Embedding],
    sets: Sequence[SimilaritySet],
    queries: Sequence[str],
    most_frequent: int | None = None,
    neighbours: int = 8,
) -> dict[str, Any]:
    """Word similarity, correlation over all pairs of words, neighbours and update counts.

    Args:
        embeddings: What to measure.
        sets: Word-similarity sets.
        queries: Words whose neighbours are listed; those not known are passed over.
        most_frequent: Pairs are taken of so many words at most. Default: of all.
        neighbours: Neighbours a word.

    Returns:
        What is written as JSON.

    Raises:
        ValueError: If the embeddings have fewer than three words in common.
    """
    ids = [{word: i for i, word in enumerate(embedding.words)} for embedding in embeddings]
    common = [word for word in embeddings[0].words if all(word in known for known in ids)][:most_frequent]
    if len(common) < 3:
        raise ValueError(f"The embeddings need three words in common. Received: {len(common)}.")
    aligned = {
        embedding.label: embedding.matrix[[known[word] for word in common]]
        for embedding, known in zip(embeddings, ids, strict=True)
    }
    return {
        "embeddings": {
            e.label: {"source": e.source, "words": len(e.words), "units": e.matrix.shape[1]} for e in embeddings
        },
        "word_similarity": {
            one.name: {
                e.label: _similarity(word_similarity(e.matrix, known, one.pairs, one.scores))
                for e, known in zip(embeddings, ids, strict=True)
            }
            for one in sets
        },
        "pair_correlation": {
            "words": len(common),
            "pairs": len(common) * (len(common) - 1) // 2,
            "spearman": {", ".join(pair): _rounded(rho) for pair, rho in pair_correlations(aligned).items()},
        },
        "neighbours": {
            e.label: _neighbours(e, known, queries, neighbours) for e, known in zip(embeddings, ids, strict=True)
        },
        "updates": {
            e.label: [asdict(update) for update in updates_by_frequency(e.updates)]
            for e in embeddings
            if e.updates is not None
        },
    }


def _similarity(result) -> dict[str, Any]:
    return {"spearman": _rounded(result.spearman), "covered": result.covered, "pairs": result.pairs}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _neighbours(embedding: Embedding, ids: dict[str, int], queries: Sequence[str], k: int) -> dict[str, list[str]]:
    known = [word for word in queries if word in ids]
    if not known:
        return {}
    nearest, _ = nearest_neighbours(embedding.matrix, np.array([ids[word] for word in known]), k)
    return {word: [embedding.words[i] for i in row] for word, row in zip(known, nearest, strict=True)}


def table(figures: dict[str, Any], published: dict[str, Any] | None = None) -> str:
    """The figures as two Markdown tables, published ones in brackets beside them."""
    published = published or {}
    labels = list(figures["embeddings"])
    lines = [f"| Spearman | {' | '.join(labels)} | pairs covered |", "|---|" + "--:|" * (len(labels) + 1)]
    for name, results in figures["word_similarity"].items():
        theirs = published.get("word_similarity", {}).get(name, {})
        cells = [_cell(results[label]["spearman"], theirs.get(label)) for label in labels]
        covered = " / ".join(dict.fromkeys(str(results[label]["covered"]) for label in labels))
        lines.append(f"| {name} | {' | '.join(cells)} | {covered} of {results[labels[0]]['pairs']} |")
    means = [_mean([results[label]["spearman"] for results in figures["word_similarity"].values()]) for label in labels]
    lines.append(f"| mean | {' | '.join(map(_cell, means))} | |")
    correlation = figures["pair_correlation"]
    if correlation["spearman"]:
        lines += ["", f"| over all pairs of {correlation['words']:,} words | Spearman |", "|---|--:|"]
        for pair, rho in correlation["spearman"].items():
            lines.append(f"| {pair} | {_cell(rho, published.get('pair_correlation', {}).get(pair))} |")
    return "\n".join(lines)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _cell(value: float | None, published: float | None = None) -> str:
    text = NOT_DEFINED if value is None else f"{value:.2f}"
    return text if published is None else f"{text} ({published:.2f})"
