"""What embeddings have learned: word similarity, correlation over all pairs of words, neighbours, plots.

python train/embeddings.py runs/word2vec runs/word2vec_tied          trained runs of one text
python train/embeddings.py runs/ptb_small_untied runs/ptb_small_tied --data-dir DIR
python train/embeddings.py vectors.bin                               a file in word2vec's format
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's warnings, without its remarks

from keras_tying.data.similarity import load_similarity_sets, read_similarity_set
from keras_tying.files import write_atomically
from keras_tying.study import draw, measure_embeddings, page, read_embeddings, table
from keras_tying.study.results import write_results
from keras_tying.training import environment, run_command
from keras_tying.zoo.recipes import recipe_folder

QUERIES = ["company", "man", "money", "said", "good", "city"]


def main() -> int:
    arguments = parse_arguments()
    return run_command(lambda: study(arguments))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run, or word2vec file (.bin: binary)")
    parser.add_argument("--data-dir", type=Path, help="folder with the similarity sets, instead of a download")
    parser.add_argument("--set", nargs="+", type=Path, help="own similarity sets instead: two words and a score a line")
    parser.add_argument("--words", nargs="+", default=QUERIES, help="whose neighbours are shown")
    parser.add_argument("--most-frequent", type=int, help="correlate pairs of so many words at most; default: all")
    parser.add_argument("--output", type=Path, help="where the files go; default: embeddings in the first RUN's folder")
    parser.add_argument("--record", metavar="NAME", help="write them into the zoo, as a study of its page")
    return parser.parse_args()


def study(arguments: argparse.Namespace) -> int:
    sets = [read_similarity_set(path) for path in arguments.set or ()] or load_similarity_sets(arguments.data_dir)
    embeddings = read_embeddings(arguments.runs)
    figures = measure_embeddings(embeddings, sets, arguments.words, arguments.most_frequent)
    start = files_start(arguments)
    results = start.with_suffix(".json")
    write_results(results, {**figures, **environment(), "command": reproducing_command(arguments)})
    written = [results, *draw(start, embeddings, sets, arguments.words)]
    text = table(figures)
    if arguments.record:
        written.append(page.write_page())
    else:
        write_atomically(start.with_suffix(".md"), (text + "\n").encode())
        written.append(start.with_suffix(".md"))
    print(text)
    for label, words in figures["neighbours"].items():
        print(f"\nnearest words, {label}")
        print("\n".join(f"  {word}: {', '.join(others)}" for word, others in words.items()))
    print("\n" + "\n".join(map(str, written)))
    return 0


def files_start(arguments: argparse.Namespace) -> Path:
    """Folder and start of the name of every file."""
    if arguments.record:
        return recipe_folder() / "results" / arguments.record
    first = Path(arguments.runs[0])
    return (arguments.output or (first if first.is_dir() else first.parent) / "embeddings") / "embeddings"


def reproducing_command(arguments: argparse.Namespace) -> str:
    """The command that gives the same figures elsewhere: folders of this machine are left out."""
    names = " ".join(Path(run).name for run in arguments.runs)
    command = f"python train/embeddings.py {names}"
    if arguments.set:
        command += " --set " + " ".join(path.name for path in arguments.set)
    if arguments.most_frequent:
        command += f" --most-frequent {arguments.most_frequent}"
    if arguments.record:
        command += f" --record {arguments.record}"
    return command + (" --data-dir DIR" if arguments.data_dir else "")


if __name__ == "__main__":
    sys.exit(main())
