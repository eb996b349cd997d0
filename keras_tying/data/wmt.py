"""Parallel corpora and test sets of the WMT news translation tasks.

Addresses, hashes and paths are those of TensorFlow Datasets.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from keras_tying.data.downloads import download, find_file, unpack
from keras_tying.data.text import read_lines
from keras_tying.files import write_atomically

SEGMENT = re.compile(r"<seg [^>]*>(.*)</seg>")


@dataclass(frozen=True)
class Archive:
    """A tar file with a parallel corpus of English and other languages, or with test sets.

    Attributes:
        address: URL of the archive.
        sha256: SHA-256 of the archive.
        pattern: Path of one side of the text in the archive. `{side}` is its language, `{other}` the language other
            than English.
        others: Languages other than English.
    """

    address: str
    sha256: str
    pattern: str = ""
    others: tuple[str, ...] = ("de", "fr")

    def side(self, other: str, side: str) -> Path:
        """The text of one language, downloaded and unpacked if needed."""
        return self.member(self.pattern.format(other=other, side=side))

    def member(self, name: str) -> Path:
        """A file of the archive, downloaded and unpacked if needed."""
        return unpack(download(self.address, self.sha256, "wmt"), name, "wmt")


TEST_SETS = Archive(
    "http://data.statmt.org/wmt19/translation-task/dev.tgz",
    "7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7",
)
EUROPARL = Archive(
    "http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz",
    "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
    "training/europarl-v7.{other}-en.{side}",
)
COMMON_CRAWL = Archive(
    "http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz",
    "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
    "commoncrawl.{other}-en.{side}",
)
UNITED_NATIONS = Archive(
    "http://www.statmt.org/wmt13/training-parallel-un.tgz",
    "29141b5c1eba149a94f7a59d3b1a834b2e47fe0f8758d68dcd77a3d3f497ee47",
    "un/undoc.2000.{other}-en.{side}",
    ("fr",),
)
GIGA_FRENCH = Archive(
    "http://www.statmt.org/wmt10/training-giga-fren.tar",
    "3ff8319f6919393520559bfbc7ad6a747ec81b3abc7be9993b338d4b017b4d9a",
    "giga-fren.release2.fixed.{side}.gz",
    ("fr",),
)
NEWS_COMMENTARY = {
    "wmt14": Archive(
        "http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz",
        "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
        "training/news-commentary-v9.{other}-en.{side}",
    ),
    "wmt15": Archive(
        "http://www.statmt.org/wmt15/training-parallel-nc-v10.tgz",
        "11e053e7ea29e87e69a1ad05e61cb559820947ecec144ea8c1d6cf05017c9602",
        "news-commentary-v10.{other}-en.{side}",
    ),
}
LANGUAGES = {"wmt14": ("de", "fr"), "wmt15": ("de",)}
"""Languages of each year, other than English."""

TESTS = {"wmt14": {"test": "newstest2014"}, "wmt15": {"test": "newstest2014", "test_2015": "newstest2015"}}
VALIDATION = "newstest2013"

Files = Mapping[str, list[tuple[Path, Path]]]


def published_files(year: str, source: str, target: str) -> Files:
    """Splits of the text of a year, downloaded if needed: gigabytes, and tens of gigabytes for French.

    Args:
        year: `"wmt14"` or `"wmt15"`.
        source: Source language.
        target: Target language. One of the two must be English.

    Returns:
        For each split, pairs of a source file and a target file.

    Raises:
        ValueError: If the year has no text in the two languages, or a downloaded file is not the published one.
        ConnectionError: If a file cannot be downloaded.
    """
    others = [language for language in (source, target) if language != "en"]
    if len(others) != 1 or others[0] not in LANGUAGES[year]:
        raise ValueError(
            f"{year} has text in English (en) and one of {LANGUAGES[year]}. Received: {source!r} and {target!r}"
        )
    (other,) = others

    corpora = (EUROPARL, COMMON_CRAWL, NEWS_COMMENTARY[year], UNITED_NATIONS, GIGA_FRENCH)
    tests = {"valid": VALIDATION, **TESTS[year]}
    return {
        "train": [(c.side(other, source), c.side(other, target)) for c in corpora if other in c.others],
        **{split: [(_test(test, other, source), _test(test, other, target))] for split, test in tests.items()},
    }


EUROPARL_PAIRS = {"train": 100_000, "valid": 1_000, "test": 1_000}
EUROPARL_LONGEST = 100
"""Maximum number of words of a sentence."""


def europarl_files(source: str, target: str, data_dir: Path | None = None) -> Files:
    """Splits of Europarl v7 as large as those of Zhang and Qi.

    The paper does not say which pairs they are. Here they are the first ones whose two sentences have 1 to 100 words:
    100,000 to train, then 1,000 to validate, then 1,000 to test.

    Args:
        source: Source language.
        target: Target language. One of the two must be English, the other French or German.
        data_dir: Folder with the archive of WMT13. Default: it is downloaded.

    Raises:
        ValueError: If there is no text in the two languages, the text is too short, or the archive is not the
            published one.
        FileNotFoundError: If the folder does not exist.
        ConnectionError: If the archive cannot be downloaded.
    """
    others = [language for language in (source, target) if language != "en"]
    if len(others) != 1 or others[0] not in EUROPARL.others:
        raise ValueError(
            f"Europarl is read in English (en) and one of {EUROPARL.others}. Received: {source!r} and {target!r}"
        )
    address, _, name = EUROPARL.address.rpartition("/")
    archive = find_file(name, EUROPARL.sha256, f"{address}/", "wmt", data_dir)
    sides = [unpack(archive, EUROPARL.pattern.format(other=others[0], side=side), "wmt") for side in (source, target)]
    folder = sides[0].parent / f"europarl-{others[0]}-en"
    files = {split: (folder / f"{split}.{source}", folder / f"{split}.{target}") for split in EUROPARL_PAIRS}
    if not all(path.is_file() for pair in files.values() for path in pair):
        folder.mkdir(exist_ok=True)
        pairs = zip(read_lines(sides[0]), read_lines(sides[1]), strict=True)
        short = (pair for pair in pairs if all(1 <= len(text.split()) <= EUROPARL_LONGEST for text in pair))
        for split, count in EUROPARL_PAIRS.items():
            chosen = list(islice(short, count))
            if len(chosen) < count:
                raise ValueError(f"{archive} needs {count:,} pairs for {split}. Received: {len(chosen):,}")
            for path, texts in zip(files[split], zip(*chosen, strict=True), strict=True):
                write_atomically(path, "".join(f"{text}\n" for text in texts).encode())
    return {split: [pair] for split, pair in files.items()}


def given_files(year: str, source: str, target: str, folder: Path) -> Files:
    """The same splits from a folder of text files such as `train.en` and `train.de.gz`, one sentence per line.

    Raises:
        FileNotFoundError: If a file is missing.
    """
    parts = {"train": "train", "valid": VALIDATION, **TESTS[year]}
    expected = ", ".join(f"{part}.{source} and {part}.{target}" for part in parts.values())

    def find(part: str, language: str) -> Path:
        paths = [folder / f"{part}.{language}{ending}" for ending in ("", ".gz")]
        for path in paths:
            if path.is_file():
                return path
        raise FileNotFoundError(f"There is no file {paths[0]} or {paths[1].name}. Expected {expected}.")

    return {split: [(find(part, source), find(part, target))] for split, part in parts.items()}


def _test(test: str, other: str, side: str) -> Path:
    """Path of one side of a test set, one sentence per line. All sets but that of 2013 are converted from SGML."""
    if test == VALIDATION:
        return TEST_SETS.member(f"dev/{test}.{side}")
    role = "ref" if side == "en" else "src"
    sgml = TEST_SETS.member(f"dev/{test}-{other}en-{role}.{side}.sgm")
    plain = sgml.with_suffix(".txt")
    if not plain.is_file():
        segments = (SEGMENT.search(line) for line in read_lines(sgml))
        lines = [" ".join(segment[1].split()) for segment in segments if segment]
        write_atomically(plain, "".join(f"{line}\n" for line in lines).encode())
    return plain
