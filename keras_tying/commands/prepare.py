"""`keras-tying prepare`: tokenizes a text of any size once, into files that training reads from disk."""

import argparse
import dataclasses
import sys
from collections.abc import Callable
from typing import Any

from tqdm import tqdm

from keras_tying import data
from keras_tying.commands.nnjm import check_aligned_files
from keras_tying.commands.options import Command, Commands, Option, file_option, path, whole
from keras_tying.commands.text import SPLIT_NAMES, check_are_files, check_data_dir
from keras_tying.data.prepared.folder import DESCRIPTION, Preparation, description_of, has_shards
from keras_tying.data.prepared.index import listed_shards
from keras_tying.data.prepared.shards import check_intact
from keras_tying.distribution.strategies import usable_cores
from keras_tying.errors import RESUMABLE
from keras_tying.tables import load_table


def prepare_text(arguments: argparse.Namespace) -> int:
    files = {split: getattr(arguments, f"{split}_file") for split in data.SPLITS}
    given = {split: paths for split, paths in files.items() if paths}
    counted = "train" in given or arguments.vocabulary or has_shards(arguments.folder)
    if given and not counted:
        raise ValueError(
            f"The words of a new text are those of its --train-file, or of --vocabulary. Received: neither, and "
            f"{arguments.folder} holds no prepared text"
        )
    check_are_files(given.values())
    corpus = data.Corpus("files", given) if given else data.load_corpus(arguments.corpus, arguments.data_dir)
    corpus = dataclasses.replace(corpus, tokenization=_tokenization(arguments, "text", corpus.tokenization))
    with ProgressLines() as progress:
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


def _tokenization(arguments: argparse.Namespace, kind: str, default: str) -> str:
    """The tokenization that is given, else that of the text in the folder, else the default."""
    stored = description_of(arguments.folder, kind).tokenization if has_shards(arguments.folder) else None
    return arguments.tokenization or stored or default


def prepare_pairs(arguments: argparse.Namespace) -> int:
    if arguments.source:
        check_are_files([arguments.source, arguments.target])
        pairs = data.zip_files(arguments.source, arguments.target)
        corpus = data.parallel_files({"train": pairs})
    else:
        source, target = arguments.languages
        corpus = data.load_parallel(arguments.corpus, source, target, arguments.data_dir)
    with ProgressLines() as progress:
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


def prepare_aligned(arguments: argparse.Namespace) -> int:
    files = {split: paths for split in data.SPLITS if (paths := getattr(arguments, split))}
    check_are_files(files.values())
    counts = set(map(len, files.values()))
    default = "spaces" if counts == {3} else "words"  # links count tokens
    tokenization = _tokenization(arguments, "aligned", default)
    if counts == {2} and not all((arguments.folder / f"{split}.align").exists() for split in files):
        print("without links: eflomal aligns the text first", flush=True)
    with ProgressLines() as progress:
        lines = {stage: progress.of("tokens" if stage == "counting" else "pairs") for stage in ("counting", *files)}
        prepared = data.prepare_aligned(
            arguments.folder,
            {split: data.Bitext.of(paths, tokenization) for split, paths in files.items()},
            source_size=arguments.source_vocabulary_size,
            size=arguments.target_vocabulary_size,
            processes=arguments.processes,
            report=lambda stage, count: lines[stage](stage, count),
        )
    source, target = prepared.vocabularies
    print(f"vocabulary  {len(target):,} target words, {len(source):,} source words\nfolder      {arguments.folder}")
    return 0


def check_aligned(arguments: argparse.Namespace) -> None:
    """Raises ValueError for a split without its two or three files, or if no split is given."""
    files = {split: paths for split in data.SPLITS if (paths := getattr(arguments, split))}
    if not files:
        raise ValueError("Aligned text is read from files. Received: none of --train, --valid and --test.")
    check_aligned_files(files)


def check_files(arguments: argparse.Namespace) -> int:
    folder = arguments.folder
    splits = sorted(path for path in folder.glob("*/") if not path.name.startswith("."))
    if not splits or not (folder / DESCRIPTION).is_file():
        raise FileNotFoundError(f"{folder} holds no prepared text.")
    kind = load_table(Preparation, folder / DESCRIPTION).kind
    problems = []

    def tried(check: Callable[..., Any], *arguments: Any) -> Any:
        """What a check returns. An error is kept, so that all of them are shown."""
        try:
            return check(*arguments)
        except (ValueError, OSError) as error:
            problems.append(str(error))
            return ()

    tried({"text": data.PreparedCorpus, "pairs": data.PreparedPairs, "aligned": data.PreparedAligned}[kind], folder)
    for split in splits:
        for shard in tried(listed_shards, split):
            tried(check_intact, split, shard)
    print("\n".join(problems) or f"{', '.join(split.name for split in splits)}: every file is intact.")
    return 1 if problems else 0


class ProgressLines:
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


