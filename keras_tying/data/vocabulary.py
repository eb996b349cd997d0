"""Vocabulary: words and their ids."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keras_tying.checks import check_integer
from keras_tying.data.text import BYTE_ORDER_MARK, END_OF_SENTENCE, LONGEST_LINE, UNKNOWN, read_lines
from keras_tying.files import write_atomically
from keras_tying.ids import check_ids

if TYPE_CHECKING:
    from keras_tying.data.prepared.text import PreparedText

COUNTED_AT_ONCE = 2**20
"""Number of tokens in memory while the words of a text on disk are counted."""


class Vocabulary:
    """The words of a model. The id of a word is its index.

    Args:
        words: Distinct words, including `<unk>` and `<eos>`. A word is not empty, has no line break (`save` writes
            one word per line) and can be encoded as UTF-8.

    Raises:
        ValueError: If a word is not allowed or occurs twice, or `<unk>` or `<eos>` is missing.

    Example:

    >>> import keras_tying as kt
    >>> vocabulary = kt.data.Vocabulary.from_tokens("a rose is a rose <eos>".split())
    >>> vocabulary.words
    ['a', 'rose', '<eos>', 'is', '<unk>']
    >>> vocabulary.decode(vocabulary.encode(["a", "tulip"]))
    ['a', '<unk>']
    """

    def __init__(self, words: Sequence[str]):
        self.words = list(words)
        for i, word in enumerate(self.words):
            if not isinstance(word, str) or not _fits_a_line(word):
                raise ValueError(f"A word is text without line breaks and not empty. Received: {word!r} as word {i}")
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
        """A vocabulary sorted by decreasing count, then alphabetically. `<unk>` counts for all words that are left out.

        Words of 262,144 characters or more, with a NUL, or with a byte order mark at their start, which the file of a
        vocabulary cannot hold, are left out too.

        Args:
            counts: Number of occurrences of each word in the training text.
            size: Optional integer, the maximum number of words, including `<unk>` and `<eos>`.
            minimum_count: Words with fewer occurrences are left out.

        Raises:
            ValueError: If no word is left, or `size` leaves no room for one.
        """
        if size is not None:
            check_integer("size", size, least=3)  # <unk>, <eos> and one word
        check_integer("minimum_count", minimum_count)
        specials = (END_OF_SENTENCE, UNKNOWN)
        ordinary = [w for w, c in counts.items() if c >= minimum_count and w not in specials and _can_be_read(w)]
        if not ordinary:
            others = len(counts.keys() - set(specials))
            raise ValueError(
                f"The training text must have a word that occurs at least {minimum_count} times. Received: "
                + (f"{others:,} different words, which occur less often." if others else "a text without words.")
            )
        ordinary.sort(key=lambda word: (-counts[word], word))
        kept = {word: counts[word] for word in (*ordinary[: None if size is None else size - 2], END_OF_SENTENCE)}
        kept[UNKNOWN] = sum(counts.values()) - sum(kept.values())
        return cls(sorted(kept, key=lambda word: (-kept[word], word)))

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def check_size(self, model_size: int, words: str = "words") -> None:
        """Raises ValueError unless a model has as many words; `words` is the message's name for them."""
        if len(self) != model_size:
            raise ValueError(
                f"The model has {model_size} {words}. Received: a vocabulary of {len(self)}. Give the one of its "
                "training, or a copy of the model by `resized`."
            )

    def encode(self, tokens: Iterable[str]) -> np.ndarray:
        """Ids of tokens, `int32 [N]`. Tokens outside the vocabulary get the id of `<unk>`.

        Raises:
            ValueError: If `tokens` is a text, whose tokens would be its characters.
        """
        if isinstance(tokens, (str, bytes)):
            raise ValueError(
                f"`tokens` must be words, for example those of `kt.data.tokenize(text)`. Received: tokens={tokens!r}"
            )
        get, unknown = self._ids.get, self.unknown_id
        return np.fromiter((get(token, unknown) for token in tokens), np.int32)

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Words of ids.

        Raises:
            ValueError: If an id is outside the vocabulary.
        """
        return [self.words[i] for i in check_ids(np.array([*ids]), len(self.words))]

    def counts(self, ids: "np.ndarray | PreparedText") -> np.ndarray:
        """Number of occurrences of each word in a text of ids `[N]`, in memory or on disk: `int64 [V]`."""
        counts = np.zeros(len(self), np.int64)
        for start in range(0, len(ids), COUNTED_AT_ONCE):
            counts += np.bincount(ids[start : start + COUNTED_AT_ONCE], minlength=len(self))
        return counts

    def frequencies(self, ids: "np.ndarray | PreparedText") -> dict[str, int]:
        """Number of occurrences of each word in a text of ids `[N]`, in order of ids.

        >>> import numpy as np, keras_tying as kt
        >>> vocabulary = kt.data.Vocabulary(["a", "rose", "<eos>", "<unk>"])
        >>> vocabulary.frequencies(np.array([0, 1, 0, 2]))
        {'a': 2, 'rose': 1, '<eos>': 1, '<unk>': 0}
        """
        return dict(zip(self.words, self.counts(ids).tolist(), strict=True))

    @property
    def sha256(self) -> str:
        """SHA-256 of the words in order of ids."""
        return hashlib.sha256(self._lines()).hexdigest()

    def _lines(self) -> bytes:
        return "".join(f"{word}\n" for word in self.words).encode()

    def save(self, path: str | Path) -> None:
        """Writes one word per line, in order of ids.

        Raises:
            ValueError: If `load` would not read a word again: one of 262,144 characters or with a NUL, or a first one
                that starts with a byte order mark. Nothing is written then.
        """
        for i, word in enumerate(self.words):
            if not _can_be_read(word if i == 0 else word.lstrip(BYTE_ORDER_MARK)):
                raise ValueError(
                    "The file of a vocabulary cannot hold a word of 262,144 characters or with a NUL, nor start with "
                    f"a byte order mark. Received: {word[:40]!r} as word {i}. Use a vocabulary without it."
                )
        write_atomically(path, self._lines())

    @classmethod
    def load(cls, path: str | Path) -> "Vocabulary":
        """Reads a file written by `save`.

        Raises:
            FileNotFoundError: If the file does not exist.
            ValueError: If the file does not hold a vocabulary. The message gives its path.
        """
        words = list(read_lines(path))
        try:
            return cls(words)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def _can_be_read(word: str) -> bool:
    """Whether `read_lines` reads a word again.

    A NUL makes a file binary, lines have at most 1 MiB, and a byte order mark at the start of a file is dropped.
    """
    return (
        "\0" not in word and not word.startswith(BYTE_ORDER_MARK) and len(word) < LONGEST_LINE // 4
    )  # 4 bytes a character


def _fits_a_line(word: str) -> bool:
    """Whether a word is a line of a UTF-8 file: surrogates cannot be written."""
    return bool(word) and not word.endswith("\r") and not re.search("[\n\ud800-\udfff]", word)
