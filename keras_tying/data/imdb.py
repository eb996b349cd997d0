"""The IMDB movie reviews and their splits."""

import tarfile
from pathlib import Path, PurePosixPath

VALIDATION_EVERY = 20
LINE_BREAK = "<br />"


def imdb_reviews(archive: Path) -> dict[str, list[str]]:
    """Paragraphs of the reviews in `aclImdb_v1.tar.gz`, by split.

    The 25,000 reviews in the test folder are test text. Of the other 75,000, labelled or not, those whose number
    within their class is divisible by 20 are validation text, all others are training text. Reviews are ordered by
    class (`neg`, `pos`, `unsup`) and number. A review of the training text is left out if the validation or test text
    has the same one.

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
        splits["valid" if part == "train" and number % VALIDATION_EVERY == 0 else part].append(review)
    evaluated = {*splits["valid"], *splits["test"]}
    splits["train"] = [review for review in splits["train"] if review not in evaluated]
    return {split: [line for review in each for line in _paragraphs(review)] for split, each in splits.items()}


def _paragraphs(review: str) -> list[str]:
    return [line for line in review.replace(LINE_BREAK, "\n").split("\n") if line.strip()]
