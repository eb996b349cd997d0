"""What trains more words per core and hour: one run on all cores, or a run on each core; in float32 or in bfloat16.

python -m benchmarks.cores

Trains the large language model. Writes `results/cores.json`.
"""

import multiprocessing
import os
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from threading import Barrier

from benchmarks.contenders import CONTENDERS, Size
from benchmarks.run import SIZES, STEPS_PER_TURN, record

KINDS = {"float32": "training", "bfloat16": "training in bfloat16"}
ROUNDS = 3


def words_per_second(kind: str, runs: list[list[int]], size: Size, steps: int) -> float:
    """Words per second of runs at the same time, all together. `runs` are the cores of each."""
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(len(runs), context) as processes:
        train = partial(speeds, kind, size=size, steps=steps, barrier=manager.Barrier(len(runs)))
        return statistics.median(map(sum, zip(*processes.map(train, runs), strict=True)))


def speeds(kind: str, cores: list[int], size: Size, steps: int, barrier: Barrier) -> list[float]:
    """Words per second of a run in each round of so many steps. All runs begin a round together."""
    os.sched_setaffinity(0, cores)
    work, found = CONTENDERS[kind]["keras-tying"](size), []
    work(steps)
    for _ in range(ROUNDS):
        barrier.wait()
        found.append(size.words * steps / work(steps))
    return found


def main() -> None:
    cores, size, results = sorted(os.sched_getaffinity(0)), SIZES["large"], {}
    ways = {"one run on all cores": [cores], "a run on each core": [[core] for core in cores]}
    for precision, kind in KINDS.items():
        for way, runs in ways.items():
            speed = words_per_second(kind, runs, size, STEPS_PER_TURN["large"])
            results[f"{precision}, {way}"] = {
                "size": asdict(size),
                "words_per_second": round(speed / len(runs), 1),
                "million_words_per_core_hour": round(speed * 3600 / len(cores) / 1e6, 3),
            }
    record("cores", "python -m benchmarks.cores", results)


if __name__ == "__main__":
    main()
