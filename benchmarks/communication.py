"""Measures the communication of replicas: bytes and seconds per step, tied and untied.

python -m benchmarks.communication             1, 2 and 4 workers on this machine, some minutes

Writes `results/communication.json` and `results/communication.png`. Bytes are counted at the loopback interface, so
nothing else should use it meanwhile. Predictions: see `benchmarks/step_time.py`.
"""

import argparse
import json
import time

import numpy as np

from benchmarks.local_workers import measured_by
from benchmarks.run import RESULTS
from benchmarks.step_time import draw, fit_network, predict
from keras_tying.training import Distribution, environment, open_distribution
from keras_tying.training.engine import STEPS_PER_EXECUTION
from studies.results import write_results

WORKERS = 1, 2, 4
VARIANTS = "tied", "untied", "untied, rows"
ALONE = {"tied": "tied, alone", "untied": "untied, alone", "untied, rows": "untied, alone"}
"""The same steps on as many workers at the same time, without communication."""
ROWS, SEQUENCE_LENGTH, VOCABULARY, UNITS = 20, 20, 10_000, 200
"""Rows and words per row of each worker's batch, and the size of the model, that of `ptb_small`."""
STEPS, TURNS = STEPS_PER_EXECUTION, 4
"""Steps of a turn and number of turns."""
SIZES = tuple(2**power for power in (10, 18, 20, 22, 24))
"""Bytes that are summed over workers to measure the network."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1, help="in a round, every number of workers takes four turns")
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
        "rows_per_worker": ROWS,
        "sequence_length": SEQUENCE_LENGTH,
        "vocabulary": VOCABULARY,
        "units": UNITS,
        **summary(measured),
    }
    write_results(RESULTS / "communication.json", results, keep_earlier=True)
    draw(results, RESULTS / "communication.png")


def summary(measured: dict[int, dict[str, list]]) -> dict:
    """Medians, the latency and bandwidth fitted to the sums, and predictions for the steps."""
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
    """Measurements of the first worker, in a cluster of `workers`."""
    return measured_by(workers, "benchmarks.communication", "--work", kind, timeout=300)


def work(kind: str) -> None:
    distribution = open_distribution("auto")
    measure = sums if kind == "sums" else steps_of
    print("measured", json.dumps(measure(distribution, kind)), flush=True)
    distribution.meet()


def steps_of(distribution: Distribution, kind: str) -> dict:
    """Seconds and bytes per training step."""
    import keras_tying as kt
    from keras_tying.backend.tensorflow import lookup
    from keras_tying.tasks.language_model import WindowBatches

    lookup.rows_are_less = lambda ids, vocabulary_size: kind.endswith("rows")  # this decides what is sent
    shared = distribution if not kind.endswith("alone") else Distribution()
    batch_size = ROWS * shared.replicas
    with shared.scope():
        model = kt.zoo.recurrent_language_model(VOCABULARY, UNITS, tied=kind.startswith("tied"))
        model.carry_state(batch_size)
        model.compile(kt.optimizers.ClippedSGD(), steps_per_execution=STEPS_PER_EXECUTION)
    ids = np.random.default_rng(0).integers(0, VOCABULARY, batch_size * (STEPS * SEQUENCE_LENGTH + 1), np.int32)
    batches = WindowBatches(kt.data.windows(ids, batch_size, SEQUENCE_LENGTH))  # as trainers feed: see `untuned`

    def train() -> None:
        model.fit(**batches.feed(model), shuffle=False, verbose=0)

    train()  # compiles
    seconds, sent = [], []
    for _ in range(TURNS):
        distribution.meet()
        before, started = bytes_sent(), time.perf_counter()
        train()
        seconds.append((time.perf_counter() - started) / STEPS)
        distribution.meet()
        sent.append((bytes_sent() - before) / STEPS / distribution.workers)
    return {
        "seconds": float(np.median(seconds)),
        "bytes": float(np.median(sent)),
        "parameters": [int(np.prod(variable.shape)) for variable in model.trainable_variables],
    }


def sums(distribution: Distribution, kind: str) -> list[dict]:
    """Seconds that workers take to sum arrays of each of `SIZES`, in one array and in eight."""
    import tensorflow as tf

    strategy, found = distribution.strategy, []
    for size in SIZES:
        for arrays in (1, 8):
            values = [tf.zeros([size // 4 // arrays]) for _ in range(arrays)]

            def of_replica(values=values):
                return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)

            add_arrays = tf.function(lambda of_replica=of_replica: strategy.run(of_replica))
            times = []
            for _ in range(12):
                started = time.perf_counter()
                add_arrays()
                times.append(time.perf_counter() - started)
            row = {"workers": distribution.workers, "bytes": size, "arrays": arrays}
            found.append({**row, "seconds": float(np.median(times[2:]))})
    return found


def bytes_sent() -> int:
    import psutil

    return psutil.net_io_counters(pernic=True)["lo"].bytes_sent


if __name__ == "__main__":
    main()
