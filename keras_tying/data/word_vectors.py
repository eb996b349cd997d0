"""Word vectors in the text and binary formats of word2vec."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from keras_tying.data.text import BYTE_ORDER_MARK, END_OF_SENTENCE, UNKNOWN
from keras_tying.data.vocabulary import Vocabulary
from keras_tying.files import write_atomically

BINARY = ".bin"


def without_special_words(vocabulary: Vocabulary, matrix: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Words of a vocabulary and their embeddings, without `<unk>` and `<eos>`.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> vocabulary = kt.data.Vocabulary(["king", "<unk>", "queen", "<eos>"])
    >>> words, matrix = kt.data.without_special_words(vocabulary, np.array([[1, 2], [3, 4], [5, 6], [7, 8]]))
    >>> words, matrix.tolist()
    (['king', 'queen'], [[1.0, 2.0], [5.0, 6.0]])
    """
    kept = [i for i, word in enumerate(vocabulary.words) if word not in (UNKNOWN, END_OF_SENTENCE)]
    return vocabulary.decode(kept), np.asarray(matrix, np.float32)[kept]


def save_word_vectors(path: str | Path, words: list[str], matrix: np.ndarray) -> None:
    """Writes words and their vectors `[V, H]`, in the binary format if the file name ends in `.bin`, else as text.

    Raises:
        ValueError: If a word is empty or contains a space or a newline, which the formats do not allow.

    Example:

    >>> import tempfile, numpy as np, keras_tying as kt
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "vectors.txt")
    ...     kt.data.save_word_vectors(path, ["king", "queen"], np.array([[1.0, 0.5], [0.0, -2.0]]))
    ...     print(path.read_text(), end="")
    2 2
    king 1.0 0.5
    queen 0.0 -2.0
    """
    check_words(words)
    matrix = np.asarray(matrix, "<f4")
    parts = [f"{len(words)} {matrix.shape[1]}\n".encode()]
    for word, row in zip(words, matrix, strict=True):
        if Path(path).suffix == BINARY:
            parts.append(word.encode() + b" " + row.tobytes() + b"\n")
        else:
            parts.append(f"{word} {' '.join(map(repr, row.tolist()))}\n".encode())
    write_atomically(path, b"".join(parts))


def check_words(words: Iterable[str]) -> None:
    """Raises ValueError if a word cannot be in a word2vec file."""
    invalid = next((word for word in words if not word or " " in word or "\n" in word), None)
    if invalid is not None:
        raise ValueError(f"Words in a word2vec file must not be empty or contain spaces. Received: {invalid!r}")


