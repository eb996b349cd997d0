"""Measures how many sentences per second a trained model translates, and a copy of it in PyTorch.

python -m benchmarks.translated_text RUN TEXT           RUN: a run of train/nmt.py with a tied or three-way tied model

Writes `results/translated_text.json`.
"""

import argparse
import statistics
from pathlib import Path

from benchmarks.measure import compare
from benchmarks.run import record
from benchmarks.text_translators import KIND, TextSize, opened, share_alike
from benchmarks.translators import BEAM


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("text", type=Path, help="one sentence per line, gzipped or not")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    size = TextSize(run=str(arguments.run), text=str(arguments.text))
    model, subwords, batches = opened(size)
    sentences = sum(map(len, batches))
    measured = compare(KIND, size, len(batches), arguments.rounds)
    measured["size"] = {"batch_size": size.batch_size, "sentences": sentences, "beam": BEAM}
    del measured["words_per_second"]
    rates = {name: round(sentences / statistics.median(turns), 1) for name, turns in measured["seconds"].items()}
    results = {"sentences_per_second": rates, "alike": share_alike(model, subwords.end_id, batches), **measured}
    command = f"python -m benchmarks.translated_text RUN {arguments.text.name} --rounds {arguments.rounds}"
    record("translated_text", command, {arguments.text.name.removesuffix(".gz"): results})


if __name__ == "__main__":
    main()
