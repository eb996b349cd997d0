"""Serves trained models with Ray Serve: REST as TensorFlow Serving answers it, on one machine or on a cluster.

    pip install ".[ray,translation]"
    python deploy/ray_serve.py ptb_small_tied embedded_en_de mine=runs/mine     names of trained models, NAME=FOLDER
    curl -d '{"inputs": {"sentences": ["it works"]}}' http://localhost:8501/v1/models/ptb_small_tied:predict

On a cluster: `ray start --head` on one machine and `ray start --address=HEAD:6379` on the others, then this command
with `--address auto` on one of them. Folders of runs must be the same on all machines.

A gate takes the requests of HTTP and asks a replica of the model, which answers several requests at once. A request
whose replica dies is sent to another replica.
"""

import argparse
import asyncio
import logging
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
from ray import serve
from ray.exceptions import RayActorError, RayError
from ray.serve.exceptions import BackPressureError, RayServeException

APPLICATION = "keras-tying"
ATTEMPTS = 3
"""How many replicas are asked, one after another, if they die."""
MOST_AT_A_REPLICA = 32
"""Requests that a replica holds at least, waiting or computed. With few, Ray asks full replicas again and again."""
LOGS = "/tmp/ray/session_latest/logs/serve"
LIMITS = {"request_bytes": "of the body", "sentences": "rows", "characters": "of a text", "words": "`k` and `length`"}
"""What each of `keras_tying.serving.limits.Limits` limits, for the help."""
LEAST = {"port": 1, "replicas": 1, "cpus": 1, "gates": 1, "batch": 1, "wait_ms": 0, "queue": 1, "timeout": 0}
"""The smallest value of each number that is given."""


@serve.deployment
class Model:
    """A replica of a trained model."""

    def __init__(self, name: str, source: str, limits: dict[str, int], batch: int, wait: float, threads: int):
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(threads)
        from keras_tying.serving.limits import Limits
        from keras_tying.serving.model import ServedModel

        self.served = ServedModel.load(name, source, Limits(**limits))
        self.worker = ThreadPoolExecutor(1)  # requests wait for their batch while it computes
        self.predict.set_max_batch_size(batch)
        self.predict.set_batch_wait_timeout_s(wait)

    @serve.batch
    async def predict(self, bodies: list[bytes]) -> list[tuple[int, bytes]]:
        return await asyncio.get_running_loop().run_in_executor(self.worker, self.served.answer, bodies)

    async def metadata(self, _: bytes) -> tuple[int, bytes]:
        return self.served.metadata


@serve.deployment
class Gate:
    """Takes the requests of HTTP and asks the replicas of the models."""

    def __init__(self, models: dict[str, Any], limits: dict[str, int]):
        import keras_tying_cli  # noqa: F401 - it keeps Keras out of this process
        from keras_tying.serving.limits import Limits
        from keras_tying.serving.service import Service

        self.models = models
        self.service = Service(models, self.ask, Limits(**limits))

    async def __call__(self, request) -> Any:
        from starlette.responses import Response

        length = request.headers.get("content-length")
        reply = await self.service.answer(request.method, request.url.path, request.stream(), length)
        return Response(reply.body, reply.status, media_type="application/json")

    async def ask(self, model: str, action: str, body: bytes) -> Any:
        from keras_tying.serving.replies import Reply, error_reply

        for _ in range(ATTEMPTS):
            try:
                return Reply(*await getattr(self.models[model], action).remote(body))
            except BackPressureError:
                return error_reply(503, f"Too many requests wait for {model}. Ask again later.")
            except RayActorError:
                logging.getLogger("ray.serve").warning(f"A replica of {model} died. Another one is asked.")
        return error_reply(503, f"{ATTEMPTS} replicas of {model} died. Ask again later.")


