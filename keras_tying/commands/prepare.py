"""Tokenizes a text of any size once, into files that training reads from disk.

python train/prepare.py text DIR --corpus ptb                                       a named corpus
python train/prepare.py text DIR --train-file A B --valid-file V --test-file T      your own UTF-8 text
python train/prepare.py text DIR --test-file T                                      one more split
python train/prepare.py pairs DIR --corpus multi30k                                 sentence pairs, to translate
python train/prepare.py pairs DIR --source A.en B.en --target A.de B.de
python train/prepare.py check DIR                                                   checks every SHA-256

Interrupted at any moment, the same command continues after the last complete file.
Then: python train/lm.py --prepared DIR
"""

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tqdm import tqdm

from keras_tying import data
from keras_tying.commands.exit_codes import RESUMABLE, run_command
from keras_tying.data.prepared.index import open_split


def main(argv: Sequence[str]) -> int:
    arguments = parse_arguments(argv)
    os.environ["KERAS_BACKEND"] = "numpy"  # for the other processes: tokenizing needs no faster one
    try:
        return run_command(lambda: arguments.work(arguments))
    except KeyboardInterrupt:
        print("\nStopped. The same command continues after the last complete file.", file=sys.stderr)
        return RESUMABLE


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="train/prepare.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = parser.add_subparsers(required=True, metavar="text|pairs|check")

    text = kinds.add_parser("text", help="for language models and word embeddings")
    text.set_defaults(work=prepare_text)
    for split in data.SPLITS:
        text.add_argument(f"--{split}-file", type=Path, nargs="+", metavar="FILE", help=f"UTF-8 {split} text")
    text.add_argument("--tokenization", choices=data.TOKENIZATIONS, help="default: that of the corpus, or spaces")
    text.add_argument("--vocabulary", type=Path, metavar="FILE", help="one word per line, instead of the words counted")
    text.add_argument("--vocabulary-size", type=int, help="maximum number of words, with <unk> and <eos>")
    text.add_argument("--minimum-count", type=int, help="words that occur less often become <unk>")

    pairs = kinds.add_parser("pairs", help="for translation")
    pairs.set_defaults(work=prepare_pairs)
    pairs.add_argument("--source", type=Path, nargs="+", metavar="FILE", help="text to translate from")
    pairs.add_argument("--target", type=Path, nargs="+", metavar="FILE", help="the same text, translated")
    pairs.add_argument("--languages", nargs=2, default=("en", "de"), metavar=("SOURCE", "TARGET"))
    pairs.add_argument("--subwords", type=Path, metavar="MODEL", help="a sentencepiece model, instead of a new one")
    pairs.add_argument("--vocabulary-size", type=int, help="number of subwords of a new model; default: 8000")
    pairs.add_argument("--maximum-length", type=int, help="leave out pairs with more subwords in a sentence")

    for kind in (text, pairs):
        kind.add_argument("--corpus", default="embedded", help="name of a corpus")
        kind.add_argument("--data-dir", type=Path, help="folder with the corpus's files, instead of a download")
        kind.add_argument("--processes", type=int, default=os.cpu_count(), help="default: one per core")
    check = kinds.add_parser("check", help="read every file and compare its SHA-256")
    check.set_defaults(work=check_files)
    for kind in (text, pairs, check):
        kind.add_argument("folder", type=Path, metavar="DIR")
    return parser.parse_args(argv)


def prepare_text(arguments: argparse.Namespace) -> int:
    files = {split: getattr(arguments, f"{split}_file") for split in data.SPLITS}
    given = {split: paths for split, paths in files.items() if paths}
    corpus = data.Corpus("files", given) if given else data.load_corpus(arguments.corpus, arguments.data_dir)
    corpus = dataclasses.replace(corpus, tokenization=arguments.tokenization or corpus.tokenization)
    with Progress() as progress:
        prepared = data.prepare_text(
            arguments.folder,
            corpus,
            arguments.vocabulary and data.Vocabulary.load(arguments.vocabulary),
            arguments.vocabulary_size,
            arguments.minimum_count,
            arguments.processes,
            progress.of("tokens"),
        )
    print(f"vocabulary  {len(prepared.vocabulary()):,} words\nfolder      {arguments.folder}")
    return 0


def prepare_pairs(arguments: argparse.Namespace) -> int:
    if arguments.source or arguments.target:
        pairs = data.zip_files(arguments.source or [], arguments.target or [])
        corpus = data.parallel_files({"train": pairs})
    else:
        source, target = arguments.languages
        corpus = data.load_parallel(arguments.corpus, source, target, arguments.data_dir)
    with Progress() as progress:
        data.prepare_pairs(
            arguments.folder,
            corpus,
            arguments.subwords and data.Subwords.load(arguments.subwords),
            arguments.vocabulary_size,
            arguments.maximum_length,
            arguments.processes,
            progress.of("pairs"),
        )
    print(f"folder      {arguments.folder}")
    return 0


def check_files(arguments: argparse.Namespace) -> int:
    splits = sorted(path.parent for path in arguments.folder.glob("*/index.jsonl"))
    if not splits:
        raise FileNotFoundError(f"{arguments.folder} holds no prepared text.")
    damaged = [path for split in splits for path in open_split(split).damaged()]
    for path in damaged:
        print(f"{path} is damaged. Remove it and prepare the text again: only it is made again.")
    if not damaged:
        print(f"{', '.join(split.name for split in splits)}: every file is intact.")
    return 1 if damaged else 0


class Progress:
    """One line on the console per stage: amount done and speed."""

    def __init__(self):
        self._lines: dict[str, tqdm] = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for line in self._lines.values():
            line.close()

    def of(self, unit: str) -> Callable[[str, int], None]:
        def report(stage: str, count: int) -> None:
            if stage not in self._lines:
                self._lines[stage] = tqdm(desc=stage, unit=f" {unit}", unit_scale=True)
            self._lines[stage].update(count)

        return report
