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
from studies.joint_grid import claimed, position_weights, train_grid, word_weights
from studies.joint_language_models import joint_page
from studies.joint_study import load_study, model_file, results_file
from tests.studies.small_joint_study import results_of

VOCABULARY = Vocabulary(["a", "b", "<unk>", "<eos>"])


@pytest.fixture
def train(folder, tmp_path, aligned_files):
    """Trains the small study's cells; returns the results."""

    def train(**arguments):
        study = load_study(folder)
        train_grid(study, "own-text", study.todo("own-text", **arguments), tmp_path, tmp_path / "runs", folder)
        return json.loads(results_file(folder, "own-text").read_text())

    return train


@pytest.fixture
def aligned(monkeypatch):
    """The tokenization of each alignment that the test makes. Its links are those beside the files."""
    tokenizations = []

    def align(texts, alignment):
        tokenizations.append(texts[0].tokenization)
        alignment.mkdir(parents=True)
        for place, text in enumerate(texts):
            shutil.copyfile(text.source.with_suffix(".align"), alignment / f"{place}.align")

    monkeypatch.setattr(joint_grid, "align", align)
    return tokenizations


@pytest.fixture
def trained(monkeypatch):
    """Names of the folders of the runs that are trained while the test runs."""
    names, fit = [], joint_grid.fit

    def recorded(task, model, run):
        names.append(run.folder.name)
        return fit(task, model, run)

    monkeypatch.setattr(joint_grid, "fit", recorded)
    return names


def test_every_cell_can_be_built_and_has_a_file_of_its_own(tmp_path):
    study = load_study()
    for grid in study.grids:
        cells = {name: cell for name, cell, _ in study.todo(grid)}
        for cell in cells.values():
            task = joint_grid.make_task(study.grids[grid], cell, 1, {}, (VOCABULARY, VOCABULARY))
            task.build_model_for(study.sentence_length)
        assert len({model_file(tmp_path, name, 1) for name in cells}) == len(cells)


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


def test_links_that_are_missing_are_made_once(train, folder, aligned):
    toml = folder / "studies" / "nnjm.toml"
    toml.write_text(toml.read_text().replace(', "test.align"', ""))
    train(main_only=True, seeds=1)
    train(main_only=True)
    assert aligned == ["spaces"]


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
    folder, tmp_path, aligned_files, aligned, monkeypatch
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

    monkeypatch.setattr(joint_grid, "load_parallel", load)
    word = (tmp_path / "train.tgt").read_text().split()[0]
    save_word_vectors(tmp_path / "vectors.txt", [word], np.array([[7.0, -7.0]]))
    study = load_study(folder)
    train_grid(study, "pairs", study.todo("pairs"), tmp_path, tmp_path / "runs", folder)
    model = keras.saving.load_model(model_file(tmp_path / "runs" / "pairs", "given", 1))
    assert [7.0, -7.0] in keras.ops.convert_to_numpy(model.embedding.embeddings).tolist()
    assert (model.embedding.trainable, model.source_embedding.trainable) == (False, True)
    assert results_file(folder, "pairs").exists()
