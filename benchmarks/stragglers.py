"""Measures what a slow worker costs: seconds per step where workers wait for one another.

python -m benchmarks.stragglers             two workers on this machine, some minutes

A worker is made slow by a pause before its step: every step of one worker, or in turn a step of one and of the other.
Writes `results/stragglers.json`.
"""

import argparse
import json
import time

import numpy as np

from benchmarks.local_workers import measured_by
from benchmarks.run import RESULTS
from keras_tying.training import Distribution, environment, open_distribution
from studies.results import write_results

WORKERS = 2
PAUSES = 0.0, 0.1, 0.4
"""Seconds."""
KINDS = "one worker", "workers in turn"
ROWS, SEQUENCE_LENGTH, VOCABULARY, UNITS = 20, 20, 10_000, 200
"""Rows and words per row of each worker's batch, and the size of the model, that of `ptb_small`."""
WARM_UP_STEPS, STEPS = 4, 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    if parser.parse_args().work:
        return work()
    seconds = measured_by(WORKERS, "benchmarks.stragglers", "--work", timeout=500)
    sizes = {"rows_per_worker": ROWS, "sequence_length": SEQUENCE_LENGTH, "vocabulary": VOCABULARY, "units": UNITS}
    results = {**environment(), "command": "python -m benchmarks.stragglers", "workers": WORKERS, **sizes}
    results["seconds_a_step"] = seconds
    write_results(RESULTS / "stragglers.json", results, keep_earlier=True)


def work() -> None:
    """Measures as one of the workers."""
    import keras_tying as kt

    distribution = open_distribution("multiworker")
    with distribution.scope():
        model = kt.zoo.recurrent_language_model(VOCABULARY, UNITS)
        model.carry_state(ROWS * WORKERS)
        model.compile(kt.optimizers.ClippedSGD())
    found = {
        kind: {str(pause): seconds_of_steps(model, distribution, kind, pause) for pause in PAUSES} for kind in KINDS
    }
    print("measured", json.dumps(found), flush=True)
    distribution.meet()


def seconds_of_steps(model, distribution: Distribution, kind: str, pause: float) -> float:
    """Median seconds of two steps, halved: with pauses in turn, each worker has paused once then."""
    import keras

    batch_size = ROWS * WORKERS
    worker = 0 if distribution.is_chief else 1
    ids = np.random.default_rng(0).integers(
        0, VOCABULARY, (2, (WARM_UP_STEPS + STEPS) * batch_size, SEQUENCE_LENGTH), np.int32
    )
    ends: list[float] = []

    def wait(step, logs=None):
        if worker == (1 if kind == "one worker" else step % 2):
            time.sleep(pause)

    def note(step, logs=None):
        ends.append(time.perf_counter())

    pausing = keras.callbacks.LambdaCallback(on_train_batch_begin=wait, on_train_batch_end=note)
    distribution.meet()
    model.fit(*ids, batch_size=batch_size, shuffle=False, verbose=0, callbacks=[pausing])
    measured = np.array(ends[WARM_UP_STEPS:])
    return round(float(np.median(measured[2:] - measured[:-2]) / 2), 4)


if __name__ == "__main__":
    main()
