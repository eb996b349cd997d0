"""The C program of deploy/c gives, for every signature of the four exports, what Python gives."""

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

REPOSITORY = Path(__file__).parents[2]
COMPILER = shutil.which("cc")
pytestmark = pytest.mark.skipif(
    not (COMPILER and shutil.which("make")), reason="needs make and a C compiler named cc on the PATH"
)

SENTENCES = ["The value is a name", "", "Ünïcode of the list"]
SOURCES = {"source": ["a b c", "c"], "alignment": ["0-0 2-1", ""], "history": ["x y", ""]}
OPTIONS = {"length": 6, "temperature": 0.8, "top_k": 0, "top_p": 1.0, "seed": 5}
CALLS = [
    ("language_model", "score", {"sentences": SENTENCES}),
    ("language_model", "next_word", {"prefix": SENTENCES, "k": 4}),
    ("language_model", "generate", {"prefix": SENTENCES, **OPTIONS}),
    ("translator", "translate", {"sentences": ["a rose", "", "two dogs is 漢"]}),
    ("joint_language_model", "log_probabilities", SOURCES),
    ("joint_language_model", "next_word", {**SOURCES, "k": 2}),
    ("word_vectors", "vector", {"words": ["king", "xyzzy"]}),
    ("word_vectors", "similar_words", {"words": ["king", "xyzzy"], "k": 3}),
]


@pytest.fixture(scope="module")
def predict(tmp_path_factory):
    """Runs the compiled program; returns the finished process."""
    folder = tmp_path_factory.mktemp("c")
    for name in ("predict.c", "Makefile"):
        shutil.copy(REPOSITORY / "deploy" / "c" / name, folder)
    subprocess.run(["make", f"PYTHON={sys.executable}", "CFLAGS=-Wall -Wextra -Werror"], cwd=folder, check=True)
    operations = Path(find_spec("tensorflow_text").origin).parent / "python/ops/_sentencepiece_tokenizer.so"

    def run(saved_model, signature, inputs):
        pairs = [(name, [each] if np.isscalar(each) else each) for name, each in inputs.items()]
        arguments = [f"{name}={value}" for name, values in pairs for value in values]
        return subprocess.run(
            [folder / "predict", "-l", operations, saved_model, signature, *arguments],
            capture_output=True,
            text=True,
        )

    return run


def printed(name, value):
    """A tensor as the C program prints it: nine digits tell all values of float32 apart."""
    if value.dtype == tf.string:
        values = [text.decode() for text in value.numpy().ravel()]
    elif value.dtype == tf.float32:
        values = [f"{number:.9g}" for number in value.numpy().ravel().tolist()]
    else:
        values = [str(number).lower() for number in value.numpy().ravel().tolist()]
    return "\t".join([f"{name} {value.shape.as_list()}", *values])


@pytest.mark.parametrize(("model", "signature", "inputs"), CALLS)
def test_the_c_program_prints_what_python_computes(exports, predict, model, signature, inputs):
    process = predict(exports / model, signature, inputs)
    assert process.returncode == 0, process.stderr
    served = tf.saved_model.load(exports / model).signatures[signature]
    types = {name: spec.dtype for name, spec in served.structured_input_signature[1].items()}
    answers = served(**{name: tf.constant(value, types[name]) for name, value in inputs.items()})
    assert process.stdout.splitlines() == [printed(name, answers[name]) for name in sorted(answers)]


@pytest.mark.parametrize(
    ("signature", "inputs", "message"),
    [
        ("next_word", {"prefix": ["a"], "k": 0}, "k must be at least 1"),
        ("next_word", {"prefix": ["a"]}, "k: expected once, as INPUT=VALUE"),
        ("next_word", {"prefix": ["a"], "k": "two"}, "k: expected a number"),
        ("next_word", {"prefix": ["a"], "k": 2**32 + 1}, "k: expected an integer from -2147483648 to 2147483647"),
        ("next_word", {"prefix": ["a"], "k": -(10**30)}, "k: expected an integer from -2147483648 to 2147483647"),
        ("score", {}, "sentences: expected at least once, as INPUT=VALUE"),
        ("score", {"sentence": ["a"]}, "sentence=a: expected INPUT=VALUE with an input of the signature"),
        ("guess", {}, "guess: the model has no such signature"),
    ],
)
def test_the_c_program_says_what_is_wrong(exports, predict, signature, inputs, message):
    process = predict(exports / "language_model", signature, inputs)
    assert process.returncode == 1
    assert message in process.stderr
