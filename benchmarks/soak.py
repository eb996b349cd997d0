"""Trains a model on two workers that are killed repeatedly, and without interruption, and compares the two runs.

python -m benchmarks.soak --data-dir DIR            Penn Treebank, seven epochs twice: about an hour on two cores

Writes `results/soak.json` and `results/soak.png`. Every one to five minutes a random worker is killed (SIGKILL) or
asked to stop (SIGTERM), and the local cluster restarts all workers. Memory is measured every five seconds.
"""

import argparse
import hashlib
import json
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.run import RESULTS
from keras_tying.training import CheckpointStore, Run, environment
from studies.plots import write_png
from studies.results import write_results

MEBIBYTE = 2**20
SECONDS_BETWEEN_SAMPLES = 5
MINUTES_BETWEEN_KILLS = 1.0, 5.0
WARM_UP_SECONDS = 450
"""Time after which a process has finished an epoch and its validation, so that all its memory is allocated."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder with the files of the Penn Treebank")
    parser.add_argument("--epochs", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="folder of both runs; default: a temporary one")
    parser.add_argument("--seed", type=int, default=1, help="seed of which worker is killed and when")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        results = soak(folder, arguments.data_dir, arguments.epochs, random.Random(arguments.seed))
    results["command"] = f"python -m benchmarks.soak --data-dir DIR --epochs {arguments.epochs} --seed {arguments.seed}"
    write_results(RESULTS / "soak.json", results, keep_earlier=True)
    draw(results, RESULTS / "soak.png")
    print({name: value for name, value in results.items() if name not in ("killed", "left_alone")})


def soak(folder: Path, data_dir: Path, epochs: int, chance: random.Random) -> dict:
    runs = {
        "killed": train(folder / "killed", data_dir, epochs, chance),
        "left_alone": train(folder / "left_alone", data_dir, epochs, None),
    }
    killed, left_alone = (outcome(Run(folder / name)) for name in runs)
    epochs_of_both = zip(killed["perplexities"], left_alone["perplexities"], strict=True)
    return {
        **environment(),
        "recipe": "ptb_small_tied",
        "workers": 2,
        "same_validation_perplexities": killed["validation"] == left_alone["validation"],
        "same_weights": killed["weights"] == left_alone["weights"],
        # the sum over an epoch is rounded where a run is continued, so these may differ in the last digit
        "largest_relative_difference_of_training_perplexities": max(abs(a / b - 1) for a, b in epochs_of_both),
        "killed": {**runs["killed"], "test_perplexity": killed["test_perplexity"]},
        "left_alone": {**runs["left_alone"], "test_perplexity": left_alone["test_perplexity"]},
    }


def outcome(run: Run) -> dict:
    """Perplexities of a run, and the SHA-256 of the variables of model and optimizer."""
    results = json.loads(run.results.read_text())
    last = CheckpointStore(run.checkpoints).newest()
    assert last is not None
    weights = [last.values[name].tobytes() for name in sorted(last.values) if not name.startswith("metrics")]
    return {
        "test_perplexity": results["test_perplexity"],
        "perplexities": [logs["perplexity"] for logs in results["history"]],
        "validation": [logs["val_perplexity"] for logs in results["history"]],
        "weights": hashlib.sha256(b"".join(weights)).hexdigest(),
    }


def train(run: Path, data_dir: Path, epochs: int, chance: random.Random | None) -> dict:
    """Trains on two workers; with `chance`, signals some of them. Returns the minutes, the signals and the memory."""
    import psutil  # the tables and the plot do without it

    command = ["-m", "keras_tying", "cluster", "--workers", "2", "--restarts", "1000"]
    command += ["--grace-seconds", "5", "--", "train/lm.py"]
    command += ["--recipe", "ptb_small_tied", "--data-dir", str(data_dir), "--epochs", str(epochs)]
    command += ["--run", str(run), "--restartable", "--checkpoint-minutes", "0.5"]
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True)
    workers: dict[int, tuple[int, float]] = {}  # by number: process id and time of its start
    threading.Thread(target=follow, args=(process, workers), daemon=True).start()

    started, kills, memory = time.monotonic(), [], []
    next_kill = started + minutes_until_next(chance)
    try:
        while process.poll() is None:
            time.sleep(SECONDS_BETWEEN_SAMPLES)
            now = time.monotonic()
            for number, (pid, since) in workers.copy().items():
                with suppress(psutil.NoSuchProcess):  # it was killed
                    resident = round(psutil.Process(pid).memory_info().rss / MEBIBYTE)
                    memory.append([round(now - started), number, round(now - since), resident])
            if chance and workers and now > next_kill:
                number, signal_sent = chance.choice([*workers]), chance.choice([signal.SIGKILL, signal.SIGTERM])
                with suppress(psutil.NoSuchProcess):
                    psutil.Process(workers[number][0]).send_signal(signal_sent)
                    kills.append([round(now - started), number, signal_sent.name])
                    print(f"{kills[-1]}", flush=True)
                next_kill = now + minutes_until_next(chance)
    finally:
        process.terminate()
    if process.returncode:
        raise RuntimeError(f"The run in {run} ended with {process.returncode}.")
    return {
        "minutes": round((time.monotonic() - started) / 60, 1),
        "kills": kills,
        "memory_growth_mebibytes_a_minute": growth(memory),
        "memory": memory[:: 3 if len(memory) > 500 else 1],
    }


def minutes_until_next(chance: random.Random | None) -> float:
    return 60 * chance.uniform(*MINUTES_BETWEEN_KILLS) if chance else 0.0


def follow(process: subprocess.Popen, workers: dict[int, tuple[int, float]]) -> None:
    """Prints the output of a cluster and keeps `workers` up to date with it."""
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        if found := re.match(r"\[cluster\] worker (\d) is process (\d+)", line):
            workers[int(found[1])] = int(found[2]), time.monotonic()


def growth(memory: list[list[int]]) -> float | None:
    """Mean growth in MiB per minute, over the processes that ran for some minutes after the warm-up."""
    lives: dict[tuple[int, int], list[tuple[float, int]]] = {}
    for at, number, age, resident in memory:
        if age > WARM_UP_SECONDS:
            lives.setdefault((number, round((at - age) / 10)), []).append((age / 60, resident))
    slopes = [statistics.linear_regression(*zip(*life, strict=True)).slope for life in lives.values() if len(life) > 24]
    return round(statistics.mean(slopes), 2) if slopes else None


def draw(results: dict, path: Path) -> None:
    """Plots the memory of each worker over time, and when workers were killed or asked to stop."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    for axes, name in zip(figure.subplots(2, sharex=True, sharey=True), ("killed", "left_alone"), strict=True):
        run = results[name]
        for number in (0, 1):
            samples = [(at / 60, resident) for at, worker, _, resident in run["memory"] if worker == number]
            axes.plot(*zip(*samples, strict=True), ".", markersize=3, label=f"worker {number}")
        for at, _, how in run["kills"]:
            axes.axvline(at / 60, color="black" if how == "SIGKILL" else "gray", linewidth=0.7, linestyle=":")
        axes.set_title(f"{name.replace('_', ' ')}: test perplexity {run['test_perplexity']:.4f}", fontsize=10)
        axes.set_ylabel("resident memory, MiB")
        axes.set_ylim(bottom=0)
    axes.set_xlabel("minutes; dotted: a worker is killed (black) or asked to stop (gray)")
    axes.legend(frameon=False)
    write_png(figure, path, dpi=100, data=[results["killed"], results["left_alone"]])


if __name__ == "__main__":
    main()
