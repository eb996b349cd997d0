import gzip
import json
import re
import shutil

import keras
import numpy as np
import pytest

from keras_tying import zoo
from keras_tying.data import SPLITS, Vocabulary, parallel_files, save_word_vectors
from keras_tying.training import TrainingInterrupted, environment
from studies import joint_grid
from studies.joint_grid import claimed, load_study, model_file, position_weights, results_file, train_grid, word_weights
from studies.joint_language_models import draw_plots, is_lower, joint_page

PNG = b"\x89PNG"
VOCABULARY = Vocabulary(["a", "b", "<unk>", "<eos>"])
STUDY = """
title = "Page"
text = "Intro."
columns = ["own-text", "other"]
sentence_length = 8

[grids.own-text]
title = "Own"
groups = ["main", "variants"]
data = { source_vocabulary_size = 12, target_vocabulary_size = 12 }
optimisation = { epochs = 2, batch_size = 32 }
[grids.own-text.files]
train = ["train.src", "train.tgt", "train.align"]
valid = ["valid.src", "valid.tgt", "valid.align"]
test = ["test.src", "test.tgt", "test.align"]

[grids.other]
title = "Other"
groups = ["sweeps"]
data = {}
files = {}

[groups.main]
seeds = 2
[groups.main.cells]
"NNJM" = { model = "nnjm", arguments = { window = 3, embedding_size = 4, hidden_units = [5], learning_rate = 1.0 } }

[groups.variants]
seeds = 1
[groups.variants.cells."NNJM-Global + BS"]
model = "nnjm_global"
arguments = { window = 3, embedding_size = 4, hidden_units = [5], trainable_embeddings = false }
word_vectors = "NNJM"

[sweeps]
"n-gram" = [{ at = 2, model = "nnlm", arguments = { order = 2 } }, { at = 3, model = "nnlm" }]

[[tables]]
title = "Table 1"
published = { "NNJM" = 9.51, "NNLM" = 95.06 }

[[tables]]
title = "Table 2"
text = "Not the paper's."
split = "valid"
rows = ["NNJM"]

[[orderings]]
title = "Ordering"
text = "Lower?"
lower = "one"
higher = "other"
pairs = [{ lower = "NNJM", higher = "NNLM" }]

[pictures]
grid = "own-text"
weights = "NNJM"
window = 3
history = "NNJM"
captions = { nnjm_positions = "Positions", nnjm_weights = "Weights", nnjm_sweeps = "Curves" }
"""


@pytest.fixture
def folder(tmp_path):
    """A zoo's folder with a small study and no results."""
    (tmp_path / "zoo" / "studies").mkdir(parents=True)
    (tmp_path / "zoo" / "studies" / "nnjm.toml").write_text(STUDY)
    return tmp_path / "zoo"


@pytest.fixture
def train(folder, tmp_path, aligned_files):
    """Trains the small study's cells; returns the results."""

    def train(**arguments):
        study = load_study(folder)
        train_grid(study, "own-text", study.todo("own-text", **arguments), tmp_path, tmp_path / "runs", folder)
        return json.loads(results_file(folder, "own-text").read_text())

    return train


@pytest.fixture
def trained(monkeypatch):
    """Names of the folders of the runs that are trained while the test runs."""
    names, fit = [], joint_grid.fit

    def recorded(task, model, run):
        names.append(run.folder.name)
        return fit(task, model, run)

    monkeypatch.setattr(joint_grid, "fit", recorded)
    return names


def results_of(folder, grid, cells):
    """Writes results with the given test perplexities."""
    run = {"valid": 7.0, "valid_by_epoch": [8.0, 7.0], "position_weights": [0.1, 0.3, 0.1, 0.1, 0.1, 0.2]}
    results = {
        "command": f"python train/nnjm_grid.py {grid} --data-dir DIR",
        "data": load_study(folder).grids[grid].data.model_dump(),
        "optimisation": load_study(folder).grids[grid].optimisation.model_dump(),
        "samples": {"train": 1000, "valid": 100, "test": 100},
        "device": "a processor",
        "versions": {"python": "3"},
        "cells": {
            name: {"runs": {str(seed): {**run, "test": value} for seed, value in enumerate(values, start=1)}}
            for name, values in cells.items()
        },
    }
    path = results_file(folder, grid)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results))


