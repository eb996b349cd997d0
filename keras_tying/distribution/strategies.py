"""Strategies: training on one device, several devices of a machine, or several machines."""

import os
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

from keras_tying.distribution.slurm import slurm_resolver, slurm_tasks
from keras_tying.distribution.workers import wait_for_workers, workers_of_tf_config

T = TypeVar("T")

STRATEGIES = ("auto", "one", "mirrored", "multiworker")
DEFAULT_WAIT_MINUTES = 10.0


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

    def on_chief(self, work: Callable[[], Any]) -> None:
        """Calls a function on the chief. The other workers wait for it."""
        if self.is_chief:
            work()
        self.meet()

    def chief_first(self, chiefs: Callable[[], T], others: Callable[[], T]) -> T:
        """Calls `chiefs` on the chief and then `others` on the other workers. Returns the result."""
        if self.is_chief:
            made = chiefs()
            self.meet()
            return made
        self.meet()
        return others()

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
        strategy = "multiworker" if workers_of_tf_config() > 1 or slurm_tasks() > 1 else "one"
    if replicas is not None and (strategy != "mirrored" or replicas < 1):
        raise ValueError(f"--replicas needs --strategy mirrored and a positive number. Received: --replicas {replicas}")
    if wait_minutes is not None and strategy != "multiworker":
        raise ValueError(
            f"--wait-minutes needs several workers, see --strategy multiworker. Received: --wait-minutes "
            f"{wait_minutes:g} with the strategy {strategy}"
        )
    if strategy == "multiworker" and not workers_of_tf_config() and not slurm_tasks():
        raise ValueError(
            "--strategy multiworker needs to know the workers: set TF_CONFIG, start it under Slurm, or try it on this "
            "machine with keras-tying cluster. Received neither TF_CONFIG nor SLURM_NTASKS."
        )
    return strategy


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
    if workers_of_tf_config():
        return tf.distribute.cluster_resolver.TFConfigClusterResolver()
    return slurm_resolver(tf)
