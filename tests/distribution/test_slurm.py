"""Slurm: the variables of a job name its workers, and a real cluster of this machine pre-empts and kills its tasks."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_tying.distribution.slurm import SlurmTask, gpus_of_task, slurm_task

REPOSITORY = Path(__file__).parents[2]
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol")
VARIABLES = {
    "SLURM_JOB_ID": "4007",
    "SLURM_PROCID": "2",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_STEP_NODELIST": "n1,n10",
    "SLURM_STEP_TASKS_PER_NODE": "2,3",
}


@pytest.fixture
def job(monkeypatch):
    """Sets the variables of a job, with some changed or, if None, removed."""

    def set_variables(**changes):
        for name, value in {**VARIABLES, "SLURM_GPUS_ON_NODE": None, **changes}.items():
            monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)

    return set_variables


def test_tasks_without_ports_of_their_own_are_refused(job):
    job(SLURM_STEP_TASKS_PER_NODE="2,21", SLURM_STEP_NUM_TASKS="23")
    with pytest.raises(ValueError, match=r"can have 20 tasks of a job\. Received: 21\. Use fewer --ntasks-per-node"):
        slurm_task()


def test_tasks_are_numbered_machine_by_machine(job):
    job()
    workers = ["n1:10140", "n1:10141", "n10:10140", "n10:10141", "n10:10142"]
    assert slurm_task() == SlurmTask(workers, task_id=2, local_id=0, local_tasks=3)
    job(SLURM_STEP_TASKS_PER_NODE="1(x2)", SLURM_STEP_NUM_TASKS="2", SLURM_PROCID="1")
    assert slurm_task() == SlurmTask(["n1:10140", "n10:10140"], task_id=1, local_id=0, local_tasks=1)


@pytest.mark.skipif(not shutil.which("scontrol"), reason="needs Slurm's scontrol on the PATH")
def test_ranges_of_machines_keep_the_order_of_slurm(job, tmp_path, monkeypatch):
    (tmp_path / "slurm.conf").write_text("ClusterName=any\nSlurmctldHost=any\n")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    job(SLURM_STEP_NODELIST="n[2,8-10]", SLURM_STEP_TASKS_PER_NODE="1(x4)", SLURM_STEP_NUM_TASKS="4")
    assert slurm_task().workers == ["n2:10140", "n8:10140", "n9:10140", "n10:10140"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"SLURM_PROCID": None}, "SLURM_PROCID is not set; start the tasks with srun"),
        ({"SLURM_PROCID": "x"}, "SLURM_PROCID must be a number. Received: 'x'"),
        ({"SLURM_PROCID": "5"}, "task 5 of 5 tasks does not fit"),
        ({"SLURM_STEP_NUM_TASKS": "4"}, "task 2 of 4 tasks does not fit"),
        ({"SLURM_STEP_TASKS_PER_NODE": "2"}, "does not fit"),
        ({"SLURM_STEP_TASKS_PER_NODE": "2x3"}, "must be such as '2\\(x3\\),1'. Received: '2x3'"),
        ({"SLURM_STEP_NODELIST": "n[1-2]", "PATH": ""}, r"scontrol show hostnames 'n\[1-2\]' failed"),
    ],
)
def test_variables_that_do_not_describe_the_tasks_are_shown(job, changes, message):
    job(**changes)
    with pytest.raises(ValueError, match=message):
        slurm_task()


@pytest.mark.parametrize(
    ("visible", "allocated", "expected"),
    [
        ([], None, [[], []]),
        ([], "0", [[], []]),
        (["a", "b", "c", "d"], "4", [["a", "b"], ["c", "d"]]),  # --gpus-per-node=4
        (["a", "b"], None, [["a"], ["b"]]),  # a cluster that does not manage GPUs
        (["a"], "2", [["a"], ["a"]]),  # --gpus-per-task=1: Slurm shows each task another GPU
    ],
)
def test_tasks_of_a_machine_divide_its_gpus(job, visible, allocated, expected):
    job(SLURM_GPUS_ON_NODE=allocated)
    tasks = [SlurmTask(["n:1", "n:2"], i, i, 2) for i in range(2)]
    assert [gpus_of_task(task, visible) for task in tasks] == expected


def test_the_only_task_of_a_machine_takes_all_its_gpus(job):
    job(SLURM_GPUS_ON_NODE="2")
    assert gpus_of_task(SlurmTask(["n:1", "m:1"], 0, 0, 1), ["a", "b"]) == ["a", "b"]


def test_fewer_gpus_than_tasks_are_an_error(job):
    job(SLURM_GPUS_ON_NODE="1")
    with pytest.raises(ValueError, match=r"Each task of a machine needs a GPU.* Received: 2 tasks with 1 GPUs"):
        gpus_of_task(SlurmTask(["n:1", "n:2"], 0, 0, 2), ["a"])


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Runs commands on a Slurm cluster of this machine; returns what they print."""
    script, folder = REPOSITORY / "deploy" / "slurm_here.sh", tmp_path / "slurm"
    subprocess.run([script, "up", folder], check=True)
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")

    def run(*command):
        return subprocess.run(map(str, command), cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout

    yield run
    subprocess.run(["scancel", "--full", "--state=RUNNING"], check=False)
    subprocess.run(["scancel", "--state=PENDING"], check=False)
    time.sleep(2)
    subprocess.run([script, "down", folder], check=True)


TINY = ["model.arguments.units=8", "model.arguments.num_layers=1", "optimisation.batch_size=4", "optimisation.epochs=1"]


class Job:
    """A training as a job of two tasks."""

    def __init__(self, slurm, folder, output, *changes):
        self.slurm, self.folder = slurm, folder
        changes = [*TINY, *changes]
        options = ["--run", folder, "--recipe", "embedded_small_tied", "--set", *changes, "--checkpoint-minutes", "0"]
        submitted = slurm("sbatch", "--parsable", "--ntasks=2", f"--output={output}", "deploy/slurm.sh", *options)
        self.number = submitted.strip()

    def wait(self, reached, what, minutes=5.0):
        deadline = time.monotonic() + 60 * minutes
        while not reached():
            assert time.monotonic() < deadline, f"not within {minutes} minutes: {what}"
            time.sleep(0.2)

    def state(self):
        return dict(
            part.split("=", 1)
            for part in self.slurm("scontrol", "--oneliner", "show", "job", self.number).split()
            if "=" in part
        )

    def wait_for_checkpoint(self, count):
        """Waits for `count` more checkpoints."""
        index = self.folder / "checkpoints" / "index.json"
        before = json.loads(index.read_text())[-1]["number"] if index.exists() else 0
        self.wait(
            lambda: index.exists() and json.loads(index.read_text())[-1]["number"] >= before + count, "a checkpoint"
        )

    def start_again(self, restarts):
        """Waits until Slurm has queued the job again, and spares it the two minutes that it would wait."""
        self.wait(
            lambda: self.state()["Restarts"] == str(restarts) and self.state()["Reason"] == "BeginTime", "a requeue"
        )
        self.slurm("scontrol", "update", f"JobId={self.number}", "StartTime=now")

    def training_of_task(self, number):
        """The process that trains as a task: the child of the task's shell."""
        lines = [line.split() for line in self.slurm("scontrol", "listpids", f"{self.number}.0").splitlines()[1:]]
        (shell,) = (line[0] for line in lines if line[3] == number)
        return int(subprocess.run(["pgrep", "-P", shell], check=True, capture_output=True, text=True).stdout)

    def wait_for_end(self):
        self.wait(lambda: self.state()["JobState"] not in ("PENDING", "RUNNING", "COMPLETING"), "the end")
        return self.state()["JobState"]


@pytest.mark.slow
@pytest.mark.skipif(not all(map(shutil.which, PROGRAMS)), reason="needs Debian's packages slurm-wlm and munge")
def test_a_job_that_was_preempted_and_lost_a_task_ends_like_an_undisturbed_one(slurm, tmp_path):
    output = tmp_path / "disturbed.out"
    job = Job(slurm, tmp_path / "disturbed", output)
    job.wait_for_checkpoint(1)
    slurm("sbatch", "--partition=high", "--ntasks=2", "--output=/dev/null", "--wrap", "sleep 1")
    job.start_again(1)
    assert "Stopped by SIGTERM; saved checkpoint" in output.read_text()
    job.wait_for_checkpoint(2)
    os.kill(job.training_of_task("1"), signal.SIGKILL)
    job.start_again(2)
    assert "task 1: Exited with exit code 137" in output.read_text()
    assert job.wait_for_end() == "COMPLETED"

    undisturbed = Job(slurm, tmp_path / "undisturbed", tmp_path / "undisturbed.out")
    assert undisturbed.wait_for_end() == "COMPLETED"
    models = [keras.saving.load_model(each.folder / "model.keras") for each in (undisturbed, job)]
    for expected, received in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_array_equal(received, expected)


@pytest.mark.slow
@pytest.mark.skipif(not all(map(shutil.which, PROGRAMS)), reason="needs Debian's packages slurm-wlm and munge")
def test_a_job_whose_chief_refuses_its_settings_is_not_queued_again(slurm, tmp_path):
    job = Job(slurm, tmp_path / "run", tmp_path / "out", "data.vocabulary_size=999999")
    assert job.wait_for_end() == "FAILED"
    assert "made for 999,999 words" in (tmp_path / "out").read_text()
    assert job.state()["Restarts"] == "0"


@pytest.mark.slow
@pytest.mark.skipif(not all(map(shutil.which, PROGRAMS)), reason="needs Debian's packages slurm-wlm and munge")
def test_a_cancelled_job_is_not_queued_again(slurm, tmp_path):
    job = Job(slurm, tmp_path / "run", tmp_path / "out")
    job.wait_for_checkpoint(1)
    slurm("scancel", job.number)
    assert job.wait_for_end() == "CANCELLED"
