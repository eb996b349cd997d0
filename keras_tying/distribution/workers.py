"""The workers of a cluster: the addresses in `TF_CONFIG`, waiting until all have come up, errors if one is lost."""

import errno
import os
import socket
import sys
import time
from typing import Any

from keras_tying.errors import WorkersMissing
from keras_tying.tables import parse_json


def workers_of_tf_config() -> int:
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
