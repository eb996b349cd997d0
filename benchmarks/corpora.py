"""Measures how time and memory of preparing and reading a text depend on its size.

python -m benchmarks.corpora --gibibytes 0.25 1 4      generated texts; about a quarter of an hour on two cores

Writes `results/corpora.json`. Each text is prepared by `train/prepare.py`, all windows of an epoch are read, and a
language model is trained on it for a minute. The peak memory of the largest process is recorded.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

from benchmarks.run import RESULTS
from keras_tying.errors import RESUMABLE
from keras_tying.training import environment
from studies.results import write_results

GIBIBYTE, MEBIBYTE = 2**30, 2**20
WORDS_PER_BLOCK, BLOCKS = 2_000_000, 8
WORD_TYPES = 50_000
TRAINING_SECONDS = 60

READ = """
import os
os.environ["KERAS_BACKEND"] = "numpy"  # to measure only the reading
import sys
from keras_tying import data
prepared = data.PreparedCorpus(sys.argv[1])
cut = data.windows(prepared.ids("train", prepared.vocabulary()), batch_size=20, sequence_length=35)
for first in range(0, cut.batches, 50):
    cut.block(first, 50)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gibibytes", type=float, nargs="+", default=[0.25, 1, 4])
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    results = {
        **environment(),
        "command": f"python -m benchmarks.corpora --gibibytes {' '.join(f'{size:g}' for size in arguments.gibibytes)}",
        "processes": arguments.processes,
        "texts": [],
    }
    for size in arguments.gibibytes:
        with tempfile.TemporaryDirectory() as folder:
            results["texts"].append({"gibibytes": size, **measured(Path(folder), size, arguments.processes)})
        print(results["texts"][-1], flush=True)
        first = len(results["texts"]) == 1  # which replaces earlier results
        write_results(RESULTS / "corpora.json", results, keep_earlier=first)


def measured(folder: Path, gibibytes: float, processes: int) -> dict:
    text, prepared = folder / "text", folder / "prepared"
    write_text(text, int(gibibytes * GIBIBYTE))
    splits = {"train": text}
    for split in ("valid", "test"):
        splits[split] = folder / split
        splits[split].write_bytes(text.open("rb").read(100_000).rpartition(b"\n")[0] + b"\n")
    files = [part for split, path in splits.items() for part in (f"--{split}-file", path)]
    command = ["train/prepare.py", "text", prepared, *files, "--vocabulary-size", 10_000, "--processes", processes]
    preparing = watch(command)
    index = [json.loads(line) for line in (prepared / "train" / "index.jsonl").read_text().splitlines()[:-1]]
    tokens = sum(shard["totals"]["tokens"] for shard in index)
    reading = watch(["-c", READ, prepared])
    training = watch(
        ["train/lm.py", "--recipe", "ptb_small_tied", "--prepared", prepared, "--run", folder / "run"],
        stop_after=TRAINING_SECONDS,
    )
    return {
        "tokens": tokens,
        "shards": len(index),
        "prepared_gibibytes": round(sum(path.stat().st_size for path in prepared.rglob("*.*")) / GIBIBYTE, 3),
        "preparing": {**preparing, "tokens_per_second": round(tokens / preparing["seconds"])},
        "reading": {**reading, "tokens_per_second": round(tokens / reading["seconds"])},
        "training_for_a_minute": training,
    }


def write_text(path: Path, size: int) -> None:
    """Writes lines of words drawn by Zipf's law: a few blocks of them in random order."""
    rng = np.random.default_rng(0)
    chances = 1 / np.arange(1, WORD_TYPES + 1)
    words = np.array([f"w{i:x}" for i in range(WORD_TYPES)], object)
    words[rng.choice(len(words), 1)] = "<unk>"
    blocks = []
    for _ in range(BLOCKS):
        drawn = words[rng.choice(len(words), WORDS_PER_BLOCK, p=chances / chances.sum())].reshape(-1, 20)
        blocks.append("".join(" ".join(line) + "\n" for line in drawn).encode())
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(blocks[rng.integers(BLOCKS)])


def watch(command: list, stop_after: float | None = None) -> dict:
    """Runs a script. Returns its seconds, and the peak memory of its largest process and of all processes together."""
    started, largest, together = time.monotonic(), 0, 0
    process = subprocess.Popen([sys.executable, *map(str, command)], stdout=subprocess.DEVNULL)
    root = psutil.Process(process.pid)
    while process.poll() is None:
        sizes = []
        for each in (root, *root.children(recursive=True)):
            try:
                sizes.append(each.memory_info().rss)
            except psutil.NoSuchProcess:
                continue
        largest, together = max(largest, *sizes, 0), max(together, sum(sizes))
        if stop_after and time.monotonic() - started > stop_after:
            process.send_signal(signal.SIGTERM)
            stop_after = None
        time.sleep(0.2)
    if process.returncode not in (0, RESUMABLE):
        raise RuntimeError(f"Expected {command[0]} to end with 0 or {RESUMABLE}. Received: {process.returncode}")
    return {
        "seconds": round(time.monotonic() - started, 1),
        "largest_process_mebibytes": round(largest / MEBIBYTE),
        "together_mebibytes": round(together / MEBIBYTE),
    }


if __name__ == "__main__":
    main()
