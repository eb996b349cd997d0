"""What every run's files survive: going on, and crashes in the middle of a write."""

import os
import shutil
import time
from pathlib import Path

import harness
import numpy as np
import pytest

RECIPE = harness.tiny_recipe(epochs=1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, files):
    return harness.train_lm(tmp_path_factory.mktemp("trained") / "run", RECIPE, files)


@pytest.fixture
def run(trained, tmp_path):
    """A copy of a trained run."""
    return harness.Run(Path(shutil.copytree(trained.folder, tmp_path / "run")))


def epochs(run, number):
    harness.change_config(run, "recipe", "optimisation", "epochs", value=number)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_wall_time_includes_the_parts_before_a_resume(tmp_path, files):
    with harness.fast_clocks(1000):
        run = harness.train_lm(tmp_path / "run", RECIPE, files)
    earlier = run.results["wall_time_seconds"]
    epochs(run, 2)
    began = time.monotonic()
    resumed = harness.resume("train/lm.py", run).results
    assert resumed["epochs"] == 2
    assert earlier < resumed["wall_time_seconds"] < earlier + time.monotonic() - began + 0.1


def test_processor_time_includes_the_parts_before_a_resume(run):
    earlier = run.results["processor_seconds"]
    epochs(run, 2)
    began = time.process_time()
    resumed = harness.resume("train/lm.py", run).results
    assert 0 < earlier < resumed["processor_seconds"] < earlier + time.process_time() - began + 0.1


def test_words_per_second_are_those_of_the_whole_time(run):
    epochs(run, 2)
    results = harness.resume("train/lm.py", run).results
    expected = 200 * results["epochs"] / results["wall_time_seconds"]
    assert results["words_per_second"] == pytest.approx(expected, rel=0.05 + 0.1 / results["wall_time_seconds"])


def test_results_keep_what_evaluate_measures_until_the_run_goes_on(run):
    plain = run.results
    printed = harness.succeed("train/lm.py", "--evaluate", run.folder, "--cache", "--temperature")
    measured = run.results
    assert measured.items() >= plain.items()
    for way in ("cache", "temperature"):
        for split in ("validation", "test"):
            assert f"{measured[f'{split}_perplexity_{way}']:.2f} with {measured[f'{way}_settings']}" in printed
            assert measured[f"{split}_perplexity_{way}"] != measured[f"{split}_perplexity"]
    assert harness.resume("train/lm.py", run).results == measured
    epochs(run, 2)
    assert harness.resume("train/lm.py", run).results.keys() == plain.keys()


def test_an_interrupted_evaluation_keeps_what_it_has_measured(run, monkeypatch):
    from keras_tying.inference import NeuralCache

    def interrupted(*_):
        raise KeyboardInterrupt

    plain = run.results
    monkeypatch.setattr(NeuralCache, "perplexity", interrupted)  # when `fit` has measured the validation text
    harness.command("train/lm.py", "--evaluate", run.folder, "--cache", "--temperature")
    added = {"temperature_settings", "validation_perplexity_temperature", "test_perplexity_temperature"}
    assert run.results.keys() - plain.keys() == added


def test_results_do_not_get_what_evaluate_measured_of_a_model_that_was_replaced_meanwhile(run, monkeypatch, caplog):
    from keras_tying.tasks import LanguageModelTask

    evaluate = LanguageModelTask.evaluate

    def meanwhile(task, model, arguments):
        for line, metrics in evaluate(task, model, arguments):
            yield line, metrics
            if metrics and run.results["epochs"] == 1:
                epochs(run, 2)
                harness.resume("train/lm.py", run)

    plain = run.results
    monkeypatch.setattr(LanguageModelTask, "evaluate", meanwhile)
    harness.succeed("train/lm.py", "--evaluate", run.folder, "--temperature", "--cache")
    assert caplog.text.count("was trained meanwhile") == 1
    assert run.results.keys() == plain.keys()


def test_two_evaluations_at_a_time_keep_what_both_measured(run, monkeypatch):
    from keras_tying.inference import NeuralCache

    perplexity = NeuralCache.perplexity

    def meanwhile(cache, ids):
        harness.succeed("train/lm.py", "--evaluate", run.folder, "--temperature")
        return perplexity(cache, ids)

    monkeypatch.setattr(NeuralCache, "perplexity", meanwhile)
    harness.succeed("train/lm.py", "--evaluate", run.folder, "--cache")
    assert {"test_perplexity_temperature", "test_perplexity_cache"} <= run.results.keys()


def test_a_run_whose_next_checkpoint_cannot_be_written_keeps_all_files_whole(run):
    checkpoints, others = contents(run.folder / "checkpoints"), contents(run.folder)
    epochs(run, 2)
    others["config.toml"] = (run.folder / "config.toml").read_bytes()
    with harness.largest_file(100_000):
        finished = harness.command("train/lm.py", "--resume", run.folder)
    assert finished.returncode == 2
    assert "File too large" in finished.stderr
    assert contents(run.folder / "checkpoints") == checkpoints
    assert contents(run.folder) == others


def test_who_reads_the_results_while_they_are_written_anew_reads_the_old_ones(run):
    path = run.folder / "results.json"
    before = path.read_text()
    with path.open() as file:
        epochs(run, 2)
        harness.resume("train/lm.py", run)
        assert file.read() == before
    assert path.read_text() != before


def test_a_process_killed_in_the_middle_of_a_write_leaves_the_old_file_whole(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    assert harness.killed_while_writing(path, b"new" * 10_000)
    assert path.read_bytes() == b"old"


def test_a_disk_full_in_the_middle_of_a_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "file"
    harness.write_atomically(path, b"old")
    with harness.largest_file(1000), pytest.raises(OSError, match="File too large"):
        harness.write_atomically(path, b"new" * 10_000)
    assert contents(tmp_path) == {"file": b"old"}


def test_a_list_of_checkpoints_cut_short_by_a_full_disk_is_the_old_one(tmp_path):
    harness.save_checkpoint(tmp_path, {"a": np.zeros(2, "float32")}, {"epoch": 1})
    with harness.largest_file(3000), pytest.raises(OSError, match="File too large"):
        harness.save_checkpoint(tmp_path, {"a": np.ones(2, "float32")}, {"epoch": 2, "history": ["long"] * 5000})
    values, progress = harness.newest_checkpoint(tmp_path)
    assert progress == {"epoch": 1}
    np.testing.assert_array_equal(values["a"], [0, 0])


@pytest.mark.parametrize(("umask", "permissions"), [(0o022, 0o644), (0o007, 0o660), (0o077, 0o600)])
def test_written_files_have_the_permissions_that_the_umask_gives(umask, permissions, tmp_path):
    before = os.umask(umask)
    try:
        harness.write_atomically(tmp_path / "file", b"text")
    finally:
        assert os.umask(before) == umask
    assert os.stat(tmp_path / "file").st_mode & 0o777 == permissions
