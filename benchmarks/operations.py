"""Where TensorFlow spends the time of a training step, and of reading a text: milliseconds by kind of operation.

python -m benchmarks.operations

Writes `results/operations.json`. Operations of a step can run at the same time, so their times may add up to more than
the step. They are measured with TensorFlow's profiler, which makes a step slower; the time of the step is without it.
"""

import collections
import glob
import multiprocessing
import tempfile
from dataclasses import asdict

from benchmarks.language_models import CONTENDERS
from benchmarks.run import SIZES, record
from benchmarks.work import Size

CASES = {
    "training in bfloat16, small": ("training in bfloat16", "small", 60),
    "training in bfloat16, medium": ("training in bfloat16", "medium", 40),
    "training in bfloat16, large": ("training in bfloat16", "large", 20),
    "evaluation, small": ("evaluation", "small", 100),
    "evaluation, medium": ("evaluation", "medium", 40),
}
KINDS = {
    "matrix products": ("_MklMatMul", "MatMul", "_MklNativeFusedMatMul", "_FusedMatMul"),
    "casts": ("Cast",),
    "softmax": ("_MklSoftmax", "Softmax"),
    "sigmoid, tanh": ("Sigmoid", "Tanh", "SigmoidGrad", "TanhGrad"),
    "sums, products, differences": ("Mul", "AddV2", "Sub", "AddN", "Square", "Sum", "L2Loss"),
    "copies": ("ConcatV2", "Split", "Pack", "Unpack", "_MklTranspose", "Transpose", "TensorScatterUpdate", "GatherV2"),
    "updates": ("ResourceApplyGradientDescent", "UnsortedSegmentSum", "ResourceScatterNdAdd"),
}


def profile(kind: str, size: Size, steps: int) -> dict:
    """Milliseconds per step and number of operations per step, by kind of operation."""
    import tensorflow as tf

    work = CONTENDERS[kind]["keras-tying"](size)
    work(20)  # traces the functions
    seconds = work(steps)
    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            work(steps)
        times, counts = _by_operation(folder)
    of_kind = {name: [key for key in times if key in operations] for name, operations in KINDS.items()}
    return {
        "size": asdict(size),
        "milliseconds_per_step": round(1000 * seconds / steps, 2),
        "milliseconds": {n: round(sum(times[key] for key in keys) / steps, 2) for n, keys in of_kind.items()},
        "operations": {n: round(sum(counts[key] for key in keys) / steps) for n, keys in of_kind.items()},
    }


def _by_operation(folder: str) -> tuple[collections.Counter, collections.Counter]:
    """Milliseconds and number of the operations in a trace, by their type."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    times, counts = collections.Counter(), collections.Counter()
    for path in glob.glob(f"{folder}/**/*.xplane.pb", recursive=True):
        with open(path, "rb") as file:
            planes = xplane_pb2.XSpace.FromString(file.read()).planes
        for plane in planes:
            for event in (event for line in plane.lines for event in line.events):
                operation = plane.event_metadata[event.metadata_id].name.rpartition(":")[2]  # "name:Type"
                times[operation] += event.duration_ps / 1e9
                counts[operation] += 1
    return times, counts


def main() -> None:
    results = {}
    for name, (kind, size, steps) in CASES.items():
        with multiprocessing.get_context("spawn").Pool(1) as process:  # because a case sets the policy of Keras
            results[name] = process.apply(profile, (kind, SIZES[size], steps))
    record("operations", "python -m benchmarks.operations", results)


if __name__ == "__main__":
    main()