def test_every_name_on_the_page_is_a_cell():
    study = load_study()

    def cells(grids):
        return {name for grid in grids for name, _, _ in study.todo(grid)}

    assert {study.pictures.weights, study.pictures.history} <= cells([study.pictures.grid])
    for table in study.tables:
        rows = set(table.rows or table.published) - {"NNJM-Global + BS-W2V"}
        assert rows <= cells(table.columns or study.columns), table.title
    for ordering in study.orderings:
        pairs = {cell for pair in ordering.pairs for cell in (pair.lower, pair.higher)}
        assert pairs <= cells(ordering.columns or study.columns), ordering.title


def test_the_orderings_asked_for_are_those_of_the_paper():
    study = load_study()
    published = {"valid": {}, "test": {}}
    for each in study.tables:
        published[each.split] |= each.published
    of_paper, of_tying = study.orderings
    for pair in of_paper.pairs:
        found = [cells for cells in published.values() if {pair.lower, pair.higher} <= set(cells)]
        assert found, f"the paper does not compare {pair}"
        assert all(cells[pair.lower] < cells[pair.higher] for cells in found), pair
    assert all(pair.lower.endswith("tied") for pair in of_tying.pairs)


def test_every_cell_can_be_built_and_has_a_file_of_its_own(tmp_path):
    study = load_study()
    for grid in study.grids:
        cells = {name: cell for name, cell, _ in study.todo(grid)}
        for cell in cells.values():
            task = joint_grid.make_task(study.grids[grid], cell, 1, {}, (VOCABULARY, VOCABULARY))
            task.build_model_for(study.sentence_length)
        assert len({model_file(tmp_path, name, 1) for name in cells}) == len(cells)


def test_the_main_cells_are_trained_first_each_seed_through_all_of_them():
    todo = [(name, seed) for name, _, seed in load_study().todo("zh-en")]
    assert [seed for _, seed in todo] == [1] * 8 + [2] * 8 + [3] * 8 + [1] * 19 + [2] * 19
    assert todo[0] == ("NNLM", 1)
    assert [seed for _, _, seed in load_study().todo("zh-en", seeds=2, main_only=True)] == [1] * 8 + [2] * 8
    assert next(load_study().todo("sweeps"))[0] == "word vector size, 0"


def test_a_grid_is_trained_and_a_finished_cell_is_not_trained_again(train, trained, tmp_path):
    results = train(seeds=1)
    assert trained == ["nnjm-1", "nnjm-global-bs-1"]
    assert results["command"] == "python train/nnjm_grid.py own-text --data-dir DIR"
    entry = results["cells"]["NNJM"]
    assert (entry["model"], entry["arguments"]["learning_rate"]) == ("nnjm", 1.0)
    figures = entry["runs"]["1"]
    assert figures["valid"] == pytest.approx(min(figures["valid_by_epoch"]))
    assert figures["epochs"] == len(figures["valid_by_epoch"]) == 2
    assert len(figures["position_weights"]) == 6
    assert {name: figures[name] for name in ("device", "commit")} == {n: results[n] for n in ("device", "commit")}
    assert figures["wall_time_seconds"] > 0
    assert {path.name for path in (tmp_path / "runs" / "own-text").iterdir()} == {
        "grid.lock",
        "nnjm-1.keras",
        "nnjm-1.lock",
        "nnjm-global-bs-1.keras",
        "nnjm-global-bs-1.lock",
    }

    again = train()
    assert trained[2:] == ["nnjm-2"]
    assert again["cells"]["NNJM"]["runs"]["1"] == figures
    (tmp_path / "train.src").unlink()  # a finished grid does not even read its text
    assert train() == again


def test_a_cell_that_another_process_trains_is_left_to_it(train, trained, tmp_path):
    (tmp_path / "runs" / "own-text").mkdir(parents=True)
    with claimed(model_file(tmp_path / "runs" / "own-text", "NNJM", 1)):
        results = train(main_only=True)
    assert trained == ["nnjm-2"]
    assert set(results["cells"]["NNJM"]["runs"]) == {"2"}
    assert set(train(main_only=True)["cells"]["NNJM"]["runs"]) == {"1", "2"}


def test_results_that_another_process_writes_stay_and_are_not_trained_again(train, trained, folder, monkeypatch):
    path, fit, other = results_file(folder, "own-text"), joint_grid.fit, {"valid": 7.0}

    def fit_while_another_writes(task, model, run):
        results = {"data": {}, "optimisation": {}, **environment()}
        path.parent.mkdir()
        path.write_text(json.dumps({**results, "cells": {"NNJM": {"model": "nnjm", "runs": {"2": other}}}}))
        return fit(task, model, run)

    monkeypatch.setattr(joint_grid, "fit", fit_while_another_writes)
    runs = train(main_only=True)["cells"]["NNJM"]["runs"]
    assert trained == ["nnjm-1"]
    assert runs["2"] == other
    assert runs["1"]["epochs"] == 2


