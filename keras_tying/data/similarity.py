"""Word-similarity sets: pairs of words with human similarity scores."""

import math
from dataclasses import dataclass
from pathlib import Path

from keras_tying.data.downloads import find_file
from keras_tying.data.text import read_lines

ADDRESS = "https://raw.githubusercontent.com/mfaruqui/eval-word-vectors/master/data/word-sim/"
SETS = {
    "SimLex-999": ("EN-SIMLEX-999.txt", "405394ffb7d25f6d0e3c041f87c9f27d29dc6b047506769953e85c4523b11685"),
    "Verb-143": ("EN-VERB-143.txt", "7259e19961c81912aa4c72de0102e480b2ad2bb9f4ce97d036fbde8e1a403001"),
    "MEN": ("EN-MEN-TR-3k.txt", "888b13580faa362c7b11da0a670258cf1b1eb4bf0ecbcd418918729a3bd3f43a"),
    "Rare-Word": ("EN-RW-STANFORD.txt", "5108d54dfc746f44f9c3d7e31d2857c37cf71430bc1594175a61a3b89bb0ae1f"),
    "MTurk-771": ("EN-MTurk-771.txt", "04dc297c9e86b6fa7cf8ef0e4ba2e2c8d3399ec68d92fb7a53c0b4aae27198b5"),
}


@dataclass(frozen=True)
class SimilaritySet:
    """Pairs of words and their human scores. A higher score means more similar."""

    name: str
    pairs: list[tuple[str, str]]
    scores: list[float]


def load_similarity_sets(data_dir: str | Path | None = None) -> list[SimilaritySet]:
    """The five sets of Press and Wolf: SimLex-999, Verb-143, MEN, Rare-Word and MTurk-771.

    Args:
        data_dir: Folder of the files. Default: the files are downloaded and their SHA-256 is checked.

    Raises:
        FileNotFoundError: If `data_dir` or a file in it is missing.
        ValueError: If a file is not the published one.
        ConnectionError: If a file cannot be downloaded.

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, section 4.1.
    """
    folder = None if data_dir is None else Path(data_dir)
    return [
        read_similarity_set(find_file(file, sha256, ADDRESS, "word-similarity", folder), name)
        for name, (file, sha256) in SETS.items()
    ]


def read_similarity_set(path: str | Path, name: str | None = None) -> SimilaritySet:
    """Reads lines of two words and a score, separated by tabs or spaces.

    Args:
        path: UTF-8 file.
        name: Name of the set. Default: the name of the file.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is empty or a line is malformed. The message gives the line number.
    """
    pairs, scores = [], []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            first, second, score = line.split()
            scores.append(float(score))
            if not math.isfinite(scores[-1]):
                raise ValueError
        except ValueError:
            raise ValueError(
                f"{path}, line {number}: expected two words and a number, separated by tabs. Received: {line!r}"
            ) from None
        pairs.append((first, second))
    return SimilaritySet(name or Path(path).stem, pairs, scores)
