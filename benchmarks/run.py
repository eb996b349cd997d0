"""Measures speed and memory, and compares them with stock Keras and PyTorch.

python -m benchmarks.run                     all parts but those on a GPU, about half an hour on two cores
python -m benchmarks.run training            one part
KERAS_BACKEND=jax python -m benchmarks.run training_on_gpu    a part on a GPU; TensorFlow need not be installed

Writes `results/PART.json`, with the device and the versions of the packages.
"""

import argparse
import importlib.util
import json
import math
import os
import statistics
from importlib import metadata
from pathlib import Path

from benchmarks.joint_models import JointSize
from benchmarks.large_vocabularies import BACKENDS
from benchmarks.measure import compare, matrix_product_rate
from benchmarks.translators import DecodingSize, TranslationSize
from benchmarks.work import Size
from keras_tying.backend import NAME as BACKEND
from keras_tying.backend.devices import accelerators
from keras_tying.files import supersede
from keras_tying.training import environment
from keras_tying.training.engine import STEPS_PER_EXECUTION

RESULTS = Path(__file__).parent / "results"
SIZES = {
    "small": Size(units=200, sequence_length=20),
    "medium": Size(units=650, sequence_length=35),
    "large": Size(units=1500, sequence_length=35),
}
NAMES = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}
STEPS_PER_TURN = {"small": 60, "medium": 10, "large": 3}
STEPS_PER_TURN_ON_GPU = 200


def training(rounds: int) -> dict:
    """Words per second and memory of training, and its speed as a share of the rate of matrix products."""
    results = {}
    for name, size in SIZES.items():
        results[name] = compare("training", size, STEPS_PER_TURN[name], rounds)
        achieved = results[name]["words_per_second"]["keras-tying"] / size.words * size.operations
        results[name]["share_of_matrix_product_rate"] = round(achieved / matrix_product_rate(size), 3)
        results[name]["steps_per_execution"] = STEPS_PER_EXECUTION  # of keras-tying and of stock Keras
    return results


def training_in_bfloat16(rounds: int) -> dict:
    """Training in mixed_bfloat16, beside PyTorch's autocast."""
    return {name: compare("training in bfloat16", SIZES[name], STEPS_PER_TURN[name], rounds) for name in SIZES}


def training_on_jax(rounds: int) -> dict:
    """Training on the JAX backend, beside stock Keras on that backend and PyTorch."""
    return {
        name: compare("training", SIZES[name], STEPS_PER_TURN[name], rounds, backend="jax")
        for name in ("small", "medium")
    }


def training_on_gpu(rounds: int) -> dict:
    """Training on the JAX backend and a GPU, whose memory is not measured."""
    results = {}
    for name in ("medium", "large"):
        measured = compare("training on a GPU", SIZES[name], STEPS_PER_TURN_ON_GPU, rounds)
        results[name] = {key: value for key, value in measured.items() if "memory" not in key}
    return results


def profile_on_jax(rounds: int) -> dict:
    """Parts of a training step on the JAX backend, each alone, beside PyTorch."""
    kinds = {"whole step": "training", "LSTM layers": "LSTM layers on JAX", "output layer": "output layer on JAX"}
    results = {}
    for name in ("small", "medium"):
        for part, kind in kinds.items():
            each = compare(kind, SIZES[name], STEPS_PER_TURN[name], rounds, without=("stock Keras",), backend="jax")
            results[f"{name}, {part}"] = each
            speed = results[f"{name}, whole step"]["words_per_second"]["keras-tying"]
            each["share_of_step"] = round(speed / each["words_per_second"]["keras-tying"], 3)
    return results


def mogrifier(rounds: int) -> dict:
    """Forward and backward pass of a `MogrifierLSTM` layer alone."""
    size = Size(units=650, layers=1, batch_size=64, sequence_length=35)
    kinds = {"float32": "mogrifier", "bfloat16": "mogrifier in bfloat16"}
    return {precision: compare(kind, size, 4, rounds) for precision, kind in kinds.items()}


def matrix_products(rounds: int) -> dict:
    """The matrix products of a training step alone: TensorFlow's beside PyTorch's."""
    results = {}
    for dtype in ("float32", "bfloat16"):
        for name, size in SIZES.items():
            each = compare(f"matrix products in {dtype}", size, STEPS_PER_TURN[name], rounds)
            results[f"{name}, {dtype}"] = each
    return results


def output_layer(rounds: int) -> dict:
    """Forward and backward pass of the output layer alone, for growing vocabularies."""
    sizes = {10_000: 4000, 90_000: 4000, 500_000: 1000}
    return {
        f"{vocabulary:,} words": compare(
            "output layer", Size(vocabulary=vocabulary, units=500, batch_size=tokens, sequence_length=1), 1, rounds
        )
        for vocabulary, tokens in sizes.items()
    }


def large_vocabularies(rounds: int) -> dict:
    """The output layer alone and a Transformer, on every backend, with and without logits."""
    layer = Size(vocabulary=90_000, units=500, batch_size=4000, sequence_length=1)
    model = Size(vocabulary=50_000, units=128, batch_size=32, sequence_length=64)
    results = {}
    for backend in BACKENDS:
        results[f"output layer, {NAMES[backend]}"] = compare(
            f"output layer, {backend}", layer, 1, rounds, backend=backend
        )
    for backend in BACKENDS:
        results[f"Transformer, {NAMES[backend]}"] = compare("Transformer", model, 2, rounds, backend=backend)
    return results


