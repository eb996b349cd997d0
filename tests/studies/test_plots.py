"""Recorded plots are those of the recorded results."""

from functools import partial

import pytest

from benchmarks import report, serving_report, soak, step_time
from keras_tying.zoo.recipes import recipe_folder
from studies.augmented_loss import draw_distances
from studies.cards import draw_curve, read_recipes
from studies.compare import draw_validation, read_history
from studies.joint_language_models import draw_curves, draw_position_weights, measured_curves
from studies.joint_study import load_study, results_file
from studies.low_perplexity import curves, draw_budget
from studies.plots import data_of, panel, write_png
from studies.results import read_results

ZOO = recipe_folder() / "results"
BENCHMARKS = report.RESULTS


def zoo_curves(path):
    study = load_study()
    draw_curves(
        measured_curves(study, {grid: read_results(results_file(ZOO.parent, grid)) for grid in study.grids}), path
    )


def position_weights(path):
    shown = load_study().pictures
    cell = read_results(results_file(ZOO.parent, shown.grid))["cells"][shown.weights]
    draw_position_weights(cell["runs"]["1"]["position_weights"], shown.window, path)


def validation(path):
    names = ["vd_lstm_small", "vd_lstm_small_augmented", "vd_lstm_small_tied", "vd_lstm_small_tied_augmented"]
    draw_validation({name: read_history(ZOO / f"{name}.json") for name in names}, path, top=110.0)


PLOTS = {
    ZOO / "nnjm_sweeps.png": zoo_curves,
    ZOO / "nnjm_positions.png": position_weights,
    ZOO / "vd_lstm_small_curves.png": validation,
    ZOO / "low_perplexity.png": lambda path: draw_budget(curves(ZOO.parent), path),
    ZOO / "subspace.png": lambda path: draw_distances(read_results(ZOO / "subspace.json"), path),
    BENCHMARKS / "speed.png": lambda path: report.draw(report.read_measurements(), path),
    BENCHMARKS / "serving.png": lambda path: serving_report.draw(serving_report.read(BENCHMARKS), path),
    BENCHMARKS / "soak.png": lambda path: soak.draw(read_results(BENCHMARKS / "soak.json"), path),
    BENCHMARKS / "communication.png": lambda path: step_time.draw(
        read_results(BENCHMARKS / "communication.json"), path
    ),
}
CARDS = {
    ZOO / f"{name}_curve.png": read_results(ZOO / f"{name}.json")
    for name, recipe in read_recipes(ZOO.parent).items()
    if recipe.measured
}
PLOTS |= {path: partial(draw_curve, results) for path, results in CARDS.items()}
OF_MODELS = {
    "embeddings_ptb_small",
    "embeddings_ptb_small_projection",
    "embeddings_trained_word2vec",
    "nnjm_weights",
}
"""Beginnings of the names of plots that show weights of models, which are not recorded."""


@pytest.mark.parametrize("path", PLOTS, ids=lambda path: path.name)
def test_a_plot_is_not_older_than_its_results(path, tmp_path):
    PLOTS[path](tmp_path / "plot.png")
    assert data_of(path) == data_of(tmp_path / "plot.png")


def test_every_plot_of_results_is_checked():
    plots = {path for folder in (ZOO, BENCHMARKS) for path in folder.glob("*.png")}
    assert plots - set(PLOTS) == {path for path in plots if path.name.startswith(tuple(OF_MODELS))}


def test_plots_of_other_results_differ(tmp_path):
    paths = [write_png(panel("x", "y")[0], tmp_path / f"{value}.png", data={"value": value}) for value in (1, 2)]
    assert data_of(paths[0]) != data_of(paths[1])