def test_a_cell_that_was_interrupted_is_the_next(train, trained, monkeypatch, folder):
    def stopped(*arguments):
        raise TrainingInterrupted

    monkeypatch.setattr(joint_grid, "training_record", stopped)
    with pytest.raises(TrainingInterrupted):
        train(main_only=True)
    monkeypatch.undo()
    assert not results_file(folder, "own-text").exists()
    assert set(train(main_only=True)["cells"]["NNJM"]["runs"]) == {"1", "2"}


def test_a_cell_that_was_interrupted_before_its_results_were_written_is_not_trained_again(train, monkeypatch):
    measured = []

    def stopped(path, about, todo, figures):
        measured.append(figures)
        raise TrainingInterrupted

    with monkeypatch.context() as patch:
        patch.setattr(joint_grid, "_record", stopped)
        with pytest.raises(TrainingInterrupted):
            train(seeds=1, main_only=True)
    assert train(seeds=1, main_only=True)["cells"]["NNJM"]["runs"]["1"] == measured[0]


RATES = """
[grids.rates]
title = "Rates"
groups = ["rates"]
data = {}
[grids.chosen]
title = "Chosen"
groups = ["chosen"]
rates_of = "rates"
data = { source_vocabulary_size = 12, target_vocabulary_size = 12 }
optimisation = { epochs = 1, batch_size = 32 }
[grids.chosen.files]
train = ["train.src", "train.tgt", "train.align"]
valid = ["valid.src", "valid.tgt", "valid.align"]
test = ["test.src", "test.tgt"]
[groups.rates]
seeds = 1
[groups.rates.cells]
"low" = { model = "nnlm", arguments = { learning_rate = 0.25 } }
"high" = { model = "nnlm", arguments = { learning_rate = 0.5 } }
[groups.chosen]
seeds = 1
[groups.chosen.cells]
"NNLM" = { model = "nnlm", arguments = { embedding_size = 4, hidden_units = [5] } }
"""


def test_the_rate_of_a_grid_is_the_one_with_the_best_validation_perplexity(folder, tmp_path, aligned_files):
    toml = folder / "studies" / "nnjm.toml"
    toml.write_text(toml.read_text().replace("[groups.main]", f"{RATES}\n[groups.main]", 1))
    study, path = load_study(folder), results_file(folder, "rates")

    def train():
        train_grid(study, "chosen", study.todo("chosen"), tmp_path, tmp_path / "runs", folder)
        return json.loads(results_file(folder, "chosen").read_text())

    def cell(rate, valid, test):
        return {"model": "nnlm", "arguments": {"learning_rate": rate}, "runs": {"1": {"valid": valid, "test": test}}}

    alignment = tmp_path / "runs" / "rates" / "alignment"  # made for the other grid; this one uses it
    alignment.mkdir(parents=True)
    for i, split in enumerate(("train", "valid", "test")):
        shutil.copy(tmp_path / f"{split}.align", alignment / f"{i}.align")
    path.parent.mkdir()
    path.write_text(json.dumps({"cells": {"low": cell(0.25, 7.0, 9.0)}}))
    with pytest.raises(ValueError, match=r"chosen by the results of all cells of rates.*Missing.*\['high'\]"):
        train()
    path.write_text(json.dumps({"cells": {"low": cell(0.25, 7.0, 9.0), "high": cell(0.5, 8.0, 1.0)}}))
    results = train()
    assert results["optimisation"]["learning_rate"] == 0.25
    path.write_text(json.dumps({"cells": {"low": cell(0.25, 7.0, 9.0), "high": cell(0.5, 6.0, 9.0)}}))
    with pytest.raises(ValueError, match="results of other settings"):  # the choice has changed
        train()
    path.unlink()
    shown = joint_page(folder).split("**Chosen**")[1]
    assert "and rate 0.25, the best of rates on validation text." in shown


def test_a_page_says_when_trainings_stop_before_the_last_epoch(folder):
    study = folder / "studies" / "nnjm.toml"
    study.write_text(STUDY.replace("epochs = 2,", "epochs = 8, patience = 5,"))
    results_of(folder, "own-text", {"NNJM": [9.0]})
    assert "; at most 8 epochs of SGD" in joint_page(folder)
    assert "and rate 0.3, stopped after 5 epochs without a better validation perplexity." in joint_page(folder)


