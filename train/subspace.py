"""Measures how close untied embeddings come to each other under the augmented loss: figure 1 of Inan et al.

python train/subspace.py --data-dir DIR                 into runs/subspace.json and .png
python train/subspace.py --data-dir DIR --record        into the zoo's results
"""

import argparse
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's warnings, without its remarks

from keras_tying import data
from keras_tying.files import write_atomically
from keras_tying.study.curves import draw_subspace_distances
from keras_tying.study.subspace import SubspaceSettings, sweep
from keras_tying.training import environment, run_command
from keras_tying.zoo.recipes import recipe_folder

BETAS, TAUS = [0.0, 0.25, 0.5, 0.75, 1.0], [1.0, 2.0, 5.0, 10.0, 20.0]


def main() -> int:
    arguments = parse_arguments()
    return run_command(lambda: study(arguments))


def parse_arguments() -> argparse.Namespace:
    defaults = SubspaceSettings()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="ptb", help="name of a corpus; its training text is used")
    parser.add_argument("--data-dir", type=Path, help="folder with the corpus's files, instead of a download")
    parser.add_argument("--betas", nargs="+", type=float, default=BETAS, help="shares of the augmented loss, at tau 10")
    parser.add_argument("--taus", nargs="+", type=float, default=TAUS, help="temperatures, at beta 1")
    parser.add_argument("--seeds", type=int, default=2, help="runs a point; the paper's figure has 10")
    for name, default in (("words", defaults.words), ("units", defaults.units), ("epochs", defaults.epochs)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--output", type=Path, default=Path("runs/subspace"), help="start of the files' names")
    parser.add_argument("--record", action="store_true", help="write them into the zoo's results instead")
    return parser.parse_args()


def study(arguments: argparse.Namespace) -> int:
    corpus = data.load_corpus(arguments.corpus, arguments.data_dir)
    tokens = list(corpus.tokens("train"))
    ids = data.Vocabulary.from_tokens(tokens).encode(tokens)
    settings = SubspaceSettings(arguments.words, arguments.units, epochs=arguments.epochs)
    results = sweep(ids, arguments.betas, arguments.taus, arguments.seeds, settings, print_run)
    start = recipe_folder() / "results" / "subspace" if arguments.record else arguments.output
    start.parent.mkdir(parents=True, exist_ok=True)
    results |= {**environment(), "command": reproducing_command(arguments)}
    write_atomically(start.with_suffix(".json"), (json.dumps(results, indent=1) + "\n").encode())
    draw_subspace_distances(results, start.with_suffix(".png"))
    print(f"{start}.json\n{start}.png")
    return 0


def print_run(run: dict) -> None:
    print(
        f"beta {run['beta']:4g}  tau {run['tau']:4g}  seed {run['seed']}  distance {run['distance']:.3f}  "
        f"perplexity {run['perplexity']:.1f}",
        flush=True,
    )


def reproducing_command(arguments: argparse.Namespace) -> str:
    """The command that gives the same figures elsewhere: paths of this machine are left out."""
    numbers = {name: " ".join(f"{value:g}" for value in getattr(arguments, name)) for name in ("betas", "taus")}
    command = (
        f"python train/subspace.py --corpus {arguments.corpus} --betas {numbers['betas']} --taus {numbers['taus']}"
    )
    command += f" --seeds {arguments.seeds} --words {arguments.words} --units {arguments.units}"
    command += f" --epochs {arguments.epochs}" + (" --record" if arguments.record else "")
    return command + (" --data-dir DIR" if arguments.data_dir else "")


if __name__ == "__main__":
    sys.exit(main())
