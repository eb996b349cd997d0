"""The tasks of a Slurm job as workers of TensorFlow.

`tf.distribute.cluster_resolver.SlurmClusterResolver` does this too, but fails where there are no GPUs, gives tasks the
GPUs of other jobs where Slurm hands out some of a machine, and numbers machines in the order of their names (`n10`
before `n2`), which is not the order of the tasks.
"""

import os
import re
import subprocess
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

FIRST_PORT, PORTS_PER_JOB, JOBS = 10_000, 20, 1_000
"""A job listens at ports of its own, so that jobs can share a machine."""


class SlurmTask(NamedTuple):
    """This task and the addresses of all tasks.

    Attributes:
        workers: Address, `host:port`, of each task, in the order of their numbers.
        task_id: Number of this task.
        local_id: Its number among the tasks of its machine.
        local_tasks: Number of tasks on its machine.
    """

    workers: list[str]
    task_id: int
    local_id: int
    local_tasks: int


def slurm_tasks() -> int:
    """Number of tasks of the Slurm job; 0 outside of one.

    Raises:
        ValueError: If `SLURM_NTASKS` is no number.
    """
    return _number("SLURM_NTASKS") if "SLURM_NTASKS" in os.environ else 0


def slurm_task() -> SlurmTask:
    """Reads the variables that `srun` sets.

    Raises:
        ValueError: If one is missing or they do not describe the tasks.
    """
    count, task_id, job = map(_number, ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_JOB_ID"))
    hosts, sizes = _hosts(_text("SLURM_STEP_NODELIST")), _tasks_per_host()
    first = FIRST_PORT + PORTS_PER_JOB * (job % JOBS)
    workers = [f"{host}:{first + i}" for host, size in zip(hosts, sizes, strict=False) for i in range(size)]
    if len(hosts) != len(sizes) or len(workers) != count or task_id >= count:
        raise _problem(f"task {task_id} of {count} tasks does not fit {sizes} tasks on {hosts}")
    if max(sizes) > PORTS_PER_JOB:  # the next ports are those of another job
        raise ValueError(
            f"A machine can have {PORTS_PER_JOB} tasks of a job. Received: {max(sizes)}. Use fewer --ntasks-per-node."
        )
    local_id = int(workers[task_id].rpartition(":")[2]) - first
    return SlurmTask(workers, task_id, local_id, [size for size in sizes for _ in range(size)][task_id])


def gpus_of_task(task: SlurmTask, visible: Sequence[T]) -> Sequence[T]:
    """The GPUs that a task takes of those that it sees.

    Tasks divide the GPUs of the job on their machine, unless Slurm did that, as with `--gpus-per-task`.

    Raises:
        ValueError: If there are fewer GPUs than tasks.
    """
    allocated = _number("SLURM_GPUS_ON_NODE") if "SLURM_GPUS_ON_NODE" in os.environ else len(visible)
    if not visible or task.local_tasks == 1 or len(visible) < allocated:
        return visible
    share = len(visible) // task.local_tasks
    if not share:
        raise ValueError(
            f"Each task of a machine needs a GPU, or none is to be seen (CUDA_VISIBLE_DEVICES=''). "
            f"Received: {task.local_tasks} tasks with {len(visible)} GPUs."
        )
    return visible[task.local_id * share :][:share]


def slurm_resolver(tf: Any) -> Any:
    """The `tf.distribute.cluster_resolver.ClusterResolver` of this task, which sees only its GPUs from now on.

    Raises:
        ValueError: If the variables of Slurm do not describe the tasks, or there are fewer GPUs than tasks.
    """
    task = slurm_task()
    gpus = gpus_of_task(task, tf.config.get_visible_devices("GPU"))
    tf.config.set_visible_devices(gpus, "GPU")
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": task.workers}),
        task_type="worker",
        task_id=task.task_id,
        num_accelerators={"GPU": len(gpus)},
        rpc_layer="grpc",
    )


def _hosts(nodes: str) -> list[str]:
    """The names that a list such as `n[01-03],m5` stands for."""
    if "[" not in nodes:
        return nodes.split(",")
    try:
        process = subprocess.run(["scontrol", "show", "hostnames", nodes], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise _problem(f"scontrol show hostnames '{nodes}' failed ({error})") from None
    return process.stdout.split()


def _tasks_per_host() -> list[int]:
    """The numbers that a list such as `2(x3),1` stands for."""
    text, numbers = _text("SLURM_STEP_TASKS_PER_NODE"), []
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if not found:
            raise _problem(f"SLURM_STEP_TASKS_PER_NODE must be such as '2(x3),1'. Received: {text!r}")
        numbers += [int(found[1])] * int(found[2] or 1)
    return numbers


def _number(variable: str) -> int:
    text = _text(variable)
    if not text.isdecimal():
        what = "the number of tasks of the Slurm job" if variable == "SLURM_NTASKS" else "a number"
        raise ValueError(f"{variable} must be {what}. Received: {text!r}")
    return int(text)


def _text(variable: str) -> str:
    if variable not in os.environ:
        raise _problem(f"{variable} is not set; start the tasks with srun")
    return os.environ[variable]


def _problem(what: str) -> ValueError:
    return ValueError(f"The variables of the Slurm job do not describe its tasks: {what}.")
