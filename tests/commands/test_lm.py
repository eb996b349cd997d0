"""The command line, as a user meets it."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import keras
import numpy as np
import pytest

REPOSITORY = Path(__file__).parents[2]

RECIPE = """
title = "test"
[model]
name = "ptb_small"
[model.arguments]
tied = true
units = 16
dropout = { words = 0.1, inputs = 0.2, hidden = 0.2, outputs = 0.2 }
[data]
vocabulary_size = 200
[optimisation]
batch_size = 4
sequence_length = 4
epochs = 2
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "test.toml"
    path.write_text(RECIPE)
    return str(path)


@pytest.fixture
def start(tmp_path):
    """Starts train/lm.py in the background; killed at the end of the test at the latest."""
    started = []

    def start(*arguments):
        process = subprocess.Popen(
            [sys.executable, "train/lm.py", *map(str, arguments)],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()


def wait_for_checkpoint_within_an_epoch(run, epoch):
    """Waits until the run has a checkpoint past some batches of the given epoch."""
    index = run / "checkpoints" / "index.json"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if index.exists():
            progress = json.loads(index.read_text())[-1]["progress"]
            if progress["epoch"] >= epoch and progress["batch"] > 0:
                return
        time.sleep(0.01)
    raise AssertionError("no checkpoint within two minutes")


def test_interrupted_and_killed_run_on_prepared_text_ends_bit_for_bit_like_an_undisturbed_one_on_its_files(
    tmp_path, recipe, text_files, start, run_here
):
    undisturbed, disturbed, prepared = tmp_path / "undisturbed", tmp_path / "disturbed", tmp_path / "prepared"
    finished = run_here("train/lm.py", "--recipe", recipe, *text_files, "--run", undisturbed)
    assert finished.returncode == 0, finished.stderr
    assert "test perplexity" in finished.stdout
    made = run_here("train/prepare.py", "text", prepared, *text_files, "--vocabulary-size", "200", "--processes", "1")
    assert made.returncode == 0, made.stderr

    process = start("--recipe", recipe, "--prepared", prepared, "--checkpoint-minutes", "0", "--run", disturbed)
    wait_for_checkpoint_within_an_epoch(disturbed, epoch=0)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 75, output
    assert f"--resume {disturbed}" in output

    process = start("--resume", disturbed, "--checkpoint-minutes", "0")
    wait_for_checkpoint_within_an_epoch(disturbed, epoch=1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()

    resumed = run_here("train/lm.py", "--resume", disturbed)
    assert resumed.returncode == 0, resumed.stderr
    models = [keras.saving.load_model(run / "model.keras") for run in (undisturbed, disturbed)]
    for expected, received in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_array_equal(received, expected)
    results = [json.loads((run / "results.json").read_text()) for run in (undisturbed, disturbed)]
    assert results[0]["test_perplexity"] == results[1]["test_perplexity"]
    assert [e["perplexity"] for e in results[0]["history"]] == [e["perplexity"] for e in results[1]["history"]]


def test_a_run_leaves_everything_in_its_folder(tmp_path, recipe, text_files, run_here):
    run = tmp_path / "run"
    precision = "mixed_bfloat16"
    options = ["--run", run, "--epochs", "1", "--precision", precision]
    finished = run_here("train/lm.py", "--recipe", recipe, *text_files, *options)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.startswith("Own text, with the settings of test\n")
    settings = tomllib.loads((run / "config.toml").read_text())["recipe"]
    assert (settings["title"], settings["data"]["tokenization"]) == ("Own text, with the settings of test", "words")
    assert keras.saving.load_model(run / "model.keras").dtype_policy.name == precision
    assert {path.name for path in run.iterdir()} == {
        "checkpoints",
        "config.toml",
        "model.keras",
        "results.json",
        "results.lock",
        "saved_model",
        "tensorboard",
        "training.lock",
        "vocabulary.txt",
    }
    results = json.loads((run / "results.json").read_text())
    evaluated = run_here("train/lm.py", "--evaluate", run, "--mc-passes", "2").stdout
    lines = [line.split() for line in evaluated.splitlines() if "over" in line]
    assert [(line[0], line[2]) for line in lines] == [
        ("valid", f"{results['validation_perplexity']:.2f}"),
        ("test", f"{results['test_perplexity']:.2f}"),
    ]
    assert evaluated.count("by the mean of 2 passes with dropout") == 2

    recorded = run_here("train/lm.py", *text_files, "--run", tmp_path / "new", "--record")
    assert recorded.returncode == 2
    assert "differ from the recipe 'embedded_small_tied'" in recorded.stderr
    again = run_here("train/lm.py", "--recipe", recipe, *text_files, "--run", run)
    assert again.returncode == 2
    assert "already holds a run" in again.stderr

    words = (run / "vocabulary.txt").read_text().splitlines()
    (run / "vocabulary.txt").write_text("\n".join(words[::-1]) + "\n")
    swapped = run_here("train/lm.py", "--evaluate", run)
    assert swapped.returncode == 2
    assert "not the vocabulary this run was made with" in swapped.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recipe", "ptb_smal"], "There is no recipe 'ptb_smal'"),
        (["--train-file", "a.txt"], "Missing: --valid-file, --test-file"),
        (["--train-file", "none", "--valid-file", "none", "--test-file", "none"], "There is no file"),
        (["--recipe", "ptb_small_tied", "--data-dir", "none"], "There is no folder"),
        (["--prepared", "none"], "none holds no prepared text"),
        (["--resume", "none"], "none is not a run"),
        (["--evaluate", "none"], "There is no trained model 'none', and no folder of this name"),
        (["--set", "model.unitz=4"], "keyword arguments passed to LanguageModel: {'unitz': 4}"),
        (["--set", "loss.gamma=1"], "does not take its arguments"),
        (["--set", "optimisation.batch_size=90_000"], "A text needs at least 1,890,000 tokens"),
        (["--set", "title.x=1"], "--set expects TABLE.KEY=VALUE"),
        (["--set", "optimisation.=1"], "--set expects TABLE.KEY=VALUE"),
        (["--epochs", "1", "--record"], "differ from the recipe 'embedded_small_tied'"),
        (["--replicas", "2"], "--replicas needs --strategy mirrored"),
        (["--restartable", "--from-scratch"], "run, where there is no run. Leave the option out."),
    ],
)
def test_bad_arguments_are_named_and_nothing_is_made(tmp_path, run_here, arguments, message):
    run = [] if {"--resume", "--evaluate"} & set(arguments) else ["--run", tmp_path / "run"]
    process = run_here("train/lm.py", *arguments, *run)
    assert process.returncode == 2
    assert message in process.stderr
    assert not (tmp_path / "run").exists()
