"""The study of embeddings: its tables, plots and page, and the work of `train/embeddings.py`."""

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from keras_tying.data.similarity import SimilaritySet, load_similarity_sets, read_similarity_set
from keras_tying.files import write_atomically
from keras_tying.metrics import nearest_neighbours, unit_rows, word_similarity
from keras_tying.tables import load_table
from keras_tying.training import environment
from keras_tying.version import NOT_RECORDED
from keras_tying.zoo.recipes import recipe_folder
from studies.cells import published_values
from studies.embedding_metrics import (
    Embedding,
    measure_embeddings,
    read_embeddings,
    trainings,
    updates_by_frequency,
)
from studies.pages import MISSING, Section, number, origin, page, plot, provenance, section, table
from studies.plots import COLOURS, panel, panels, write_png
from studies.results import read_results, read_seeds, write_results

PLOTS = {
    "similarity": "Cosines against human scores",
    "map": "Neighbourhoods",
    "updates": "Updates of a word's row by frequency",
}


class Study(Section):
    """A section of the page: its results are `results/NAME.json`, written by `train/embeddings.py --record NAME`."""

    published: str | None = None
    """Name of the results of the published text, whose published values are shown. Default: the study's own name."""


class Page(Section):
    """`studies/embeddings.toml` of the zoo."""

    studies: dict[str, Study]


def embeddings_page(folder: Path) -> str:
    """The page on embeddings, from the studies and results of the zoo's folder."""
    content, parts = load_table(Page, folder / "studies" / "embeddings.toml"), []
    for name, study in content.studies.items():
        path = folder / "results" / f"{name}.json"
        results = read_results(path)
        if results is None:
            parts += section(study, MISSING)
            continue
        published = published_values(folder, study.published or name)
        seeds = read_seeds(path.parent, name)
        plots = (plot(path.with_name(f"{name}_{each}.png"), caption) for each, caption in PLOTS.items())
        parts += section(study, *metric_tables(seeds, published), *plots, *provenance(path, results))
        parts += map(training_text, (training for each in seeds for training in each.get("trainings", [{}])))
    return page(content, parts)


def metric_tables(seeds: list[dict[str, Any]], published: dict[str, Any] | None = None) -> list[str]:
    """Word similarities and pair correlations as Markdown tables, with published values in brackets.

    Args:
        seeds: The results of each seed. Of several, the mean is shown, with the lowest and the highest.
        published: Published values by the same keys.
    """
    published, results = published or {}, seeds[0]
    labels, rows = list(results["embeddings"]), []
    measured = [_correlations(each, labels) for each in seeds]
    for name, found in results["word_similarity"].items():
        theirs = published.get("word_similarity", {}).get(name, {})
        covered = " / ".join(dict.fromkeys(str(found[label]["covered"]) for label in labels))
        cells = [correlation([each[name, label] for each in measured], theirs.get(label)) for label in labels]
        rows.append([name, *cells, f"{covered} of {found[labels[0]]['pairs']}"])
    sets = list(results["word_similarity"])
    rows.append(["mean", *(correlation([_mean(each, sets, label) for each in measured]) for label in labels), ""])
    tables = [table(["Spearman", *labels, "pairs covered"], "|---|" + "--:|" * (len(labels) + 1), rows)]
    pairs = results["pair_correlation"]
    if pairs["spearman"]:
        theirs = published.get("pair_correlation", {})
        rows = [
            [pair, correlation([each["pair_correlation"]["spearman"][pair] for each in seeds], theirs.get(pair))]
            for pair in pairs["spearman"]
        ]
        tables.append(table([f"over all pairs of {pairs['words']:,} words", "Spearman"], "|---|--:|", rows))
    return tables


def _correlations(results: dict[str, Any], labels: list[str]) -> dict[tuple[str, str], float | None]:
    """Word similarities by set and embedding."""
    return {
        (name, label): found[label]["spearman"]
        for name, found in results["word_similarity"].items()
        for label in labels
    }


def _mean(correlations: dict[tuple[str, str], float | None], sets: list[str], label: str) -> float | None:
    """The mean over the sets where it is defined."""
    known = [rho for name in sets if (rho := correlations[name, label]) is not None]
    return statistics.fmean(known) if known else None


def training_text(training: dict[str, Any]) -> str:
    """Seed, time and origin of the training of a run, for the page; results of earlier versions do not have them."""
    if training.get("seed") is None:
        return f"Training of {training.get('run', 'the runs')}: {NOT_RECORDED}."
    precision = training.get("precision") or "a precision that is not recorded"
    return (
        f"Training of {training['run']}: seed {training['seed']}, {training['epochs']} epochs, "
        f"{training['wall_time_seconds'] / 60:.0f} minutes in {precision} on {origin(training)}."
    )


def correlation(values: Sequence[float | None], published: float | None = None) -> str:
    """A correlation of several seeds, or a dash if it is undefined; in brackets their range and the published one.

    >>> correlation([0.3], 0.41), correlation([0.3, 0.34], 0.41), correlation([None])
    ('0.30 (published 0.41)', '0.32 (0.30 to 0.34; published 0.41)', '—')
    """
    known = [value for value in values if value is not None]
    brackets = [f"{min(known):.2f} to {max(known):.2f}"] if len(known) > 1 else []
    brackets += [] if published is None else [f"published {published:.2f}"]
    mean = number(statistics.fmean(known) if known else None, ".2f")
    return mean + (f" ({'; '.join(brackets)})" if brackets else "")


