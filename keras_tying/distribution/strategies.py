"""Strategies: training on one device, several devices of a machine, or several machines."""

import errno
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

from keras_tying.distribution.slurm import slurm_resolver, slurm_tasks
from keras_tying.tables import parse_json

T = TypeVar("T")

STRATEGIES = ("auto", "one", "mirrored", "multiworker")
DEFAULT_WAIT_MINUTES = 10.0
RESUMABLE = 75
"""Exit code of a process whose run can be continued by the same command (EX_TEMPFAIL)."""


class Distribution:
    """The replicas of a model, and the workers (processes, perhaps on several machines) that hold them.

    Attributes:
        strategy: The `tf.distribute.Strategy`, or `None` for one replica.
        workers: Number of workers.
        is_chief: Whether this process writes the files and prints.
    """

    def __init__(self, strategy: Any = None):
        self.strategy = strategy
        self.workers, self.is_chief = 1, True
        if getattr(strategy, "cluster_resolver", None) is not None:
            from keras_tying.backend.tensorflow.replicas import is_chief_of

            jobs = strategy.cluster_resolver.cluster_spec().as_dict()
            self.workers = max(sum(map(len, jobs.values())), 1)
            self.is_chief = is_chief_of(strategy)

    @property
    def replicas(self) -> int:
        return 1 if self.strategy is None else self.strategy.num_replicas_in_sync

    @property
    def description(self) -> dict[str, Any]:
        """The entries of `results.json` about it: none for one replica."""
        if self.replicas == 1:
            return {}
        return {"strategy": type(self.strategy).__name__, "workers": self.workers, "replicas": self.replicas}

    def scope(self):
        """The context in which a model must be made."""
        return nullcontext() if self.strategy is None else self.strategy.scope()

    def chief_first(self, chiefs: Callable[[], T], others: Callable[[], T]) -> T:
        """Calls `chiefs` on the chief and then `others` on the other workers. Returns the result."""
        made = chiefs() if self.is_chief else None
        self.meet()
        return others() if made is None else made

    def meet(self) -> None:
        """Waits until all workers have called this."""
        if self.workers > 1:
            from keras_tying.backend.tensorflow.replicas import sum_over_workers_of

            sum_over_workers_of(self.strategy, [1.0])


def open_distribution(
    strategy: str = "auto", replicas: int | None = None, wait_minutes: float | None = None
) -> Distribution:
    """Sets up the devices that a run trains on. Must be called before anything is computed.

    Args:
        strategy: `"one"` device; `"mirrored"`: all GPUs of this machine, or parts of its CPU;
            `"multiworker"`: the workers that `TF_CONFIG` names, or the tasks of a Slurm job; `"auto"`: the workers,
            where several are named, or else one device.
        replicas: With `"mirrored"`, how many GPUs, or parts of the CPU where there are no GPUs.
            Default: all GPUs, or a part a core.
        wait_minutes: With several workers, how long to wait for those that have not come up. Default: 10.

    Raises:
        ValueError: If there is not what was asked for.
        WorkersMissing: If workers have not come up in time.
    """
    strategy = resolve_strategy(strategy, replicas, wait_minutes)
    if strategy == "one":
        return Distribution()
    from keras_tying import backend

    if not backend.HAS_STRATEGIES:
        raise ValueError(f"--strategy {strategy} needs the TensorFlow backend. Received: KERAS_BACKEND={backend.NAME}")
    import tensorflow as tf

    if strategy == "mirrored":
        return Distribution(tf.distribute.MirroredStrategy(_devices(tf, replicas)))
    resolver = _cluster(tf)
    wait_for_workers(
        resolver.cluster_spec().as_dict(),
        resolver.task_type,
        resolver.task_id,
        DEFAULT_WAIT_MINUTES if wait_minutes is None else wait_minutes,
    )
    return Distribution(tf.distribute.MultiWorkerMirroredStrategy(resolver))


def resolve_strategy(strategy: str, replicas: int | None, wait_minutes: float | None) -> str:
    """The strategy that `open_distribution` opens: `"auto"` becomes another one. For arguments and errors see there."""
    if strategy not in STRATEGIES:
        raise ValueError(f"`strategy` must be one of {STRATEGIES}. Received: {strategy!r}")
    if strategy == "auto":
        strategy = "multiworker" if _workers_of_tf_config() > 1 or slurm_tasks() > 1 else "one"
    if replicas is not None and (strategy != "mirrored" or replicas < 1):
        raise ValueError(f"--replicas needs --strategy mirrored and a positive number. Received: --replicas {replicas}")
    if wait_minutes is not None and strategy != "multiworker":
        raise ValueError(
            f"--wait-minutes needs several workers, see --strategy multiworker. Received: --wait-minutes "
            f"{wait_minutes:g} with the strategy {strategy}"
        )
    if strategy == "multiworker" and not _workers_of_tf_config() and not slurm_tasks():
        raise ValueError(
            "--strategy multiworker needs to know the workers: set TF_CONFIG, start it under Slurm, or try it on this "
            "machine with keras-tying cluster. Received neither TF_CONFIG nor SLURM_NTASKS."
        )
    return strategy


