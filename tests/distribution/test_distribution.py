"""Several replicas and workers, on loopback: they come to what one comes to, and survive what machines do."""

import functools
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from keras_tying import training
from keras_tying.backend import replicas
from keras_tying.commands.exit_codes import CLOSED, USAGE
from keras_tying.distribution.local_cluster import _wait, free_ports, run_cluster
from keras_tying.distribution.workers import wait_for_workers
from keras_tying.errors import RESUMABLE, WorkersMissing

REPOSITORY = Path(__file__).parents[2]
CLUSTER = ["-m", "keras_tying", "cluster", "--workers", "2"]
REPLICATED = "tests/distribution/replicated.py"
FAST = "untied_language_model", "translator", "uneven_batches", "uneven_means"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What small models come to by strategy: a function of their names."""

    @functools.cache
    def train(*names):
        folder = tmp_path_factory.mktemp("replicated")
        alone = [REPLICATED, folder, "mirrored,one", *names]
        together = [*CLUSTER, "--", REPLICATED, folder, "multiworker", *names]
        for command in (alone, together):
            process = subprocess.run(
                [sys.executable, *command], cwd=REPOSITORY, capture_output=True, text=True, timeout=300
            )
            assert process.returncode == 0, process.stdout + process.stderr
        return {
            path.stem: {
                name: {"history": history, "variables": dict(np.load(folder / f"{path.stem}-{name}.npz"))}
                for name, history in json.loads(path.read_text()).items()
            }
            for path in folder.glob("*.json")
        }

    return train


def check_replicas_come_to_what_one_comes_to(trained, model, strategy):
    expected, received = trained["one"][model], trained[strategy][model]
    for before, after in zip(expected["history"], received["history"], strict=True):
        for measure, values in before.items():
            np.testing.assert_allclose(after[measure], values, rtol=1e-6, err_msg=measure)
    for name, value in expected["variables"].items():
        if not name.endswith("_rest"):  # what float32 rounds off of a sum depends on the order of its parts
            np.testing.assert_allclose(received["variables"][name], value, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("strategy", ["mirrored", "multiworker"])
@pytest.mark.parametrize("model", FAST)
def test_replicas_come_to_what_one_comes_to(trained, model, strategy):
    check_replicas_come_to_what_one_comes_to(trained(*FAST), model, strategy)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["mirrored", "multiworker"])
@pytest.mark.parametrize("model", ["language_model", "joint_language_model", "skip_gram"])
def test_replicas_of_the_other_models_do_too(trained, model, strategy):
    names = "language_model", "joint_language_model", "skip_gram"
    check_replicas_come_to_what_one_comes_to(trained(*names), model, strategy)


def start_cluster(*arguments):
    process = subprocess.Popen(
        [sys.executable, *CLUSTER, *map(str, arguments)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    workers = []
    while len(workers) < 2:
        line = process.stdout.readline()
        assert line, "the cluster ended"
        workers += map(int, re.findall(r"worker \d is process (\d+)", line))
    return process, workers


def wait_for_checkpoint(process, run, number):
    index = run / "checkpoints" / "index.json"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if index.exists() and (newest := json.loads(index.read_text())[-1])["number"] >= number:
            return newest["progress"]
        time.sleep(0.01)
    raise AssertionError("no checkpoint within two minutes: " + process.communicate(timeout=30)[0])


RECIPE = """
title = "Small"
description = "A model of a few words, in many batches."

[model]
name = "ptb_small"
arguments = { tied = true, dropout = 0.2, units = 16, num_layers = 1 }

[data]
corpus = "files"
vocabulary_size = 200