def test_rates_that_were_not_measured_alike_are_not_compared():
    one = {"model": "nnlm", "arguments": {"learning_rate": 1.0}, "runs": {"1": {"valid": 7.0}, "2": {"valid": 7.0}}}
    two = {"model": "nnlm", "arguments": {"learning_rate": 2.0}, "runs": {"1": {"valid": 6.0}}}
    with pytest.raises(ValueError, match="with the same models and seeds"):
        joint_grid.best_rate({"cells": {"one": one, "two": two}})


def test_frozen_word_vectors_are_those_of_the_other_cell(train, tmp_path):
    train(seeds=1)
    first, second = (
        keras.saving.load_model(tmp_path / "runs" / "own-text" / f"{name}-1.keras").word_vectors
        for name in ("nnjm", "nnjm-global-bs")
    )
    np.testing.assert_array_equal(first["target"], second["target"])
    np.testing.assert_array_equal(first["source"], second["source"])


def test_word_vectors_that_are_not_there_are_named(train, folder):
    results_of(folder, "own-text", {"NNJM": [9.0, 9.1]})
    with pytest.raises(FileNotFoundError, match=r"There is no .*nnjm-1.keras, whose word vectors are needed"):
        train()


def test_results_of_other_settings_are_refused(train, folder):
    results_of(folder, "own-text", {"NNJM": [9.0]})
    toml = folder / "studies" / "nnjm.toml"
    toml.write_text(toml.read_text().replace("epochs = 2", "epochs = 3"))
    with pytest.raises(ValueError, match=r"nnjm_own_text.json has results of other settings"):
        train()


def test_links_that_are_missing_are_made_once(train, folder, tmp_path, monkeypatch):
    toml = folder / "studies" / "nnjm.toml"
    toml.write_text(toml.read_text().replace(', "test.align"', ""))
    made = []

    def align(texts, alignment):
        made.append(texts[0].tokenization)
        alignment.mkdir(parents=True)
        for place, text in enumerate(texts):
            text.source.with_suffix(".align").rename(alignment / f"{place}.align")

    monkeypatch.setattr(joint_grid, "align", align)
    train(main_only=True, seeds=1)
    train(main_only=True)
    assert made == ["spaces"]


def test_links_of_the_zoo_are_those_of_a_grid(train, folder, tmp_path):
    toml, links = folder / "studies" / "nnjm.toml", folder / "links"
    without = re.sub(r', "[a-z]+[.]align"', "", toml.read_text())
    toml.write_text(without.replace('title = "Own"', 'title = "Own"\nlinks = "links"'))
    links.mkdir()
    for split in ("train", "valid", "test"):
        text = tmp_path / f"{split}.align"
        (links / f"{split}.align.gz").write_bytes(gzip.compress(text.read_bytes()))
        text.unlink()
    train(main_only=True, seeds=1)
    assert results_file(folder, "own-text").exists()


def test_published_figures_stand_beside_measured_ones(folder):
    results_of(folder, "own-text", {"NNJM": [9.0, 9.2], "NNLM": [99.0]})
    text = joint_page(folder)
    assert text.startswith("# Page\n\nIntro.\n")
    assert "**Own**: all pairs of the training text, 1,000 target words" in text
    assert "python train/nnjm_grid.py own-text --data-dir DIR" in text
    assert "words at most; 2 epochs of SGD with batches of 32 and rate 0.3.\n" in text
    assert "**Other**: not measured." in text
    assert "| NNJM | 9.51 | 9.10 (9.00 to 9.20, 2 seeds) | — |" in text
    assert "| NNLM | 95.06 | 99.00 (1 seed) | — |" in text
    assert "| model | own-text |\n| --- | --: |\n| NNJM | 7.00 (7.00 to 7.00, 2 seeds) |\n" in text
    assert "| one | other | own-text |\n| --- | --- | --- |\n| NNJM | NNLM | yes, one seed, -90.8% |\n" in text


def test_rows_without_a_value_are_left_out_where_nothing_is_published(folder):
    study = folder / "studies" / "nnjm.toml"
    more = 'pairs = [{ lower = "NNJM-Global + BS", higher = "NNJM" }, '
    study.write_text(STUDY.replace('rows = ["NNJM"]', 'rows = ["NNJM-Global + BS", "NNJM"]').replace("pairs = [", more))
    results_of(folder, "own-text", {"NNJM": [9.0, 9.2], "NNLM": [99.0]})
    assert "| NNJM-Global + BS |" not in joint_page(folder)


