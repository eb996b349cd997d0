"""Vocabulary: words and their ids."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from keras_tying.data.text import END_OF_SENTENCE, UNKNOWN, read_lines
from keras_tying.files import write_atomically
from keras_tying.ids import check_ids


class Vocabulary:
    """The words of a model. The id of a word is its index.

    Args:
        words: Distinct words, including `<unk>` and `<eos>`.

    Raises:
        ValueError: If a word occurs twice, or `<unk>` or `<eos>` is missing.

    Example:

    >>> vocabulary = Vocabulary.from_tokens("a rose is a rose <eos>".split())
    >>> vocabulary.words
    ['a', 'rose', '<eos>', 'is', '<unk>']
    >>> vocabulary.decode(vocabulary.encode(["a", "tulip"]))
    ['a', '<unk>']
    """

    def __init__(self, words: Sequence[str]):
        self.words = list(words)
        self._ids = {word: i for i, word in enumerate(self.words)}
        if len(self._ids) != len(self.words):
            duplicate = next(word for word, count in Counter(self.words).items() if count > 1)
            raise ValueError(f"A vocabulary lists each word once. Received twice: {duplicate!r}")
        for special in (UNKNOWN, END_OF_SENTENCE):
            if special not in self._ids:
                raise ValueError(f"The vocabulary of {len(self.words)} words lacks {special!r}. Add it.")
        self.unknown_id = self._ids[UNKNOWN]
        self.end_id = self._ids[END_OF_SENTENCE]

    @classmethod
    def from_tokens(cls, tokens: Iterable[str], size: int | None = None, minimum_count: int = 1) -> "Vocabulary":
        """The vocabulary of a training text; see `from_counts`."""
        return cls.from_counts(Counter(tokens), size, minimum_count)

    @classmethod
    def from_counts(cls, counts: Counter[str], size: int | None = None, minimum_count: int = 1) -> "Vocabulary":
        """A vocabulary sorted by decreasing count, then alphabetically.

        Args:
            counts: Number of occurrences of each word in the training text.
            size: Optional integer, the maximum number of words, including `<unk>` and `<eos>`.
            minimum_count: Words with fewer occurrences are left out.

        Raises:
            ValueError: If the text has no tokens or `size` leaves no room for a word.
        """
        if size is not None and size < 3:
            raise ValueError(f"`size` must be at least 3: <unk>, <eos> and one word. Received: size={size}")
        if not counts:
            raise ValueError("The training text must have at least one token. Received: a text without tokens.")
        specials = (END_OF_SENTENCE, UNKNOWN)
        ordinary = [w for w, c in counts.items() if c >= minimum_count and w not in specials]
        ordinary.sort(key=lambda word: (-counts[word], word))
        kept = [*ordinary[: None if size is None else size - 2], *specials]
        return cls(sorted(kept, key=lambda word: (-counts[word], word)))

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def encode(self, tokens: Iterable[str]) -> np.ndarray:
        """Ids of tokens, `int32 [N]`. Tokens outside the vocabulary get the id of `<unk>`."""
        get, unknown = self._ids.get, self.unknown_id
        return np.fromiter((get(token, unknown) for token in tokens), np.int32)

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Words of ids.

        Raises:
            ValueError: If an id is outside the vocabulary.
        """
        ids = list(ids)
        check_ids(np.array(ids, int), len(self.words))
        return [self.words[i] for i in ids]

    @property
    def sha256(self) -> str:
        """SHA-256 of the words in order of ids."""
        return hashlib.sha256(self._lines()).hexdigest()

    def _lines(self) -> bytes:
        return "".join(f"{word}\n" for word in self.words).encode()

    def save(self, path: str | Path) -> None:
        """Writes one word per line, in order of ids."""
        write_atomically(path, self._lines())

    @classmethod
    def load(cls, path: str | Path) -> "Vocabulary":
        """Reads a file written by `save`."""
        return cls(list(read_lines(path)))
