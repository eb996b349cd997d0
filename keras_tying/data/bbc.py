"""The BBC news articles and their splits."""

import zipfile
from itertools import chain
from pathlib import Path, PurePosixPath

SPLIT_BY_REMAINDER = {0: "test", 10: "valid"}
MODULUS = 20
REPRINT_WORDS = 13
"""Consecutive words that an article has in common with one that it reprints."""


def bbc_news(archive: Path) -> dict[str, list[str]]:
    """Paragraphs of the articles in `bbc-fulltext.zip`, by split.

    Articles are numbered from 1 within each of the five classes. Numbers divisible by 20 are test text, numbers
    with remainder 10 are validation text, all others are training text: about 5%, 5% and 90% of each class.
    Articles are ordered by class and number. Headlines are paragraphs.

    The BBC published some articles twice, often with changes. An article of the training text is left out if one of
    its paragraphs has 13 consecutive words in common with a paragraph of the validation or test text.

    Raises:
        FileNotFoundError: If the archive does not exist.

    Reference:
        Greene and Cunningham, Practical Solutions to the Problem of Diagonal Dominance in Kernel Document
        Clustering, 2006.
    """
    articles: dict[str, list[list[str]]] = {"train": [], "valid": [], "test": []}
    with zipfile.ZipFile(archive) as files:
        for name in sorted(name for name in files.namelist() if PurePosixPath(name).stem.isdigit()):
            split = SPLIT_BY_REMAINDER.get(int(PurePosixPath(name).stem) % MODULUS, "train")
            articles[split].append([line for line in _decoded(files.read(name)).split("\n") if line.strip()])
    evaluated = set().union(*(_passages(article) for split in ("valid", "test") for article in articles[split]))
    articles["train"] = [article for article in articles["train"] if evaluated.isdisjoint(_passages(article))]
    return {split: [*chain.from_iterable(paragraphs)] for split, paragraphs in articles.items()}


def _passages(paragraphs: list[str]) -> set[tuple[str, ...]]:
    """All sequences of `REPRINT_WORDS` words, in lower case, within the paragraphs."""
    texts = (paragraph.lower().split() for paragraph in paragraphs)
    return {
        tuple(words[start : start + REPRINT_WORDS])
        for words in texts
        for start in range(len(words) - REPRINT_WORDS + 1)
    }


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:  # one article has Latin-1 pound signs
        return content.decode("latin-1")