def load_word_vectors(path: str | Path) -> tuple[list[str], np.ndarray]:
    """Words and vectors `float32 [V, H]` of a word2vec file: binary if the file name ends in `.bin`, else text.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is malformed or truncated, a word is there twice, or a number is NaN or beyond float32.

    Example:

    >>> import tempfile, numpy as np, keras_tying as kt
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "vectors.bin")
    ...     kt.data.save_word_vectors(path, ["king", "queen"], np.array([[1.0, 0.5], [0.0, -2.0]]))
    ...     words, matrix = kt.data.load_word_vectors(path)
    >>> words, matrix.tolist()
    (['king', 'queen'], [[1.0, 0.5], [0.0, -2.0]])
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}. Check the name.")
    content = path.read_bytes().removeprefix(BYTE_ORDER_MARK.encode())
    header, _, body = content.partition(b"\n")
    try:
        count, width = map(int, header.split())
        if count < 0 or width < 1:
            raise ValueError
    except ValueError:
        raise ValueError(
            f"{path}: expected the number of words and of dimensions in the first line. Received: {header[:60]!r}"
        ) from None
    read = _read_binary if path.suffix == BINARY else _read_text
    try:
        words, rows = read(body, count, width)
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path}: expected {count} words of {width} dimensions in word2vec's "
            f"{'binary' if path.suffix == BINARY else 'text'} format. Received: {error}"
        ) from None
    if len(set(words)) < count:
        twice = next(word for word, times in Counter(words).items() if times > 1)
        raise ValueError(f"{path}: expected one vector per word. Received: several of {twice!r}. Keep one of them.")
    with np.errstate(over="ignore"):
        matrix = np.array(rows, np.float32).reshape(count, width)
    finite = np.isfinite(matrix)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        place = f"word {row + 1}" if path.suffix == BINARY else f"line {row + 2}"
        raise ValueError(
            f"{path}: expected finite numbers that float32 holds. Received: {matrix[row, column]} in {place}, of "
            f"{words[row]!r}. Correct or remove this vector."
        )
    return words, matrix


def vectors_for(vocabulary: Vocabulary, path: str | Path) -> np.ndarray:
    """Vectors of a word2vec file for the words of a vocabulary, `float32 [V, H]`. Missing words have the value NaN.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is malformed or truncated, or has none of the words.

    Example:

    >>> import tempfile, numpy as np, keras_tying as kt
    >>> from pathlib import Path
    >>> vocabulary = kt.data.Vocabulary(["queen", "tulip", "<unk>", "<eos>"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "vectors.txt")
    ...     kt.data.save_word_vectors(path, ["king", "queen"], np.array([[1.0, 0.5], [0.0, -2.0]]))
    ...     kt.data.vectors_for(vocabulary, path).tolist()
    [[0.0, -2.0], [nan, nan], [nan, nan], [nan, nan]]
    """
    return vectors_by_word(vocabulary, *load_word_vectors(path), path)


def vectors_by_word(vocabulary: Vocabulary, words: Sequence[str], matrix: np.ndarray, origin: str | Path) -> np.ndarray:
    """Rows of `matrix`, which are the vectors of `words`, for the words of a vocabulary; as `vectors_for`.

    Args:
        vocabulary: The vocabulary.
        words: Word of each row.
        matrix: Vectors `[N, H]`.
        origin: Where they are from, for error messages.

    Raises:
        ValueError: If no word of the vocabulary has a vector.
    """
    rows = {word: row for row, word in enumerate(words)}
    if not (rows.keys() & set(vocabulary.words)) - {UNKNOWN, END_OF_SENTENCE}:
        raise ValueError(
            f"{origin} has a vector for none of the {len(vocabulary):,} words. Give vectors of this language, in the "
            f"same case. Received: vectors of {', '.join(map(repr, words[:3])) or 'no words'}"
        )
    vectors = np.full((len(vocabulary), matrix.shape[1]), np.nan, np.float32)
    for i, word in enumerate(vocabulary.words):
        if word in rows:
            vectors[i] = matrix[rows[word]]
    return vectors


def _read_text(body: bytes, count: int, width: int) -> tuple[list[str], list]:
    lines = body.decode().removesuffix("\n").split("\n") if body else []
    if len(lines) != count:
        raise ValueError(f"{len(lines)} words")
    words, rows = [], []
    for number, line in enumerate(lines, start=2):
        word, *values = line.rstrip(" \r").split(" ")  # word2vec and fastText end a line with a space
        if len(values) != width:
            raise ValueError(f"{len(values)} dimensions in line {number}")
        words.append(word)
        rows.append([float(value) for value in values])
    return words, rows


def _read_binary(body: bytes, count: int, width: int) -> tuple[list[str], list]:
    words, rows, start = [], [], 0
    for _ in range(count):
        space = body.index(b" ", start)
        words.append(body[start:space].lstrip(b"\n").decode())
        start = space + 1 + 4 * width
        if start > len(body):
            raise ValueError(f"an end within word {len(words)}")
        rows.append(np.frombuffer(body, "<f4", width, space + 1))
    if body[start:].strip(b"\r\n"):
        raise ValueError(f"{len(body) - start:,} bytes after the last word")
    return words, rows
