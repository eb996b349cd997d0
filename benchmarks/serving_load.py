"""Measures deploy/ray_serve.py under load: speed, a replica that is killed, memory.

python -m benchmarks.serving_load speed       sentences per second and latency with 1, 8 and 64 clients: minutes
python -m benchmarks.serving_load killed      a replica is killed under load: a minute
python -m benchmarks.serving_load memory      memory over 100,000 requests

Each client sends its next request when it has the answer to the last one. A request has one sentence. Clients and
replicas share the machine. Writes `results/serving_PART.json`. Needs the extras `bench` and `ray`.
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.run import RESULTS
from keras_tying.data.embedded import python_reference
from keras_tying.data.phrases import phrase_pairs
from keras_tying.training import environment
from studies.results import write_results

MEBIBYTE = 2**20
PORT = 8765
LANGUAGE_MODEL, TRANSLATOR = "ptb_small_tied", "embedded_en_de"
REPLICAS = 2
MODES = {"batched": ["--batch", "16", "--wait-ms", "2"], "one by one": ["--batch", "1", "--wait-ms", "0"]}
CLIENTS = (1, 8, 64)
WORDS = 20
"""Words of a sentence that is scored; longer ones are cut."""
NO_ANSWER = 0
"""The status of a request that got no answer: the connection was closed."""


class Query(NamedTuple):
    """A request: the model and the content of JSON."""

    model: str
    content: dict[str, Any]


class Answer(NamedTuple):
    """When an answer came, after how many seconds, its status, its content, and which query it answers."""

    at: float
    seconds: float
    status: int
    content: Any
    query: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["speed", "killed", "memory"])
    parser.add_argument("--seconds", type=float, default=6, help="of each measurement of speed (default: %(default)s)")
    parser.add_argument("--requests", type=int, default=100_000, help="of the part memory (default: %(default)s)")
    options = parser.parse_args()
    used = {"speed": f" --seconds {options.seconds:g}", "memory": f" --requests {options.requests}"}
    load_before = os.getloadavg()[0]
    results = {"speed": speed, "killed": killed, "memory": memory}[options.part](options)
    about = environment()
    about["versions"] |= {"ray": metadata.version("ray")}
    command = f"python -m benchmarks.serving_load {options.part}{used.get(options.part, '')}"
    found = {**about, "command": command, "load_average_before": load_before, "results": results}
    write_results(RESULTS / f"serving_{options.part}.json", found, keep_earlier=True)


def queries() -> dict[str, list[Query]]:
    """The requests of each task."""
    sentences = [" ".join(text.split()[:WORDS]) for text in python_reference()["test"]][:200]
    phrases = [source for source, _ in phrase_pairs("en", "de")["test"]][:200]
    return {
        "scoring": [Query(LANGUAGE_MODEL, {"inputs": [text]}) for text in sentences],
        "next words": [
            Query(LANGUAGE_MODEL, {"signature_name": "next_word", "inputs": {"prefix": [text], "k": 5}})
            for text in sentences
        ],
        "translation": [Query(TRANSLATOR, {"inputs": [text]}) for text in phrases],
    }


def speed(options: argparse.Namespace) -> dict:
    """Sentences per second and latencies, by mode, task and number of clients."""
    results: dict[str, Any] = {"replicas": REPLICAS, "modes": MODES}
    for mode, arguments in MODES.items():
        with served([LANGUAGE_MODEL, TRANSLATOR], arguments):
            for task, asked in queries().items():
                asyncio.run(load(asked, 8, lambda answers, at: at > 2))
                for clients in CLIENTS:
                    answers = asyncio.run(load(asked, clients, lambda answers, at: at > options.seconds))
                    found = summary(answers)
                    results.setdefault(task, {}).setdefault(mode, {})[str(clients)] = found
                    print(task, mode, clients, found, flush=True)
    return results


def summary(answers: list[Answer]) -> dict:
    """Speed and latencies of a measurement."""
    seconds = np.array([each.seconds for each in answers])
    duration = max(each.at for each in answers) - min(each.at - each.seconds for each in answers)
    return {
        "requests": len(answers),
        "sentences_per_second": round(len(answers) / duration, 1),
        "p50_milliseconds": round(1e3 * float(np.quantile(seconds, 0.5)), 1),
        "p99_milliseconds": round(1e3 * float(np.quantile(seconds, 0.99)), 1),
        "statuses": statuses(answers),
    }


def statuses(answers: list[Answer]) -> dict[str, int]:
    """How many answers have each status."""
    return {str(status): count for status, count in sorted(Counter(each.status for each in answers).items())}


def killed(options: argparse.Namespace) -> dict:
    """Kills a replica of a model, and later the gate, while 16 clients ask; compares the answers with those before."""
    duration, events = 50.0, [(10.0, LANGUAGE_MODEL), (30.0, "Gate")]
    with served([LANGUAGE_MODEL], [*MODES["batched"], "--gates", "2"]) as server:
        asked = queries()["scoring"]
        before = asyncio.run(load(asked, 1, lambda answers, at: len(answers) >= len(asked)))
        expected = {each.query: each.content["outputs"]["log_probability"] for each in before}
        done: list[list] = []

        def until(answers: list[Answer], at: float) -> bool:
            for when, name in events[len(done) : len(done) + 1]:
                if at > when:
                    victim = random.Random(0).choice(replicas(server, name))
                    victim.send_signal(signal.SIGKILL)
                    done.append([round(at, 2), name])
            return at > duration

        answers = asyncio.run(load(asked, 16, until))
    right = [
        each.status == 200 and np.allclose(each.content["outputs"]["log_probability"], expected[each.query], rtol=1e-3)
        for each in answers
    ]
    periods = np.array([sum(each.at >= at for at, _ in done) for each in answers])
    return {
        "clients": 16,
        "replicas": REPLICAS,
        "gates": 2,
        "killed": done,
        "requests": len(answers),
        "answered_as_before": int(np.sum(right)),
        "answered_otherwise": sum(each.status == 200 for each in answers) - int(np.sum(right)),
        "statuses": statuses(answers),
        "statuses_after": {
            name: statuses([each for each, p in zip(answers, periods, strict=True) if p == period])
            for period, name in enumerate(["start", *(f"{name} killed" for _, name in done)])
        },
        "errors": sorted({str(each.content)[:200] for each in answers if each.status != 200}),
        "longest_seconds": round(max(each.seconds for each in answers), 2),
        "answers_per_second": np.bincount([int(each.at) for each in answers if each.status == 200]).tolist(),
    }


def memory(options: argparse.Namespace) -> dict:
    """Resident memory of each process while 16 clients send requests."""
    samples: list[list] = []
    with served([LANGUAGE_MODEL], MODES["batched"]) as server:
        asked, last = queries()["scoring"], [0.0]

        def until(answers: list[Answer], at: float) -> bool:
            if at - last[0] > 2:
                last[0] = at
                samples.append([len(answers), round(at, 1), resident(server)])
            return len(answers) >= options.requests

        answers = asyncio.run(load(asked, 16, until))
    names = sorted(set.intersection(*(set(each) for _, _, each in samples)))
    rows = [[count, at, {name: each[name] for name in names}] for count, at, each in samples]
    return {
        "clients": 16,
        "replicas": REPLICAS,
        "requests": len(answers),
        "statuses": statuses(answers),
        "minutes": round(rows[-1][1] / 60, 1),
        "growth_mebibytes_per_100000_requests": {name: growth(rows, name) for name in names},
        "memory": rows[:: max(1, len(rows) // 150)],
    }


def growth(samples: list[list], name: str) -> float:
    """Growth of the memory of a process in MiB per 100,000 requests, after the first fifth of the requests."""
    points = [(count / 1e5, each[name]) for count, _, each in samples if count > samples[-1][0] / 5]
    return round(statistics.linear_regression(*zip(*points, strict=True)).slope, 1)


def resident(server: Any) -> dict[str, int]:
    """Resident memory in MiB of the processes of a server, by name and number."""
    found = {}
    for process in server.children(recursive=True):
        name = re.match(r"ray::([\w:-]+)", " ".join(process.cmdline()))  # a busy one also has the name of its method
        if name:
            found[f"{name[1]} {process.pid}"] = round(process.memory_info().rss / MEBIBYTE)
    return found


def replicas(server: Any, name: str) -> list[Any]:
    """The processes of the replicas of a deployment."""
    process = re.compile(rf"ray::\w+:[\w-]+:{name}\b")  # a busy one also has the name of its method
    return [each for each in server.children(recursive=True) if process.match(" ".join(each.cmdline()))]


@contextmanager
def served(models: list[str], arguments: list[str]) -> Iterator[Any]:
    """Starts deploy/ray_serve.py. Gives its process, as psutil has it, when it serves."""
    import psutil

    options = ["--port", str(PORT), "--replicas", str(REPLICAS), *arguments]
    command = [sys.executable, str(Path("deploy", "ray_serve.py")), *models, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        if not any(line.startswith("Serving ") for line in process.stdout):
            raise RuntimeError(f"{' '.join(command)} ended with {process.wait()}.")
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


async def load(asked: list[Query], clients: int, until: Callable[[list[Answer], float], bool]) -> list[Answer]:
    """Asks until a function of the answers and of the seconds since the start is true."""
    import aiohttp

    answers: list[Answer] = []
    started = time.perf_counter()

    async def client(number: int, session: aiohttp.ClientSession) -> None:
        place = number * len(asked) // clients
        while not until(answers, time.perf_counter() - started):
            sent, number = time.perf_counter(), place % len(asked)
            status, content = await ask(session, asked[number])
            now = time.perf_counter()
            answers.append(Answer(now - started, now - sent, status, content, number))
            place += 1

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=clients)) as session:
        await asyncio.gather(*(client(number, session) for number in range(clients)))
    return answers


async def ask(session: Any, query: Query) -> tuple[int, Any]:
    """The status and the content of an answer."""
    import aiohttp

    try:
        address = f"http://127.0.0.1:{PORT}/v1/models/{query.model}:predict"
        async with session.post(address, json=query.content) as answer:
            text = await answer.text()
    except aiohttp.ClientError as error:
        return NO_ANSWER, repr(error)
    try:
        return answer.status, json.loads(text)
    except ValueError:
        return answer.status, text


if __name__ == "__main__":
    main()