def test_a_page_without_results_shows_no_figure_but_the_published(folder):
    text = joint_page(folder)
    assert "| NNJM | 9.51 | not measured | — |" in text
    assert "## Table 2\n\nNot the paper's.\n\nNot measured.\n" in text
    assert text.endswith("## Ordering\n\nLower?\n\nNot measured.\n")


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [
        ([9.0, 9.2], [9.3, 9.5], "yes, -3.2%"),
        ([9.3, 9.5], [9.0, 9.2], "no, +3.3%"),
        ([9.0, 9.4], [9.3, 9.5], "within the seeds, -2.1%"),
        ([9.0], [9.3, 9.2], "yes, one seed, -2.7%"),
        ([9.0], [9.3, 8.9], "within the seeds, one seed, -1.1%"),
        ([9.1, 9.3], [9.2], "within the seeds, one seed, +0.0%"),
        ([9.3], [9.0], "no, one seed, +3.3%"),
        ([9.3], [], "not measured"),
    ],
)
def test_an_ordering_holds_where_seeds_do_not_overlap(low, high, answer):
    assert is_lower(low, high) == answer


def test_pictures_are_drawn_from_results_and_from_a_model_that_is_still_there(folder, tmp_path):
    assert draw_plots(tmp_path / "runs", folder) == []
    results_of(folder, "own-text", {"NNJM": [9.0]})
    results_of(folder, "other", {"n-gram, 1": [9.0]})
    names = ["nnjm_sweeps.png", "nnjm_positions.png"]
    assert [path.name for path in draw_plots(tmp_path / "runs", folder)] == names
    model = model_file(tmp_path / "runs" / "own-text", "NNJM", 1)
    model.parent.mkdir(parents=True)
    zoo.nnjm(9, 9, window=3).save(model)
    paths = draw_plots(tmp_path / "runs", folder)
    assert [path.name for path in paths] == [*names, "nnjm_weights.png"]
    assert all(path.read_bytes().startswith(PNG) for path in paths)
    text = joint_page(folder)
    assert text.index("nnjm_positions.png") < text.index("nnjm_weights.png") < text.index("nnjm_sweeps.png")


def test_weights_are_told_apart_by_input_word():
    model = zoo.nnjm_global(20, 20, window=3, order=3, embedding_size=8, hidden_units=(16,))
    kernel = np.zeros(model.hidden_layers[0].kernel.shape, "float32")
    kernel[8:16] = -2  # the second word of the window
    kernel[-8:] = 3  # the last of the history
    model.hidden_layers[0].kernel.assign(kernel)
    assert position_weights(model) == [0, 2, 0, 0, 3]
    assert word_weights(model).shape == (5, 8, 16)


def test_the_command_names_grids_it_does_not_know(run_here):
    process = run_here("train/nnjm_grid.py", "none")
    assert process.returncode == 2
    known = list(load_study().grids)
    assert f"unknown grids ['none']; known are {known}" in process.stderr


def test_a_grid_of_a_corpus_is_trained_on_its_pairs_with_vectors_that_stay(
    folder, tmp_path, aligned_files, monkeypatch
):
    toml = folder / "studies" / "nnjm.toml"
    corpus = """
[grids.pairs]
title = "Pairs"
groups = ["vectors"]
corpus = "some"
data = { source_vocabulary_size = 12, target_vocabulary_size = 12 }
optimisation = { epochs = 1, batch_size = 32 }
[groups.vectors]
seeds = 1
[groups.vectors.cells.given]
model = "nnjm"
arguments = { window = 3, embedding_size = 2, hidden_units = [5] }
vectors = { target = "vectors.txt" }
"""
    toml.write_text(toml.read_text() + corpus)

    def load(name, source, target, data_dir):
        assert (name, source, target, data_dir) == ("some", "fr", "en", tmp_path)
        files = {split: [(tmp_path / f"{split}.src", tmp_path / f"{split}.tgt")] for split in SPLITS}
        return parallel_files(files)

    def align(texts, alignment):
        alignment.mkdir(parents=True)
        for place, text in enumerate(texts):
            shutil.copyfile(text.source.with_suffix(".align"), alignment / f"{place}.align")

    monkeypatch.setattr(joint_grid, "load_parallel", load)
    monkeypatch.setattr(joint_grid, "align", align)
    word = (tmp_path / "train.tgt").read_text().split()[0]
    save_word_vectors(tmp_path / "vectors.txt", [word], np.array([[7.0, -7.0]]))
    study = load_study(folder)
    train_grid(study, "pairs", study.todo("pairs"), tmp_path, tmp_path / "runs", folder)
    model = keras.saving.load_model(model_file(tmp_path / "runs" / "pairs", "given", 1))
    assert [7.0, -7.0] in keras.ops.convert_to_numpy(model.embedding.embeddings).tolist()
    assert (model.embedding.trainable, model.source_embedding.trainable) == (False, True)
    assert results_file(folder, "pairs").exists()
