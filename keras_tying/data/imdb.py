"""The IMDB movie reviews and their splits."""

import tarfile
from pathlib import Path, PurePosixPath

VALIDATION_EVERY = 20
LINE_BREAK = "<br />"


def imdb_reviews(archive: Path) -> dict[str, list[str]]:
    """Paragraphs of the reviews in `aclImdb_v1.tar.gz`, by split.

    The 25,000 reviews in the test folder are test text. Of the other 75,000, labelled or not, those whose number
    within their class is divisible by 20 are validation text, all others are training text. Reviews are ordered by
    class (`neg`, `pos`, `unsup`) and number.

    Raises:
        FileNotFoundError: If the archive does not exist.

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
        paragraphs = review.replace(LINE_BREAK, "\n").split("\n")
        splits[split] += [line for line in paragraphs if line.strip()]
    return splits
