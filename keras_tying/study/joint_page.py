"""The zoo's page on joint language models, made from the recorded results.

python -m keras_tying.study.joint_page
"""

import statistics
from pathlib import Path
from typing import Any

import keras

from keras_tying.files import write_atomically
from keras_tying.study.joint_plots import draw_curves, draw_position_weights, draw_weights
from keras_tying.study.joint_study import Grid, JointStudy, Ordering, PerplexityTable, load_study, results_file
from keras_tying.study.joint_training import model_file
from keras_tying.study.results import provenance, read_results
from keras_tying.zoo.cards import NOT_MEASURED
from keras_tying.zoo.recipes import recipe_folder

Results = dict[str, dict[str, Any] | None]
"""What each grid gave, as far as it is measured."""


def write_page(folder: Path | None = None) -> Path:
    """Writes `nnjm.md` from `studies/nnjm.toml` and the results; returns its path."""
    folder = folder or recipe_folder()
    study = load_study(folder)
    found = _results(study, folder)
    parts = [f"# {study.title}", study.text.strip()]
    for name, grid in study.grids.items():
        parts += _text_of(grid, results_file(folder, name), found[name])
    for table in study.tables:
        parts += [f"## {table.title}", *filter(None, [table.text.strip()]), _table(table, study.columns, found)]
    for ordering in study.orderings:
        parts += [f"## {ordering.title}", ordering.text.strip(), _orderings(ordering, study.columns, found)]
    drawn = {n: c for n, c in study.pictures.captions.items() if (folder / "results" / f"{n}.png").exists()}
    if drawn:
        parts.append("## Pictures")
    for name, caption in drawn.items():
        parts += [f"{caption}:", f"![{caption}](results/{name}.png)"]
    path = folder / "nnjm.md"
    write_atomically(path, ("\n\n".join(parts) + "\n").encode())
    return path


def draw_pictures(runs: Path, folder: Path | None = None) -> list[Path]:
    """Draws what the results have, and the weights of the model that is drawn if it is still among the runs.

    Args:
        runs: Folder of the study's runs.
        folder: The zoo's. Default: where the recipes are.

    Returns:
        The files.
    """
    folder = folder or recipe_folder()
    pictures = folder / "results"
    study = load_study(folder)
    found = _results(study, folder)
    shown = study.pictures
    paths = []
    if curves := _curves(study, found):
        paths.append(draw_curves(curves, pictures / "nnjm_sweeps.png"))
    for run in _runs(found[shown.grid], shown.weights)[:1]:
        means = run["position_weights"]
        paths.append(draw_position_weights(means, shown.window, pictures / "nnjm_positions.png"))
    model = model_file(runs / shown.grid, shown.weights, seed=1)
    if model.exists():
        paths.append(draw_weights(keras.saving.load_model(model), pictures / "nnjm_weights.png"))
    return paths


def _results(study: JointStudy, folder: Path) -> Results:
    return {grid: read_results(results_file(folder, grid)) for grid in study.grids}


def _curves(study: JointStudy, found: Results) -> dict[str, tuple[list[float], list[float]]]:
    """Values of each quantity and their validation perplexities, as far as they are measured."""
    curves = {}
    for quantity, points in study.sweeps.items():
        measured = [
            (point.at, run["valid"])
            for place, point in enumerate(points)
            for run in _runs(found.get("sweeps"), f"{quantity}, {place}")
        ]
        if measured:
            curves[quantity] = ([at for at, _ in measured], [perplexity for _, perplexity in measured])
    for run in _runs(found[study.pictures.grid], study.pictures.history)[:1]:
        history = run["valid_by_epoch"]
        curves["epochs"] = (list(range(1, len(history) + 1)), history)
    return curves


def _text_of(grid: Grid, path: Path, results: dict[str, Any] | None) -> list[str]:
    """Paragraphs on what a grid was trained on."""
    if results is None:
        return [f"**{grid.title}**: {NOT_MEASURED}."]
    data, schedule, samples = results["data"], results["schedule"], results["samples"]
    pairs = f"the first {data['sentences']:,}" if data["sentences"] else "all"
    return [
        f"**{grid.title}**: {pairs} pairs of the training text, {samples['train']:,} target words "
        f'({samples["valid"]:,} to validate, {samples["test"]:,} to test); tokenization "{data["tokenization"]}", '
        f"{data['source_vocabulary_size']:,} source and {data['target_vocabulary_size']:,} target words at most; "
        f"at most {schedule['epochs']} epochs of SGD with batches of {schedule['batch_size']} and rate "
        f"{schedule['learning_rate']}.",
        *provenance(path, results),
    ]


def _table(table: PerplexityTable, columns: list[str], found: Results) -> str:
    rows = [_row("model", "published", *columns), _row("---", *["--:"] * (1 + len(columns)))]
    for cell in table.rows or table.published:
        published = f"{table.published[cell]:.2f}" if cell in table.published else "—"
        rows.append(
            _row(cell, published, *(_figure(_perplexities(found[grid], cell, table.split)) for grid in columns))
        )
    return "\n".join(rows)


def _orderings(ordering: Ordering, columns: list[str], found: Results) -> str:
    rows = [_row(ordering.lower, ordering.higher, *columns), _row(*["---"] * (2 + len(columns)))]
    for pair in ordering.pairs:
        cells = ((_perplexities(found[grid], cell) for cell in (pair.lower, pair.higher)) for grid in columns)
        rows.append(_row(pair.lower, pair.higher, *(holds(*each) for each in cells)))
    return "\n".join(rows)


def _row(*columns: str) -> str:
    return f"| {' | '.join(columns)} |"


def _runs(results: dict[str, Any] | None, cell: str) -> list[dict[str, Any]]:
    """What each seed of a cell gave."""
    return list(results["cells"].get(cell, {"runs": {}})["runs"].values()) if results else []


def _perplexities(results: dict[str, Any] | None, cell: str, split: str = "test") -> list[float]:
    return [run[split] for run in _runs(results, cell)]


def _figure(values: list[float]) -> str:
    if not values:
        return NOT_MEASURED
    spread = f"{min(values):.2f} to {max(values):.2f}, {len(values)} seeds" if len(values) > 1 else "1 seed"
    return f"{statistics.mean(values):.2f} ({spread})"


def holds(low: list[float], high: list[float]) -> str:
    """Whether the perplexities of one model are lower than those of another, in words.

    Args:
        low: Of each seed of the model that should have the lower ones.
        high: Of each seed of the other.

    Example:

    >>> holds([9.0, 9.2], [9.9, 10.1]), holds([9.0, 9.4], [9.3, 9.5]), holds([9.9, 9.8], [9.1, 9.3])
    ('yes, -9.0%', 'within the seeds, -2.1%', 'no, +7.1%')
    """
    if not low or not high:
        return NOT_MEASURED
    change = statistics.mean(low) / statistics.mean(high) - 1
    if min(len(low), len(high)) == 1:
        return f"{'yes' if change < 0 else 'no'}, one seed, {change:+.1%}"
    if max(low) < min(high):
        return f"yes, {change:+.1%}"
    return f"no, {change:+.1%}" if min(low) > max(high) else f"within the seeds, {change:+.1%}"


if __name__ == "__main__":
    write_page()