def _workers_of_tf_config() -> int:
    """Number of workers that `TF_CONFIG` names; 0 without it.

    Raises:
        ValueError: If it has another shape than `tf.distribute` documents, or its task is none of its workers.
    """
    text = os.environ.get("TF_CONFIG", "")
    if not text:
        return 0

    def problem(what: str) -> ValueError:
        return ValueError(
            f"TF_CONFIG must be a JSON object with the tables `cluster` and `task`, see docs/distributed.md: {what}. "
            f"Received: {text}"
        )

    try:
        config = parse_json(text)
    except ValueError as error:
        raise problem(f"it is not JSON ({error})") from None
    if not isinstance(config, dict) or not isinstance(config.get("cluster", {}), dict):
        raise problem("it or its `cluster` is no object")
    cluster, task = config.get("cluster", {}), config.get("task")
    for job, addresses in cluster.items():
        if not isinstance(addresses, list) or not all(map(_is_address, addresses)):
            raise problem(f"the job {job!r} must be a list of addresses such as 'host:2222'")
    if not cluster:
        return 0
    if not isinstance(task, dict) or not isinstance(task.get("type"), str) or not str(task.get("index")).isdecimal():
        raise problem("`task` must have a `type` and an `index`")
    if int(task["index"]) >= len(cluster.get(task["type"], ())):
        raise problem(f"`cluster` has no {task['type']} {task['index']}")
    return sum(len(addresses) for job, addresses in cluster.items() if job in ("chief", "worker"))


def _is_address(address: Any) -> bool:
    if not isinstance(address, str):
        return False
    host, _, port = address.rpartition(":")
    return bool(host) and port.isdecimal() and 0 < int(port) < 65536


def usable_cores() -> int:
    """Cores that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _devices(tf, replicas: int | None) -> list[str]:
    """Names of the devices of a mirrored strategy."""
    gpus = len(tf.config.list_physical_devices("GPU"))
    if gpus:
        if replicas is not None and replicas > gpus:
            raise ValueError(f"There are {gpus} GPUs here. Received: --replicas {replicas}")
        return [f"GPU:{i}" for i in range(replicas or gpus)]
    parts = replicas or usable_cores()
    processor = tf.config.list_physical_devices("CPU")[0]
    if len(tf.config.get_logical_device_configuration(processor) or ()) != parts:
        tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * parts)
    return [f"CPU:{i}" for i in range(parts)]


def _cluster(tf):
    if _workers_of_tf_config():
        return tf.distribute.cluster_resolver.TFConfigClusterResolver()
    return slurm_resolver(tf)


class WorkersMissing(TimeoutError):
    """Workers of the cluster have not come up."""


def wait_for_workers(cluster: dict[str, list[str]], job: str, task: int, minutes: float) -> None:
    """Waits until every worker listens at its address; TensorFlow, which waits for ever, is started after.

    Args:
        cluster: Addresses, `host:port`, of each job's tasks.
        job: This worker's.
        task: Its number.
        minutes: How long to wait.

    Raises:
        WorkersMissing: If some do not; it names them.
        OSError: If another process listens at this worker's port.
    """
    missing = {f"{name} {i}": address for name, tasks in cluster.items() for i, address in enumerate(tasks)}
    own = missing.pop(f"{job} {task}")
    deadline = time.monotonic() + 60 * minutes
    with _listening(own, len(missing) + 1):  # so that the others find this one
        while missing:
            missing = {name: address for name, address in missing.items() if not _answers(address)}
            if missing and time.monotonic() > deadline:
                break
            time.sleep(0.1)
    if missing:
        raise WorkersMissing(
            f"After {minutes:g} minutes {', '.join(f'{name} at {address}' for name, address in missing.items())} "
            "cannot be reached. Start all workers with the same cluster; their ports must be open to each other."
        )


def _listening(address: str, waiting: int) -> socket.socket:
    """A socket at a worker's own port."""
    try:
        family = socket.AF_INET6 if address.startswith("[") else socket.AF_INET
        return socket.create_server(("", _port(address)), family=family, backlog=waiting)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise OSError(
            errno.EADDRINUSE,
            f"Another process listens at {address}, the address of this worker. Start each worker once, or stop the "
            "other process.",
        ) from None


def _host(address: str) -> str:
    """The host of an address, without the brackets around one of IPv6."""
    return address.rpartition(":")[0].removeprefix("[").removesuffix("]")


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def _answers(address: str) -> bool:
    try:
        socket.create_connection((_host(address), _port(address)), timeout=1).close()
    except OSError:
        return False
    return True


def errors_of_lost_workers() -> tuple[type[Exception], ...]:
    """What TensorFlow raises where a worker does not answer any more."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None:
        return ()
    errors = tensorflow.errors
    return errors.UnavailableError, errors.AbortedError, errors.DeadlineExceededError, errors.CancelledError
