"""The BBC news articles and their splits."""

import zipfile
from pathlib import Path, PurePosixPath

SPLIT_BY_REMAINDER = {0: "test", 10: "valid"}
MODULUS = 20


def bbc_news(archive: Path) -> dict[str, list[str]]:
    """Paragraphs of the articles in `bbc-fulltext.zip`, by split.

    Articles are numbered from 1 within each of the five classes. Numbers divisible by 20 are test text, numbers
    with remainder 10 are validation text, all others are training text: about 5%, 5% and 90% of each class.
    Articles are ordered by class and number. Headlines are paragraphs.

    Raises:
        FileNotFoundError: If the archive does not exist.

    Reference:
        Greene and Cunningham, Practical Solutions to the Problem of Diagonal Dominance in Kernel Document
        Clustering, 2006.
    """
    splits: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    with zipfile.ZipFile(archive) as files:
        for name in sorted(name for name in files.namelist() if PurePosixPath(name).stem.isdigit()):
            split = SPLIT_BY_REMAINDER.get(int(PurePosixPath(name).stem) % MODULUS, "train")
            splits[split] += [line for line in _decoded(files.read(name)).split("\n") if line.strip()]
    return splits


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:  # one article has Latin-1 pound signs
        return content.decode("latin-1")