def adaptive_softmax(rounds: int) -> dict:
    """The output layer of 250,000 words with an adaptive softmax, with all words and with sampled ones."""
    size = Size(vocabulary=250_000, units=512, batch_size=4000, sequence_length=1)
    return {
        NAMES[backend]: compare(f"adaptive softmax, {backend}", size, 1, rounds, backend=backend)
        for backend in BACKENDS
    }


def evaluation(rounds: int) -> dict:
    """Words per second when the perplexity of a text is computed."""
    return {name: compare("evaluation", size, 2 * STEPS_PER_TURN[name], rounds) for name, size in SIZES.items()}


def generation(rounds: int) -> dict:
    """Words per second when 20 texts are generated in parallel, word by word."""
    return {name: compare("generation", size, 2, rounds) for name, size in SIZES.items()}


def waiting(rounds: int) -> dict:
    """Share of the training time spent waiting for data, found by training on one batch that stays in memory."""
    results = {}
    for name, size in SIZES.items():
        results[name] = compare("waiting", size, STEPS_PER_TURN[name], rounds)
        share = 1 - results[name]["speed_ratio"]["nothing to read"]
        results[name]["share_of_time_waiting"] = round(max(share, 0), 3)
    return results


def growth(rounds: int) -> dict:
    """Seconds per training step as one dimension grows, and the exponents fitted to them."""
    base = {"units": 400, "vocabulary": 10_000, "sequence_length": 20}
    steps_per_turn = 8
    results = {}
    for dimension, values in {
        "units": (200, 400, 800),
        "vocabulary": (5_000, 20_000, 80_000),
        "sequence_length": (10, 20, 40),
    }.items():
        sizes = {value: Size(**{**base, dimension: value}) for value in values}
        turns = {value: compare("growth", size, steps_per_turn, rounds)["seconds"] for value, size in sizes.items()}
        seconds = {
            name: {value: round(statistics.median(turn[name]) / steps_per_turn, 5) for value, turn in turns.items()}
            for name in turns[values[0]]
        }
        results[dimension] = {
            "seconds_a_step": seconds,
            "exponent": {name: _exponent(list(values), list(times.values())) for name, times in seconds.items()},
        }
    return results


def _exponent(values: list[int], seconds: list[float]) -> float:
    """Slope of the line fitted to the logarithms."""
    return round(statistics.linear_regression([*map(math.log, values)], [*map(math.log, seconds)]).slope, 2)


def translation(rounds: int) -> dict:
    """Target words per second of training a translator, and sentences per second of translating with a beam of 5.

    JoeyNMT is left out if it is not installed.
    """
    without = () if importlib.util.find_spec("joeynmt") else ("JoeyNMT",)
    decoding = compare("translation decoding", DecodingSize(), 2, rounds, without)
    decoding["sentences_per_second"] = decoding.pop("words_per_second")
    return {
        "training": compare("translation training", TranslationSize(), 8, rounds, without),
        "beam of 5": decoding,
    }


def joint_language_model(rounds: int) -> dict:
    """Samples per second of training NNJM."""
    results = {}
    for vocabulary in (10_000, 20_000):
        each = compare("joint language model", JointSize(vocabulary=vocabulary), 400, rounds)
        each["samples_per_second"] = each.pop("words_per_second")
        results[f"{vocabulary:,} words"] = each
    return results


PARTS = {
    "training": training,
    "training_in_bfloat16": training_in_bfloat16,
    "training_on_jax": training_on_jax,
    "profile_on_jax": profile_on_jax,
    "mogrifier": mogrifier,
    "matrix_products": matrix_products,
    "output_layer": output_layer,
    "large_vocabularies": large_vocabularies,
    "adaptive_softmax": adaptive_softmax,
    "evaluation": evaluation,
    "generation": generation,
    "waiting": waiting,
    "growth": growth,
    "translation": translation,
    "joint_language_model": joint_language_model,
}
ON_GPU = {"training_on_gpu": training_on_gpu}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = PARTS | ON_GPU
    parser.add_argument("parts", nargs="*", help=f"some of {list(parts)}; default: all but {list(ON_GPU)}")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(parts)
    if unknown:
        parser.error(f"Expected some of the parts {list(parts)}. Received: {sorted(unknown)}")
    if on_gpu := set(arguments.parts) & set(ON_GPU):
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # contenders share the GPU
        if BACKEND != "jax" or not accelerators():
            parser.error(f"{sorted(on_gpu)} needs KERAS_BACKEND=jax and a GPU. Received: {BACKEND}, no GPU of JAX.")
    for name in arguments.parts or PARTS:
        variables = "KERAS_BACKEND=jax " if name in ON_GPU else ""
        command = f"{variables}python -m benchmarks.run {name} --rounds {arguments.rounds}"
        record(name, command, parts[name](arguments.rounds))


def record(name: str, command: str, results: dict) -> None:
    """Prints the results of a command and writes them to their file, with device, commit and versions of packages.

    Earlier results are kept in the folder `superseded`.
    """
    recorded = environment()
    peers = [package for package in ("torch", "jax", "joeynmt") if importlib.util.find_spec(package)]
    recorded["versions"] |= {package: metadata.version(package) for package in peers}
    text = json.dumps({**recorded, "command": command, "results": results}, indent=2)
    print(text)
    RESULTS.mkdir(exist_ok=True)
    supersede(RESULTS / f"{name}.json", f"{text}\n".encode())


if __name__ == "__main__":
    main()
