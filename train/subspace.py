"""Measures how close untied embeddings come to each other under the augmented loss: figure 1 of Inan et al.

python train/subspace.py --data-dir DIR                 into runs/subspace.json and .png
python train/subspace.py --data-dir DIR --record        into the zoo's results

The same command after an interruption goes on behind the last run that ended.
"""

import argparse
import os
import sys
from dataclasses import asdict
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's warnings, without its remarks

from keras_tying import data
from keras_tying.study import augmentation_page
from keras_tying.study.curves import draw_subspace_distances
from keras_tying.study.results import read_results, write_results
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
    start = recipe_folder() / "results" / "subspace" if arguments.record else arguments.output
    path = start.with_suffix(".json")
    results = {"settings": {"corpus": arguments.corpus, **asdict(settings)}, **environment(), "runs": []}
    results["runs"] = earlier_runs(path, results["settings"])

    def keep(run: dict) -> None:
        print_run(run)
        write_results(path, results)

    results |= sweep(ids, arguments.betas, arguments.taus, arguments.seeds, settings, results["runs"], keep)
    write_results(path, {**results, "command": reproducing_command(arguments)})
    draw_subspace_distances(results, start.with_suffix(".png"))
    if arguments.record:
        augmentation_page.write_page()
    print(f"{path}\n{start.with_suffix('.png')}")
    return 0


def earlier_runs(path: Path, settings: dict) -> list[dict]:
    """What a sweep that was interrupted, or had fewer points, measured."""
    earlier = read_results(path)
    if earlier is None:
        return []
    if earlier["settings"] != settings:
        raise ValueError(
            f"{path} has runs of other settings: {earlier['settings']}. Remove it or name another --output."
        )
    return earlier["runs"]


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