[optimisation]
batch_size = 2
sequence_length = 2
epochs = 1
full_rate_epochs = 1
decay = 0.5
"""


@pytest.fixture(scope="module")
def command(tmp_path_factory, corpus):
    """A training command without its folder; it saves a checkpoint between any two calls."""
    folder = tmp_path_factory.mktemp("command")
    (folder / "small.toml").write_text(RECIPE)
    files = []
    for split, lines in (("train", 120), ("valid", 10), ("test", 10)):
        files += [f"--{split}-file", folder / f"{split}.txt"]
        files[-1].write_text("\n".join(corpus.splits[split][:lines]).lower() + "\n", encoding="utf-8")
    return ["train/lm.py", "--recipe", folder / "small.toml", *files, "--checkpoint-minutes", "0"]


@pytest.fixture(scope="module")
def preempted(tmp_path_factory, command):
    """The folder of a run of which one worker was told to stop, and how its cluster ended."""
    run = tmp_path_factory.mktemp("preempted") / "run"
    process, workers = start_cluster("--", *command, "--run", run, "--restartable")
    wait_for_checkpoint(process, run, 0)
    os.kill(workers[1], signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    return run, process.returncode, output


def test_a_run_that_lost_workers_ends_like_an_undisturbed_one(tmp_path, command, preempted, run_python):
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    run_python(*command, "--run", undisturbed, "--strategy", "mirrored", "--replicas", "2")

    run, returncode, output = preempted  # all stop, the chief saves
    assert returncode == RESUMABLE, output
    assert "Stopped by SIGTERM" in output
    assert "a signal to another worker" in output

    shutil.copytree(run, disturbed)
    number = json.loads((disturbed / "checkpoints" / "index.json").read_text())[-1]["number"]
    arguments = [*command, "--run", disturbed, "--restartable"]
    process, workers = start_cluster("--restarts", "1", "--grace-seconds", "3", "--", *arguments)
    wait_for_checkpoint(process, disturbed, number + 2)
    os.kill(workers[0], signal.SIGKILL)  # the chief, perhaps while it saves
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 0, output
    assert "starting all workers again" in output

    models = [keras.saving.load_model(run / "model.keras") for run in (undisturbed, disturbed)]
    for expected, received in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_array_equal(received, expected)
    results = [json.loads((run / "results.json").read_text()) for run in (undisturbed, disturbed)]
    assert results[0]["test_perplexity"] == results[1]["test_perplexity"]
    assert [each["workers"] for each in results] == [1, 2]


WITH_A_SMALL_DISK = """
import resource, runpy, sys
sys.argv.pop(0)
size = int(sys.argv.pop(0))
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_a_full_disk_stops_all_workers_and_leaves_earlier_checkpoints(tmp_path, command, preempted):
    run = tmp_path / "run"
    shutil.copytree(preempted[0], run)
    before = {path: path.read_bytes() for path in (run / "checkpoints").iterdir()}
    limit = max(map(len, before.values())) // 2
    arguments = [WITH_A_SMALL_DISK, limit, *command, "--run", run, "--restartable"]
    process, _ = start_cluster("--restarts", "1", "--grace-seconds", "3", "--", "-c", *arguments)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == USAGE, output  # to start again would not help
    assert "File too large" in output
    assert "starting all workers again" not in output
    assert {path: path.read_bytes() for path in (run / "checkpoints").iterdir()} == before


PRINTS_ANY_BYTES = "import sys; sys.stdout.buffer.write(b'\\xff\\n' * 100 + b'end\\n')"


def test_all_that_a_worker_prints_reaches_a_slow_reader(monkeypatch):
    printed = io.BytesIO()
    write = printed.write

    def write_slowly(content):
        time.sleep(0.5 if b"end" in content else 0)
        return write(content)

    monkeypatch.setattr(printed, "write", write_slowly, raising=False)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, write_through=True))
    assert run_cluster([sys.executable, "-c", PRINTS_ANY_BYTES], workers=1) == 0
    assert printed.getvalue().endswith(b"[0] \xff\n[0] end\n")


def test_a_last_line_without_its_end_stands_alone(capfdbinary):
    code = run_cluster([sys.executable, "-c", "print(end='last'); raise SystemExit(75)"], workers=1, restarts=1)
    assert code == RESUMABLE
    lines = capfdbinary.readouterr().out.splitlines()
    assert [line for line in lines if b"is process" not in line] == [
        b"[0] last",
        b"[cluster] a worker ended with 75; starting all workers again",
        b"[0] last",
    ]


