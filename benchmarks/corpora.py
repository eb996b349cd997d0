"""Does preparing and reading a text take more memory the larger it is?

python -m benchmarks.corpora --gibibytes 0.25 1 4      generated texts; about a quarter of an hour on two cores

Writes `results/corpora.json`. Of each text: `train/prepare.py` run on it, every window of an epoch read, and a language
model trained on it for a minute, the largest memory of any process noted.
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
from keras_tying.files import write_atomically
from keras_tying.training import environment

GIBIBYTE, MEBIBYTE = 2**30, 2**20
WORDS_OF_A_BLOCK, BLOCKS = 2_000_000, 8
DIFFERENT_WORDS = 50_000
SECONDS_OF_TRAINING = 60

READ = """
import os
os.environ["KERAS_BACKEND"] = "numpy"  # to measure reading alone
import sys
from keras_tying import data
prepared = data.PreparedCorpus(sys.argv[1])
cut = data.windows(prepared.ids("train", prepared.vocabulary()), batch_size=20, steps=35)
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
        write_atomically(RESULTS / "corpora.json", (json.dumps(results, indent=1) + "\n").encode())


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
        stop_after=SECONDS_OF_TRAINING,
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
    """Lines of words drawn by Zipf's law: a few blocks of them, again and again."""
    rng = np.random.default_rng(0)
    chances = 1 / np.arange(1, DIFFERENT_WORDS + 1)
    words = np.array([f"w{i:x}" for i in range(DIFFERENT_WORDS)], object)
    words[rng.choice(len(words), 1)] = "<unk>"
    blocks = []
    for _ in range(BLOCKS):
        drawn = words[rng.choice(len(words), WORDS_OF_A_BLOCK, p=chances / chances.sum())].reshape(-1, 20)
        blocks.append("".join(" ".join(line) + "\n" for line in drawn).encode())
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(blocks[rng.integers(BLOCKS)])


def watch(command: list, stop_after: float | None = None) -> dict:
    """Runs a script; the seconds it took, and the memory of its largest process and of all together, at their peaks."""
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
    if process.returncode not in (0, 75):
        raise RuntimeError(f"{command[0]} ended with {process.returncode}.")
    return {
        "seconds": round(time.monotonic() - started, 1),
        "largest_process_mebibytes": round(largest / MEBIBYTE),
        "together_mebibytes": round(together / MEBIBYTE),
    }


if __name__ == "__main__":
    main()
