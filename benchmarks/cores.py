"""What trains more words per core and hour: one run on all cores, or a run on each core; in float32 or in bfloat16.

python -m benchmarks.cores

Trains the large language model. Writes `results/cores.json`.
"""

import os
import statistics
from dataclasses import asdict

from benchmarks.measure import Worker
from benchmarks.run import SIZES, STEPS_PER_TURN, record
from benchmarks.work import Size

KINDS = {"float32": "training", "bfloat16": "training in bfloat16"}
ROUNDS = 3


def words_per_second(kind: str, runs: list[list[int]], size: Size, steps: int) -> float:
    """Words per second of runs at the same time, all together. `runs` are the cores of each."""
    workers = [_worker_on(cores, kind, size, steps) for cores in runs]
    found = []
    for _ in range(ROUNDS):
        for worker in workers:
            worker.begin_turn()
        found.append(sum(size.words * steps / worker.end_turn() for worker in workers))
    for worker in workers:
        worker.close()
    return statistics.median(found)


def _worker_on(cores: list[int], kind: str, size: Size, steps: int) -> Worker:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)  # which a process that starts now inherits
    try:
        return Worker(kind, "keras-tying", size, steps)
    finally:
        os.sched_setaffinity(0, before)


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