def test_the_code_of_a_worker_that_was_killed_is_that_of_a_shell(capfdbinary):
    assert run_cluster([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], workers=1) == 137


@pytest.mark.parametrize(("codes", "expected"), [([75, 2], 2), ([-9, 75, 1], 1), ([0, -9, 75], -9), ([0, 0], 0)])
def test_of_workers_that_fail_together_one_that_ends_the_job_counts(codes, expected):
    workers = [SimpleNamespace(poll=lambda code=code: code, terminate=int, wait=float) for code in codes]
    assert _wait(workers, [], grace_seconds=1) == expected


@pytest.mark.parametrize("lines", [10, 10**9])
def test_a_reader_that_leaves_stops_the_workers_without_a_traceback(lines):
    prints = f"import time\nfor line in range({lines}): print('word ' * 50, flush=True)\ntime.sleep(60)"
    command = [sys.executable, *CLUSTER, "--", "-c", prints]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    workers = []
    while len(workers) < 2:
        workers += map(int, re.findall(r"worker \d is process (\d+)", process.stdout.readline()))
    process.stdout.close()
    try:
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, errors) == (CLOSED, "")
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


EACH_ITS_OWN_FOLDER = """
import json, os, runpy, sys
sys.argv = ["train/lm.py", "--resume", sys.argv[1 + json.loads(os.environ["TF_CONFIG"])["task"]["index"]]]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_a_checkpoint_that_only_some_workers_see_is_an_error(tmp_path, preempted):
    shared, own = tmp_path / "shared", tmp_path / "own"
    shutil.copytree(preempted[0], shared)
    shutil.copytree(shared, own, ignore=shutil.ignore_patterns("checkpoints"))
    process, _ = start_cluster("--", "-c", EACH_ITS_OWN_FOLDER, shared, own)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == USAGE, output
    assert f"1 of 2 workers find a checkpoint in {shared / 'checkpoints'}" in output
    assert "must be one that all of them see" in output


def test_a_second_chief_at_the_same_address_is_refused(tmp_path, monkeypatch, run_here):
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with socket.create_server(("", int(addresses[0].split(":")[1]))):  # the first one
        process = run_here("train/lm.py", "--run", tmp_path / "run", "--wait-minutes", "0.01")
    assert process.returncode == USAGE
    assert f"Another process listens at {addresses[0]}, the address of this worker" in process.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_second_chief_of_the_same_run_is_refused_and_the_first_goes_on(tmp_path, command):
    run = tmp_path / "run"
    arguments = ["--", *command, "--set", "optimisation.epochs=200", "--run", run, "--restartable"]
    first, workers = start_cluster(*arguments)
    wait_for_checkpoint(first, run, 0)
    second, _ = start_cluster("--grace-seconds", "3", *arguments)
    output, _ = second.communicate(timeout=120)
    assert second.returncode == USAGE, output
    assert f"{run} is being trained by another process" in output
    number = json.loads((run / "checkpoints" / "index.json").read_text())[-1]["number"]
    wait_for_checkpoint(first, run, number + 5)
    os.kill(workers[0], signal.SIGTERM)
    output, _ = first.communicate(timeout=60)
    assert first.returncode == RESUMABLE, output


@pytest.mark.slow
def test_a_run_whose_folder_was_away_for_a_minute_ends_like_an_undisturbed_one(tmp_path, command, run_python):
    undisturbed, shared, away = tmp_path / "undisturbed", tmp_path / "shared", tmp_path / "away"
    run_python(*command, "--run", undisturbed, "--strategy", "mirrored", "--replicas", "2")
    process, _ = start_cluster("--", *command, "--run", shared / "run")
    wait_for_checkpoint(process, shared / "run", 1)
    shared.rename(away)
    time.sleep(60)
    away.rename(shared)
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 0, output
    assert f"{shared / 'run' / 'checkpoints'} is away" in output
    models = [keras.saving.load_model(run / "model.keras") for run in (undisturbed, shared / "run")]
    for expected, received in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_array_equal(received, expected)


OTHER_CLOCKS = """
import json, os, runpy, sys, time
sys.argv.pop(0)
hours = (-24, 24)[json.loads(os.environ["TF_CONFIG"])["task"]["index"]]
now, now_ns = time.time, time.time_ns
time.time = lambda: now() + 3600 * hours
time.time_ns = lambda: now_ns() + 3600 * hours * 10**9
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
def test_clocks_of_python_that_are_two_days_apart_change_nothing(tmp_path, command, preempted):
    expected, received = tmp_path / "expected", tmp_path / "received"
    for run in (expected, received):
        shutil.copytree(preempted[0], run)
    for run, start in ((expected, []), (received, ["-c", OTHER_CLOCKS])):
        process, _ = start_cluster("--", *start, *command, "--run", run, "--restartable")
        output, _ = process.communicate(timeout=180)
        assert process.returncode == 0, output
    models = [keras.saving.load_model(run / "model.keras") for run in (expected, received)]
    for pair in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_array_equal(*pair)


