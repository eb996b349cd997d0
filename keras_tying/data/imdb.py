"""The IMDB movie reviews, whose training text has no validation part of its own."""

import tarfile
from pathlib import Path, PurePosixPath

VALIDATION_EVERY = 20
LINE_BREAK = "<br />"


def imdb_reviews(archive: Path) -> dict[str, list[str]]:
    """Paragraphs of the reviews of `aclImdb_v1.tar.gz` by split.

    The 25,000 reviews of its test folder are test text. Of its 75,000 others, labelled or not, those whose number
    within their class 20 divides are validation text, all others training text. Reviews follow each other by class
    (`neg`, `pos`, `unsup`) and number.

    Raises:
        FileNotFoundError: If there is no such archive.

    Reference:
        Maas et al., Learning Word Vectors for Sentiment Analysis, 2011.
    """
    reviews = {}
    with tarfile.open(archive) as files:
        for entry in files:
            path = PurePosixPath(entry.name)
            name = path.stem.partition("_")[0]  # the rest is the rating
            content = files.extractfile(entry)
            if content is not None and path.suffix == ".txt" and name.isdigit():
                part, label = path.parts[-3:-1]
                reviews[part, label, int(name)] = content.read().decode("utf-8")
    splits: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for (part, _, number), review in sorted(reviews.items()):
        split = "valid" if part == "train" and number % VALIDATION_EVERY == 0 else part
        paragraphs = review.replace(LINE_BREAK, "\n").splitlines()
        splits[split] += [line for line in paragraphs if line.strip()]
    return splits