ALL = """
Interrupted at any moment, the same command continues after the last complete file."""
TEXT = """Tokenizes a text for language models and word vectors.

{command} DIR --corpus ptb                                       a named corpus
{command} DIR --train-file A B --valid-file V --test-file T      your own UTF-8 text
{command} DIR --test-file T                                      one more split
"""
PAIRS = """Tokenizes sentence pairs for translation.

{command} DIR --corpus multi30k                                  a named corpus
{command} DIR --source A.en B.en --target A.de B.de              your own UTF-8 text
"""
ALIGNED = """Tokenizes sentence pairs with word alignment for joint language models.

{command} DIR --train F E LINKS --valid F E LINKS --test F E LINKS
{command} DIR --train F E --valid F E --test F E                 aligned by eflomal first
{command} DIR --test F E LINKS                                   one more split
"""
PROCESSES = Option("processes", "number of processes", default=usable_cores(), settings={"type": whole(1)})
FOLDER = Option("folder", "folder of the prepared text", positional=True, settings={"type": path, "metavar": "DIR"})


def _shared(*files: str) -> tuple[Option, ...]:
    """Options of every text; `files` are those that name the user's own."""
    return (
        Option("corpus", "name of a corpus", default="embedded", excludes=files),
        file_option(
            "data-dir",
            "folder of the corpus, instead of a download",
            metavar="DIR",
            needs=("corpus",),
        ),
        PROCESSES,
        FOLDER,
    )


def check_corpus(arguments: argparse.Namespace) -> None:
    check_data_dir(arguments.corpus, arguments.data_dir)


def _resumable(work: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """The work, which Ctrl-C stops so that the same command continues it."""

    def stopped_by_ctrl_c(arguments: argparse.Namespace) -> int:
        try:
            return work(arguments)
        except KeyboardInterrupt:
            print("\nStopped. The same command continues after the last complete file.", file=sys.stderr)
            return RESUMABLE

    return stopped_by_ctrl_c


COMMAND = Commands(
    "tokenize a text of any size once: text, pairs, aligned, check",
    {
        "text": Command(
            "for language models and word vectors",
            TEXT + ALL,
            (
                *(
                    file_option(f"{split}-file", f"UTF-8 {SPLIT_NAMES[split]} text, one sentence per line", "+")
                    for split in data.SPLITS
                ),
                Option(
                    "tokenization",
                    "how lines are split into words (default: as in the folder; else as the corpus needs it)",
                    settings={"choices": data.TOKENIZATIONS},
                ),
                file_option(
                    "vocabulary",
                    "one word per line, instead of the words counted",
                    excludes=("vocabulary-size", "minimum-count"),
                ),
                Option("vocabulary-size", "maximum number of words, with <unk> and <eos>", settings={"type": whole(3)}),
                Option("minimum-count", "words that occur less often become <unk>", settings={"type": whole(1)}),
                *_shared(*(f"{split}-file" for split in data.SPLITS)),
            ),
            _resumable(prepare_text),
            check=check_corpus,
        ),
        "pairs": Command(
            "for translation",
            PAIRS + ALL,
            (
                file_option("source", "text to translate from", "+", needs=("target",)),
                file_option("target", "the same text, translated", "+", needs=("source",)),
                Option(
                    "languages",
                    "languages of the corpus",
                    default=("en", "de"),
                    excludes=("source",),
                    settings={"nargs": 2, "metavar": ("SOURCE", "TARGET")},
                ),
                file_option(
                    "subwords",
                    "a sentencepiece model, instead of a new one",
                    metavar="MODEL",
                    excludes=("vocabulary-size",),
                ),
                Option(
                    "vocabulary-size", "number of subwords of a new model (default: 8000)", settings={"type": whole(3)}
                ),
                Option(
                    "maximum-length", "leave out pairs with more subwords in a sentence", settings={"type": whole(1)}
                ),
                *_shared("source"),
            ),
            _resumable(prepare_pairs),
            check=check_corpus,
        ),
        "aligned": Command(
            "for joint language models",
            ALIGNED + ALL,
            (
                *(
                    file_option(split, f"{what} text: source, target and links", "+")
                    for split, what in SPLIT_NAMES.items()
                ),
                Option(
                    "tokenization",
                    "how lines are split (default: as in the folder; else at spaces with links, or into words)",
                    settings={"choices": data.TOKENIZATIONS},
                ),
                *(
                    Option(
                        f"{side}-vocabulary-size",
                        f"maximum number of {side} words, with <unk> and <eos> (default: 10000)",
                        settings={"type": whole(3)},
                    )
                    for side in ("source", "target")
                ),
                PROCESSES,
                FOLDER,
            ),
            _resumable(prepare_aligned),
            check=check_aligned,
        ),
        "check": Command(
            "reads every file and compares its SHA-256", "Checks a prepared text.", (FOLDER,), check_files
        ),
    },
)