def test_workers_find_each_other_at_addresses_of_ipv6():
    ports = free_ports(2)
    cluster = {"worker": [f"[::1]:{port}" for port in ports]}
    try:
        other = socket.create_server(("::1", ports[1]), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with other:
        wait_for_workers(cluster, "worker", 0, minutes=0.5)
    with pytest.raises(WorkersMissing, match=rf"worker 0 at \[::1\]:{ports[0]} cannot be reached"):
        wait_for_workers(cluster, "worker", 1, minutes=0.001)


def test_a_worker_that_never_comes_up_is_named(tmp_path, monkeypatch, run_here):
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    process = run_here("train/lm.py", "--run", tmp_path / "run", "--wait-minutes", "0.01")
    assert process.returncode == RESUMABLE
    assert f"worker 1 at {addresses[1]} cannot be reached" in process.stderr
    assert "worker 0" not in process.stderr
    assert not (tmp_path / "run").exists()


def test_rows_must_be_divided_evenly():
    model = SimpleNamespace(distribute_strategy=SimpleNamespace(num_replicas_in_sync=3))
    assert replicas.part_of(model, 21) == 7
    with pytest.raises(ValueError, match=r"evenly among 3 replicas. Received: a batch of 20 rows. Use a multiple of 3"):
        replicas.part_of(model, 20)


@pytest.mark.parametrize(
    ("strategy", "message"),
    [("many", r"must be one of .* Received: 'many'"), ("multiworker", r"Received neither TF_CONFIG nor SLURM_NTASKS")],
)
def test_a_strategy_that_cannot_be_is_refused(strategy, message, monkeypatch):
    for name in ("TF_CONFIG", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match=message):
        training.open_distribution(strategy)


@pytest.mark.parametrize(
    "config",
    [
        "{",
        "[" * 10_000,
        "[]",
        '{"cluster": []}',
        '{"cluster": {"worker": "a:1"}}',
        '{"cluster": {"worker": ["a"]}}',
        '{"cluster": {"worker": [1, 2]}}',
        '{"cluster": {"worker": ["a:1", "b:1"]}}',
        '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 2}}',
        '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "ps", "index": 0}}',
    ],
)
def test_a_malformed_cluster_is_shown(config, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(ValueError, match=r"TF_CONFIG must be a JSON object .* Received: " + re.escape(config)):
        training.open_distribution()


def test_a_malformed_number_of_slurm_tasks_is_shown(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setenv("SLURM_NTASKS", "abc")
    with pytest.raises(ValueError, match=r"SLURM_NTASKS must be the number of tasks .* Received: 'abc'"):
        training.open_distribution()


def test_one_worker_is_one_device(monkeypatch):
    config = {"cluster": {"worker": ["127.0.0.1:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    distribution = training.open_distribution("auto")
    assert (distribution.workers, distribution.replicas, distribution.is_chief) == (1, 1, True)
    assert distribution.description == {}