def draw_embeddings(
    path: Path, embeddings: Sequence[Embedding], sets: Sequence[SimilaritySet], queries: Sequence[str]
) -> list[Path]:
    """Draws cosines against human scores, a map of neighbourhoods, and numbers of updates if they are counted.

    Args:
        path: Path of the files, without the endings of their names.
        embeddings: What to draw, one panel each.
        sets: Word-similarity sets; the largest is drawn.
        queries: Words whose neighbourhoods are mapped.

    Returns:
        The paths of the files.
    """
    plots = {"similarity": similarity_plot(embeddings, sets), "map": neighbourhood_map(embeddings, queries)}
    if any(embedding.updates is not None for embedding in embeddings):
        plots["updates"] = update_plot(embeddings)
    return [write_png(figure, path.with_name(f"{path.name}_{name}.png")) for name, figure in plots.items()]


def similarity_plot(embeddings: Sequence[Embedding], sets: Sequence[SimilaritySet]) -> Figure:
    """Cosines over the human scores of the largest set, one panel per embedding."""
    largest = max(sets, key=lambda each: len(each.pairs))
    title = f"{largest.name}: cosine and human score of word pairs"
    figure, all_axes = panels(1, len(embeddings), (4.2, 4.4), title)
    for axes, embedding in zip(all_axes, embeddings, strict=True):
        result = word_similarity(embedding.matrix, embedding.ids, largest.pairs, largest.scores)
        axes.scatter(result.scores, result.cosines, s=4, alpha=0.35, color=COLOURS[0], linewidths=0)
        rho = number(result.spearman, ".2f", "not defined")
        axes.set_title(f"{embedding.label}: Spearman {rho}, {result.covered} pairs", fontsize=10)
        axes.set_xlabel("human score")
    all_axes[0].set_ylabel("cosine")
    return figure


def neighbourhood_map(embeddings: Sequence[Embedding], queries: Sequence[str]) -> Figure:
    """Words and their nearest neighbours on the first two principal axes, one panel per embedding."""
    title = "Neighbourhoods: words and those nearest to them, first two principal axes"
    figure, all_axes = panels(1, len(embeddings), (4.2, 4.4), title)
    for axes, embedding in zip(all_axes, embeddings, strict=True):
        axes.set_title(embedding.label, fontsize=10)
        axes.set(xticks=[], yticks=[])
        known = np.array([embedding.ids[word] for word in queries if word in embedding.ids], int)
        if not len(known):
            continue
        nearest, _ = nearest_neighbours(embedding.matrix, known, 6)
        groups = np.concatenate([known[:, None], nearest], axis=1)
        points = first_principal_axes(unit_rows(embedding.matrix[groups.reshape(-1)])).reshape(*groups.shape, 2)
        for i, (group, where) in enumerate(zip(groups, points, strict=True)):
            colour = COLOURS[i % len(COLOURS)]
            axes.scatter(where[:, 0], where[:, 1], s=5, color=colour)
            for word, point, weight in zip(group, where, ["bold"] + ["normal"] * (len(group) - 1), strict=True):
                axes.annotate(embedding.words[word], point, fontsize=7, color=colour, weight=weight, parse_math=False)
        axes.margins(0.12)
    return figure


def first_principal_axes(rows: np.ndarray) -> np.ndarray:
    """Projects rows `[N, H]` on their first two principal axes, `[N, 2]`."""
    centred = rows - rows.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    plane = centred @ axes[:2].T
    return np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))


def update_plot(embeddings: Sequence[Embedding]) -> Figure:
    """Number of training pairs that updated a word over its rank by frequency."""
    figure, axes = panel("rank of the word by frequency", "pairs that updated its row")
    counted = {e.label: updates_by_frequency(e.updates) for e in embeddings if e.updates is not None}
    for i, (label, updates) in enumerate(counted.items()):
        ranks, pairs = ([each[name] for each in updates] for name in ("rank", "pairs"))
        axes.loglog(ranks, pairs, "o-", ms=3, color=COLOURS[i % len(COLOURS)], label=label)
    axes.set_title("Updates of a word's row in training", fontsize=10)
    axes.legend()
    return figure


def measure(arguments: argparse.Namespace, command: str) -> int:
    sets = [read_similarity_set(path) for path in arguments.set or ()] or load_similarity_sets(arguments.data_dir)
    embeddings = read_embeddings(arguments.runs)
    results = measure_embeddings(embeddings, sets, arguments.words, arguments.most_frequent)
    first = Path(arguments.runs[0])
    folder = arguments.output or (first if first.is_dir() else first.parent) / "embeddings"
    start = recipe_folder() / "results" / arguments.record if arguments.record else folder / "embeddings"
    written = [start.with_name(f"{start.name}.json")]
    results |= {**environment(), "trainings": trainings(arguments.runs), "command": command}
    write_results(written[0], results, keep_earlier=bool(arguments.record))
    written += draw_embeddings(start, embeddings, sets, arguments.words)
    tables = "\n\n".join(metric_tables([results]))
    if not arguments.record:
        written.append(start.with_name(f"{start.name}.md"))
        write_atomically(written[-1], (tables + "\n").encode())
    print(tables)
    for label, words in results["neighbours"].items():
        print(f"\nnearest words, {label}")
        print(*(f"  {word}: {', '.join(others)}" for word, others in words.items()), sep="\n")
    print("", *written, sep="\n")
    return 0
