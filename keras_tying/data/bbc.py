"""The BBC news articles, which come without a split of their own."""

import zipfile
from pathlib import Path, PurePosixPath

SPLIT_BY_REMAINDER = {0: "test", 10: "valid"}
MODULUS = 20


def bbc_news(archive: Path) -> dict[str, list[str]]:
    """Paragraphs of the articles of `bbc-fulltext.zip` by split.

    Articles are numbered from 1 within each of the five classes. Numbers that 20 divides are test text, those
    that leave 10 are validation text, all others training text: about 90, 5 and 5 in 100 of each class.
    Articles follow each other by class and number; headlines are paragraphs.

    Raises:
        FileNotFoundError: If there is no such archive.

    Reference:
        Greene and Cunningham, Practical Solutions to the Problem of Diagonal Dominance in Kernel Document
        Clustering, 2006.
    """
    splits: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    with zipfile.ZipFile(archive) as files:
        for name in sorted(name for name in files.namelist() if PurePosixPath(name).stem.isdigit()):
            split = SPLIT_BY_REMAINDER.get(int(PurePosixPath(name).stem) % MODULUS, "train")
            splits[split] += [line for line in _decoded(files.read(name)).splitlines() if line.strip()]
    return splits


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:  # one article keeps its pound signs in another encoding
        return content.decode("latin-1")
