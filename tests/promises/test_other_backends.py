"""What the training commands promise on JAX and PyTorch, where TensorFlow cannot be imported."""

import importlib.util
import json
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import harness
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from keras_tying.commands import main

TASKS = ("lm", "word2vec", "nnjm", "nmt")
RESUMED = ("lm", "word2vec")
SECOND_VISIT = 2


@dataclass(frozen=True)
class Finished:
    """Commands that ran in one process of a backend.

    Attributes:
        backend: Its name.
        folder: Where the run of each task is, by its command's name, and below `stopped/` the one that was stopped.
        codes: Exit codes of the commands, in their order.
        printed: What the commands printed.
    """

    backend: str
    folder: Path
    codes: list[int]
    printed: str


def texts(folder: Path) -> list:
    """Options that name the texts of language models."""
    return harness.text_options(*(folder / f"{split}.txt" for split in ("train", "valid", "test")))


def options(folder: Path) -> dict[str, list]:
    """Tiny settings and texts of each command."""
    pairs = []
    for split, lines, count in (("train", 120, 40), ("valid", 20, 1), ("test", 20, 1)):
        text = harness.text_file(folder / f"{split}.txt", 10 * lines, split=split)
        sides = folder / f"{split}.a", folder / f"{split}.b"
        words = [line.split()[:2] for line in text.read_text().splitlines()[:count]]
        for side, case in zip(sides, (str.lower, str.upper), strict=True):
            side.write_text("".join(f"{case(' '.join(line))}\n" for line in words))
        pairs.append(sides)
    return {
        "lm": [
            *texts(folder),
            *("--set", "model.units=6", "model.num_layers=1", "data.vocabulary_size=40"),
            *("optimisation.batch_size=4", "optimisation.sequence_length=7"),
        ],
        "word2vec": ["--train-file", folder / "train.txt", "--set", "model.units=6", "data.minimum_count=2"],
        "nnjm": [
            *harness.linked_options(*map(harness.linked, pairs)),
            *("--recipe", "nnjm_global", "--set", "model.window=3", "model.embedding_size=6"),
            *("model.hidden_units=[6]", "optimisation.batch_size=8"),
        ],
        "nmt": [
            *harness.pair_options(*pairs),
            *("--set", "model.units=6", "model.embedding_size=6", "data.vocabulary_size=150"),
        ],
    }


@pytest.fixture(scope="module", params=["jax", "torch"])
def finished(request, tmp_path_factory, run_python) -> Finished:
    """Every task trained, evaluated and, once more, stopped and resumed."""
    backend = request.param
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    folder = tmp_path_factory.mktemp(backend)
    commands: list[list] = []
    greedy = {"nmt": ["--beam", "1"]}  # it compiles less
    for task, given in options(folder).items():
        commands += [
            [task, "--run", folder / task, "--epochs", "2", *given],
            [task, "--evaluate", folder / task, *greedy.get(task, ())],
        ]
        if task in RESUMED:
            stopped = folder / "stopped" / task
            commands += [[SECOND_VISIT, task, "--run", stopped, "--epochs", "2", *given], [task, "--resume", stopped]]
    continued = ["lm", "--from", folder / "lm", "--epochs", "2", *texts(folder)]
    stopped = folder / "stopped" / "continued"
    commands += [
        [*continued, "--run", folder / "continued"],
        [SECOND_VISIT, *continued, "--run", stopped],
        ["lm", "--resume", stopped],
    ]
    commands.append(["nmt", "--translate", folder / "nmt", "--attention", folder / "attention.png", *greedy["nmt"]])
    commands.append(["lm", "--export", folder / "lm"])
    commands.append(["lm", "--strategy", "mirrored", "--run", folder / "mirrored"])
    words = [json.dumps(command, default=str) for command in commands]
    process = run_python("tests/promises/one_process.py", *words, KERAS_BACKEND=backend)
    *printed, last = process.stdout.splitlines()
    return Finished(backend, folder, json.loads(last), "\n".join(printed) + process.stderr)


def test_every_task_trains_and_evaluates_and_some_are_resumed_without_tensorflow(finished):
    expected = [[0, 0, 75, 0] if task in RESUMED else [0, 0] for task in TASKS]
    continued = [0, 75, 0]
    assert finished.codes == [*chain(*expected), *continued, 0, 2, 2], finished.printed


def test_other_backends_have_one_replica(finished):
    assert f"mirrored needs the TensorFlow backend. Received: KERAS_BACKEND={finished.backend}" in finished.printed
    assert not (finished.folder / "mirrored").exists()


@pytest.mark.parametrize("task", [*RESUMED, "continued"])
def test_a_resumed_run_ends_with_the_same_weights(finished, task):
    expected, received = (harness.Run(finished.folder / path / task) for path in ("", "stopped"))
    assert len(received.history) == 2
    for one, other in zip(expected.weights, received.weights, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("task", TASKS)
def test_results_say_what_measured_them(finished, task):
    results = harness.Run(finished.folder / task).results
    assert results["backend"] == finished.backend
    assert {"python", "keras-tying", "keras", "numpy", finished.backend} == set(results["versions"])
    assert results["device"].endswith(("core", "cores"))


@pytest.mark.parametrize("task", TASKS)
def test_tensorboard_has_every_epoch(finished, task):
    events = EventAccumulator(str(finished.folder / task / "tensorboard" / "train")).Reload()
    assert [event.step for event in events.Tensors("training/learning rate")] == [1, 2]


def test_plots_and_word_vectors_are_written(finished):
    assert (finished.folder / "attention.png").read_bytes().startswith(b"\x89PNG")
    assert (finished.folder / "word2vec" / "input.txt").stat().st_size


def test_the_printed_command_exports_with_tensorflow(finished, capsys):
    signatures = {"lm": "generate", "nmt": "translate", "word2vec": "similar_words", "nnjm": "log_probabilities"}
    for task in TASKS:
        run = finished.folder / task
        assert f"not written, it needs TensorFlow: KERAS_BACKEND=tensorflow keras-tying {task} --export {run}" in (
            finished.printed
        )
        assert not (run / "saved_model").exists()
    assert "error: A SavedModel needs the TensorFlow backend: KERAS_BACKEND=tensorflow" in finished.printed
    tasks = TASKS if finished.backend == "torch" else TASKS[:1]
    for task in tasks:
        assert main([task, "--export", str(finished.folder / task)]) == 0, capsys.readouterr().err
        saved = tf.saved_model.load(str(finished.folder / task / "saved_model" / "1"))
        assert signatures[task] in saved.signatures
