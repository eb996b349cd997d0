"""The command lines of skip-gram and of the study, as a user meets them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_tying as kt

REPOSITORY = Path(__file__).parents[2]
SMALL = ["--set", "model.units=8", "data.minimum_count=2", "--epochs", "2", "--checkpoint-minutes", "0"]


@pytest.fixture
def text_file(tmp_path, corpus):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(corpus.splits["train"]).lower() + "\n", encoding="utf-8")
    return path


def wait_for_checkpoint_within_an_epoch(process, run):
    index = run / "checkpoints" / "index.json"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if index.exists() and json.loads(index.read_text())[-1]["progress"]["batch"] > 0:
            return
        time.sleep(0.01)
    raise AssertionError("no checkpoint within two minutes")


def test_an_interrupted_run_ends_like_an_undisturbed_one_on_prepared_text_bit_for_bit_and_is_studied(
    tmp_path, text_file, run_here
):
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    arguments = ["train/word2vec.py", "--train-file", text_file, *SMALL]
    prepared = tmp_path / "prepared"
    words = ["--train-file", text_file, "--minimum-count", "2", "--processes", "1"]
    made = run_here("train/prepare.py", "text", prepared, *words)
    assert made.returncode == 0, made.stderr
    settings = [each for each in SMALL if each != "data.minimum_count=2"]  # the prepared text has its own
    finished = run_here("train/word2vec.py", "--prepared", prepared, *settings, "--run", undisturbed)
    assert finished.returncode == 0, finished.stderr
    assert "SavedModel" in finished.stdout

    process = subprocess.Popen(
        [sys.executable, *map(str, arguments), "--run", str(disturbed)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait_for_checkpoint_within_an_epoch(process, disturbed)
        os.kill(process.pid, signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 75, output
    resumed = run_here("train/word2vec.py", "--resume", disturbed)
    assert resumed.returncode == 0, resumed.stderr
    models = [keras.saving.load_model(run / "model.keras") for run in (undisturbed, disturbed)]
    for expected, received in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_array_equal(received, expected)

    assert {path.name for path in undisturbed.iterdir()} == {
        *("checkpoints", "config.toml", "model.keras", "results.json", "saved_model", "tensorboard", "vocabulary.txt"),
        *("results.lock", "training.lock"),
        *("input.txt", "input.bin", "output.txt", "output.bin"),
    }
    own = tmp_path / "own.txt"
    own.write_text("class\tfunction\t8\nvalue\tobject\t7\nclass\tthe\t1\n")
    studied = run_here("train/embeddings.py", undisturbed, "--set", own, "--words", "class").stdout
    assert "| own |" in studied
    assert "3 of 3" in studied
    figures = json.loads((undisturbed / "embeddings" / "embeddings.json").read_text())
    assert set(figures["pair_correlation"]["spearman"]) == {"input, output"}
    assert len(figures["neighbours"]["input"]["class"]) == 8
    updates = figures["updates"]
    assert updates["output"][-1]["pairs"] > updates["input"][-1]["pairs"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train/word2vec.py", "--train-file", "none"], f"There is no file {REPOSITORY / 'none'}. Check the name"),
        (["train/word2vec.py", "--corpus", "text9"], "There is no corpus 'text9'"),
        (["train/word2vec.py", "--corpus", "text8", "--data-dir", "none"], "There is no folder"),
        (["train/word2vec.py", "--resume", "none"], "none is not a run"),
        (["train/word2vec.py", "--set", "model.units=0"], "`units` must be at least 1"),
        (["train/embeddings.py", "none"], "There is no trained model 'none', and no folder of this name"),
    ],
)
def test_bad_arguments_are_named(tmp_path, run_here, arguments, message):
    own = tmp_path / "own.txt"
    own.write_text("a\tb\t1\n")
    extra = ["--set", own] if "embeddings" in arguments[0] else []
    if "word2vec" in arguments[0] and "--resume" not in arguments:
        extra = ["--run", tmp_path / "run"]
    process = run_here(*arguments, *extra)
    assert process.returncode == 2
    assert message in process.stderr


def test_words_that_a_word2vec_file_cannot_hold_are_refused_before_training(tmp_path, run_here):
    text = kt.data.Corpus("roses", {"train": ["a rose is a rose"] * 9})
    kt.data.prepare_text(tmp_path / "text", text, kt.data.Vocabulary(["a", "new york", "rose", "<unk>", "<eos>"]))
    process = run_here("train/word2vec.py", "--prepared", tmp_path / "text", "--run", tmp_path / "run")
    assert process.returncode == 2
    assert "must not be empty or contain spaces. Received: 'new york'" in process.stderr
    assert not (tmp_path / "run").exists()


def test_a_text_without_a_pair_after_subsampling_is_refused_before_training(tmp_path, run_here):
    (tmp_path / "text.txt").write_text("cat dog\n" * 50)
    arguments = ["--train-file", tmp_path / "text.txt", "--run", tmp_path / "run"]
    process = run_here("train/word2vec.py", *arguments)
    assert process.returncode == 2
    assert "Received: none in epoch 1 with data.subsample=" in process.stderr
    assert not (tmp_path / "run").exists()


def test_a_text_of_one_word_is_an_error_not_a_crash(tmp_path, run_here):
    (tmp_path / "text.txt").write_text("rose rose rose rose rose rose\n")
    arguments = ["--train-file", tmp_path / "text.txt", "--run", tmp_path / "run"]
    process = run_here("train/word2vec.py", *arguments)
    assert process.returncode == 2
    assert "at least two different words. Received: 1" in process.stderr
    assert not (tmp_path / "run").exists()
