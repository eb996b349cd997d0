import contextlib
import io
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from keras_tying.commands import main
from keras_tying.data import load_parallel

REPOSITORY = Path(__file__).parents[2]

RECIPE = """
title = "Tiny"
[model]
name = "dl4mt_small"
arguments = {{ tying = "three_way", embedding_size = 8, units = 8, dropout = 0.1 }}
[data]
vocabulary_size = 200
[loss]
arguments = {{ label_smoothing = 0.1 }}
[optimisation]
optimizer = "{optimizer}"
batch_tokens = 200
epochs = {epochs}
"""


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Files of phrases, as arguments of train/nmt.py."""
    folder = tmp_path_factory.mktemp("texts")
    corpus = load_parallel("embedded")
    arguments = []
    for split, size in (("train", 200), ("valid", 10), ("test", 10)):
        pairs = list(corpus.pairs(split))[:size]
        files = [folder / f"{split}.{language}" for language in ("en", "de")]
        for file, side in zip(files, zip(*pairs, strict=True), strict=True):
            file.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
        options = ("--source", "--target") if split == "train" else (f"--{split}",)
        arguments += [options[0], files[0], *options[1:], files[1]]
    return [str(argument) for argument in arguments]


def recipe(tmp_path, optimizer="adam", epochs=2):
    path = tmp_path / f"{optimizer}{epochs}.toml"
    path.write_text(RECIPE.format(optimizer=optimizer, epochs=epochs))
    return path


@pytest.fixture(scope="module")
def run(texts, tmp_path_factory):
    folder, output = tmp_path_factory.mktemp("nmt"), io.StringIO()
    with contextlib.redirect_stdout(output):
        assert main(["nmt", "--recipe", str(recipe(folder)), "--run", str(folder / "run"), *texts]) == 0
    return folder / "run", output.getvalue()


def test_a_run_leaves_model_results_and_export(run):
    folder, output = run
    results = json.loads((folder / "results.json").read_text())
    assert results["test_bleu_signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a")
    assert len(results["history"]) == 2
    assert {"val_bleu", "val_perplexity", "perplexity"} <= set(results["history"][0])
    assert (folder / "saved_model" / "1" / "saved_model.pb").exists()
    assert (folder / "model.keras").exists()
    assert "in both" in output


def test_lines_are_translated_one_by_one(run):
    folder, _ = run
    text = "\ufeffJune 5\n\nGreece and Croatia\u2028\n" + "June 5 " * 9000
    process = subprocess.run(
        [sys.executable, "train/nmt.py", "--translate", folder, "--attention", folder / "plot.png", "--beam", "2"],
        cwd=REPOSITORY, input=text, capture_output=True, text=True,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    assert len(lines) == 4
    assert "line 4: only the first 512 of" in process.stderr
    assert lines[1] == ""
    assert (folder / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_evaluation_gives_the_figures_of_the_results(run, run_here):
    folder, _ = run
    output = run_here("train/nmt.py", "--evaluate", folder).stdout
    results = json.loads((folder / "results.json").read_text())
    figures = dict(re.findall(r"^(\w+) +(.+)$", output, re.MULTILINE))
    for name in ("bleu", "chrf", "perplexity"):
        for split in ("validation", "test"):
            assert figures[f"{split}_{name}"] == f"{results[f'{split}_{name}']:.2f}"
    assert figures["test_bleu_signature"] == results["test_bleu_signature"]


def test_another_tokenizer_is_refused(run, run_here):
    folder, _ = run
    original = (folder / "subwords.model").read_bytes()
    from keras_tying.data import Subwords

    try:
        Subwords.learn(["other words"] * 9, 15).save(folder / "subwords.model")
        process = run_here("train/nmt.py", "--evaluate", folder)
    finally:
        (folder / "subwords.model").write_bytes(original)
    assert process.returncode == 2
    assert "is not the vocabulary this run was made with" in process.stderr


def test_files_that_do_not_belong_together_are_named(texts, run_here, tmp_path):
    short = tmp_path / "short.de"
    short.write_text("eins\nzwei\n")
    arguments = [*texts]
    arguments[3] = str(short)
    process = run_here("train/nmt.py", "--run", tmp_path / "run", *arguments)
    assert process.returncode == 2
    (line,) = process.stderr.splitlines()
    assert all(part in line for part in ("short.de", "train.en", "they have 2 and 200 lines"))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_run_on_prepared_pairs_stopped_and_resumed_ends_with_the_weights_of_one_on_their_files(
    texts, tmp_path, run_python
):
    from safetensors.numpy import load_file

    files, measured_on, prepared = texts[:4], texts[4:], tmp_path / "prepared"
    run_python("train/prepare.py", "pairs", prepared, *files, "--vocabulary-size", "200", "--processes", "2")

    def start(folder, *more):
        command = [sys.executable, "train/nmt.py", *map(str, more)]
        return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)

    own = recipe(tmp_path, "adadelta", epochs=4)
    assert start(tmp_path, "--recipe", own, "--run", tmp_path / "whole", *texts).wait() == 0
    arguments = ["--prepared", prepared, *measured_on, "--checkpoint-minutes", 0.001]
    process = start(tmp_path, "--recipe", own, "--run", tmp_path / "cut", *arguments)
    while not (tmp_path / "cut" / "checkpoints" / "index.json").exists():
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 75
    assert start(tmp_path, "--resume", tmp_path / "cut").wait() == 0
    weights = [
        load_file(sorted((tmp_path / name / "checkpoints").glob("*.safetensors"))[-1]) for name in ("whole", "cut")
    ]
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])
