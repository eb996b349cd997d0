import gc
import importlib.util
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import runpy
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_tying.backend.tensorflow import scan
from keras_tying.data import Vocabulary, load_corpus

REPOSITORY = Path(__file__).parents[1]

FASTER = {
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "OMP_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
}
"""Environment in which JAX compiles less, and threads of PyTorch that have nothing to do do not wait actively."""


@pytest.fixture(autouse=True, scope="module")
def garbage():
    """Keras collects garbage when it quantizes a layer and clears its session.

    That takes seconds where it has to look at all of TensorFlow and at what earlier modules left, but not here.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def looped():
    """Longer sequences are looped, which is traced sooner. That both ways are equal is tested in tests/backend."""
    scan.UNROLLED_STEPS = 8


@pytest.fixture(autouse=True)
def seeded():
    keras.utils.set_random_seed(7)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def corpus():
    """Real text: Python's own reference."""
    return load_corpus("embedded")


@pytest.fixture(scope="session")
def vocabulary(corpus):
    return Vocabulary.from_tokens(corpus.tokens("train"), size=300)


@pytest.fixture(scope="session")
def train_ids(corpus, vocabulary):
    return vocabulary.encode(corpus.tokens("train"))


@pytest.fixture(scope="session")
def run_python():
    """Runs Python code or a script of the repository in a fresh process; returns the finished process."""

    def run(*arguments, **environment):
        if environment.get("KERAS_BACKEND") in ("jax", "torch"):
            flags = [FASTER["XLA_FLAGS"], environment.get("XLA_FLAGS", "")]
            environment = {**FASTER, **environment, "XLA_FLAGS": " ".join(flags)}
        process = subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=REPOSITORY,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
        )
        if process.returncode:
            raise AssertionError(process.stdout + process.stderr)
        return process

    return run


@pytest.fixture(scope="session")
def printed_on(run_python):
    """Runs a program on another backend of Keras; returns what its last line of output has as JSON."""

    def printed(backend, program, *arguments, **environment):
        if importlib.util.find_spec(backend) is None:
            pytest.skip(f"{backend} is not installed")
        process = run_python("-c", program, *arguments, KERAS_BACKEND=backend, **environment)
        return json.loads(process.stdout.splitlines()[-1])

    return printed


@pytest.fixture
def run_here(monkeypatch, capsys):
    """Runs a script of the repository in this process, where it need not import TensorFlow for seconds."""

    def run(script, *arguments):
        monkeypatch.chdir(REPOSITORY)
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        policy = keras.config.dtype_policy()
        try:
            with pytest.raises(SystemExit) as end:
                runpy.run_path(script, run_name="__main__")
        finally:
            keras.config.set_dtype_policy(policy)  # the script may have set another
        return subprocess.CompletedProcess(sys.argv, end.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def text_files(tmp_path, corpus):
    """Three small UTF-8 files of real text, as arguments of train/lm.py."""
    arguments = []
    for split, lines in (("train", 120), ("valid", 30), ("test", 30)):
        path = tmp_path / f"{split}.txt"
        path.write_text("\n".join(corpus.splits[split][:lines]).lower() + "\n", encoding="utf-8")
        arguments += [f"--{split}-file", str(path)]
    return arguments


@pytest.fixture
def aligned_files(tmp_path):
    """Small texts by split: source, target and links of sentences and themselves, in capitals."""
    rng, files = np.random.default_rng(0), {}
    for split, count in (("train", 60), ("valid", 10), ("test", 10)):
        lines = [" ".join(f"w{i}" for i in rng.integers(0, 9, rng.integers(1, 7))) for _ in range(count)]
        links = [" ".join(f"{i}-{i}" for i in range(len(line.split()))) for line in lines]
        files[split] = [tmp_path / f"{split}.{end}" for end in ("src", "tgt", "align")]
        for path, text in zip(files[split], (lines, [line.upper() for line in lines], links), strict=True):
            path.write_text("\n".join(text) + "\n")
    return files
