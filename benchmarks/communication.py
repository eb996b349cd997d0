"""What replicas tell each other, and what it costs: bytes and seconds a step, tied and untied.

python -m benchmarks.communication             1, 2 and 4 workers on this machine, some minutes

Writes `results/communication.json` and `results/communication.png`. Bytes are those that the loopback interface
counts, so nothing else should use it. How steps are predicted: see `benchmarks/step_time.py`.
"""

import argparse
import json
import re
import subprocess
import sys
import time

import numpy as np

from benchmarks.run import RESULTS
from benchmarks.step_time import draw, fit_network, predict
from keras_tying.files import write_atomically
from keras_tying.training import Distribution, environment, open_distribution

WORKERS = 1, 2, 4
VARIANTS = "tied", "untied", "untied, rows"
ALONE = {"tied": "tied, alone", "untied": "untied, alone", "untied, rows": "untied, alone"}
"""The same steps of as many workers at the same time, which tell each other nothing: then there are no rows to tell."""
ROWS, STEPS, VOCABULARY, UNITS = 20, 20, 10_000, 200
"""Of each worker; the size is that of `ptb_small`."""
STEPS_BEFORE, STEPS_OF_A_TURN, TURNS = 20, 20, 4
SIZES = tuple(2**power for power in (10, 18, 20, 22, 24))
"""Bytes that are added up over workers, to measure what the network does."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1, help="of workers that take four turns each")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        return work(arguments.work)
    measured: dict[int, dict[str, list]] = {workers: {} for workers in WORKERS}
    for _ in range(arguments.rounds):
        for workers in WORKERS:
            together = (*VARIANTS, "sums") if workers > 1 else ()
            for kind in (*dict.fromkeys(ALONE.values()), *together):
                measured[workers].setdefault(kind, []).append(run(workers, kind))
                print(workers, kind, measured[workers][kind][-1], flush=True)
    results = {
        **environment(),
        "command": f"python -m benchmarks.communication --rounds {arguments.rounds}",
        "rows_of_a_worker": ROWS,
        "steps": STEPS,
        "vocabulary": VOCABULARY,
        "units": UNITS,
        **summarised(measured),
    }
    write_atomically(RESULTS / "communication.json", (json.dumps(results, indent=1) + "\n").encode())
    draw(results, RESULTS / "communication.png")


def summarised(measured: dict[int, dict[str, list]]) -> dict:
    """Medians, the network that was fitted to the sums, and what it predicts of steps."""
    sums = [row for workers in WORKERS[1:] for each in measured[workers]["sums"] for row in each]
    network = fit_network(sums)
    steps: dict[str, dict] = {}
    for variant in VARIANTS:
        for workers in WORKERS:
            alone = measured[workers][ALONE[variant]]
            runs = measured[workers].get(variant, alone)
            row = {
                "bytes_sent_a_step": round(float(np.median([run["bytes"] for run in runs]))),
                "seconds_a_step": round(float(np.median([run["seconds"] for run in runs])), 4),
                "seconds_a_step_alone": round(float(np.median([run["seconds"] for run in alone])), 4),
            }
            predicted = predict(variant, workers, row["seconds_a_step_alone"], network, runs[0]["parameters"])
            steps.setdefault(variant, {})[workers] = {**row, **predicted}
    return {"network": network, "steps_of": steps}


def run(workers: int, kind: str) -> dict | list:
    """What the first of so many workers measures."""
    command = [sys.executable, "-m", "keras_tying.training.local_cluster", "--workers", str(workers), "--"]
    command += ["-m", "benchmarks.communication", "--work", kind]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300)
    found = re.search(r"^\[0\] measured (.*)$", finished.stdout, re.MULTILINE)
    if finished.returncode or not found:
        raise RuntimeError(f"{kind} with {workers} workers ended with {finished.returncode}: {finished.stdout}")
    return json.loads(found[1])


# In a worker


def work(kind: str) -> None:
    distribution = open_distribution("auto")
    measure = sums if kind == "sums" else steps_of
    print("measured", json.dumps(measure(distribution, kind)), flush=True)
    distribution.meet()


def steps_of(distribution: Distribution, kind: str) -> dict:
    """Seconds and bytes of a step of training."""
    import keras_tying as kt
    from keras_tying.backend.tensorflow import lookup

    lookup.rows_are_less = lambda ids, vocabulary_size: kind.endswith("rows")
    shared = distribution if not kind.endswith("alone") else Distribution()
    batch = ROWS * shared.replicas
    with shared.scope():
        model = kt.zoo.recurrent_language_model(VOCABULARY, UNITS, tied=kind.startswith("tied"))
        model.carry_state(batch)
        model.compile(kt.optimizers.ClippedSGD(), steps_per_execution=STEPS_BEFORE)
    ids = np.random.default_rng(0).integers(0, VOCABULARY, (2, STEPS_OF_A_TURN * batch, STEPS), np.int32)

    def train(steps: int) -> None:
        model.fit(*ids[:, : steps * batch], batch_size=batch, shuffle=False, verbose=0)

    train(STEPS_BEFORE)
    seconds, sent = [], []
    for _ in range(TURNS):
        distribution.meet()
        before, started = bytes_sent(), time.perf_counter()
        train(STEPS_OF_A_TURN)
        seconds.append((time.perf_counter() - started) / STEPS_OF_A_TURN)
        distribution.meet()
        sent.append((bytes_sent() - before) / STEPS_OF_A_TURN / distribution.workers)
    return {
        "seconds": float(np.median(seconds)),
        "bytes": float(np.median(sent)),
        "parameters": [int(np.prod(variable.shape)) for variable in model.trainable_variables],
    }


def sums(distribution: Distribution, kind: str) -> list[dict]:
    """Seconds that workers take to add up so many bytes, in one array and in eight."""
    import tensorflow as tf

    strategy, found = distribution.strategy, []
    for size in SIZES:
        for arrays in (1, 8):
            values = [tf.zeros([size // 4 // arrays]) for _ in range(arrays)]

            def of_replica(values=values):
                return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)

            add_up = tf.function(lambda of_replica=of_replica: strategy.run(of_replica))
            times = []
            for _ in range(12):
                started = time.perf_counter()
                add_up()
                times.append(time.perf_counter() - started)
            row = {"workers": distribution.workers, "bytes": size, "arrays": arrays}
            found.append({**row, "seconds": float(np.median(times[2:]))})
    return found


def bytes_sent() -> int:
    import psutil

    return psutil.net_io_counters(pernic=True)["lo"].bytes_sent


if __name__ == "__main__":
    main()