def application(options: argparse.Namespace) -> serve.Application:
    """The gate and a deployment for each model."""
    limits = asdict(options.limits)
    deployments = {
        name: Model.options(
            name=name,
            num_replicas=options.replicas,
            max_ongoing_requests=max(2 * options.batch, MOST_AT_A_REPLICA),  # one batch computes, the next one gathers
            max_queued_requests=options.queue,
            ray_actor_options={"num_cpus": options.cpus},
        ).bind(name, source, limits, options.batch, options.wait_ms / 1000, options.cpus)
        for name, source in options.models.items()
    }
    gate = Gate.options(num_replicas=options.gates, max_ongoing_requests=10_000, ray_actor_options={"num_cpus": 0})
    return gate.bind(deployments, limits)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    import keras_tying_cli  # noqa: F401 - it keeps Keras out of this process
    from keras_tying.serving.limits import Limits
    from keras_tying.serving.routes import named_sources

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("models", nargs="+", metavar="NAME[=FOLDER]", help="a trained model of the zoo, or a name for a folder")
    add("--address", default="local", help="a cluster of Ray, such as `auto`; default: a new one on this machine")
    add("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 for all (default: %(default)s)")
    add("--port", type=int, default=8501, help="default: %(default)s")
    add("--replicas", type=int, default=1, help="processes per model (default: %(default)s)")
    add("--cpus", type=int, default=1, help="cores per replica (default: %(default)s)")
    add("--gates", type=int, default=1, help="processes that take requests of HTTP (default: %(default)s)")
    add("--batch", type=int, default=16, help="most requests answered at once; 1: no batching (default: %(default)s)")
    add("--wait-ms", type=float, default=2, help="how long a batch waits for requests (default: %(default)s)")
    add("--queue", type=int, default=500, help="most waiting requests per gate and model (default: %(default)s)")
    add("--timeout", type=float, default=60, help="seconds until a request is given up (default: %(default)s)")
    limits = parser.add_argument_group("limits of a request; a larger one is refused with the status 413")
    for field in fields(Limits):
        option = f"--{field.name.replace('_', '-')}"
        limits.add_argument(
            option, type=int, default=field.default, help=f"{LIMITS[field.name]} (default: %(default)s)"
        )
    options = parser.parse_args(arguments)
    for name, least in LEAST.items():
        if not getattr(options, name) >= least:
            option = f"--{name.replace('_', '-')}"
            parser.error(f"{option} must be at least {least}. Received: {getattr(options, name)}")
    if options.port > 65535:
        parser.error(f"--port must be at most 65535. Received: {options.port}")
    try:
        options.limits = Limits(**{field.name: getattr(options, field.name) for field in fields(Limits)})
        options.models = {name: checked_source(each) for name, each in named_sources(options.models).items()}
    except (ValueError, FileNotFoundError) as error:
        parser.error(str(error))
    return options


def checked_source(source: str) -> str:
    """A trained model as a process in any folder finds it: its name in the zoo, or an absolute path.

    Raises:
        ValueError: If there is no model of that name.
        FileNotFoundError: If a folder is neither a run nor a preset.
    """
    from keras_tying.zoo.presets import check_folder, find_preset, model_at

    model = model_at(source)
    if isinstance(model, Path):
        check_folder(model)
        return str(model.absolute())
    find_preset(model)
    return model


def start(options: argparse.Namespace) -> None:
    """Starts the service, on a new cluster or beside the other applications of one that runs.

    Raises:
        SystemExit: If the cluster is not found, or the service runs there already, or does not start.
    """
    own = {"num_cpus": options.cpus * options.replicas * len(options.models), "include_dashboard": False}
    try:
        ray.init(options.address, log_to_driver=False, **(own if options.address == "local" else {}))
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise SystemExit(f"error: Ray did not start or connect at {options.address!r}: {last_line(error)}") from None
    if APPLICATION in serve.status().applications:
        stop = f"import ray; from ray import serve; ray.init('{options.address}'); serve.delete('{APPLICATION}')"
        raise SystemExit(
            f"error: Expected a cluster without the application {APPLICATION}. Received: one with it. Stop it there: "
            f'python -c "{stop}"'
        )
    try:
        serve.start(http_options={"host": options.host, "port": options.port, "request_timeout_s": options.timeout})
        serve.run(application(options), name=APPLICATION)
    except (RuntimeError, TimeoutError, RayError, RayServeException) as error:
        serve.delete(APPLICATION)
        raise SystemExit(f"error: The service did not start: {last_line(error)} Ray's log is in {LOGS}.") from None


def last_line(error: Exception) -> str:
    """The last line of an error: those of Ray end with their cause, after traces of other processes."""
    return str(error).strip().rpartition("\n")[2]


def main() -> None:
    options = parse()
    start(options)
    print(f"Serving {', '.join(options.models)} at http://{options.host}:{options.port}/v1/models", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        signal.pause()
    except KeyboardInterrupt:
        serve.delete(APPLICATION)  # a cluster of one's own ends with this process


if __name__ == "__main__":
    main()
