"""Text files and their tokenization."""

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from itertools import chain
from pathlib import Path

END_OF_SENTENCE = "<eos>"
UNKNOWN = "<unk>"

PUNCTUATION = r"([!-/:-@\[-`{-~])"
"""ASCII punctuation and symbols. The pattern means the same in Python and in RE2, which TensorFlow uses."""

NOT_LETTERS = r"<unk>|[\x00-\x60\x7b-\x7f]"
"""`<unk>` and all ASCII characters but lower-case letters, for Python and RE2."""

LONGEST_LINE = 2**20

TOKENIZATIONS = ("spaces", "plain", "letters")


def tokenize(line: str, tokenization: str) -> list[str]:
    """Splits a line into tokens.

    Args:
        line: Text without a line break.
        tokenization: One of the following names.

            - `"spaces"`: the tokens are separated by spaces.
            - `"plain"`: text is lower-cased, and each ASCII punctuation mark is a token.
            - `"letters"`: as in text8, text is lower-cased, and ASCII characters other than letters separate words.

    Example:

    >>> tokenize("It's the yield_stmt.", "plain")
    ['it', "'", 's', 'the', 'yield', '_', 'stmt', '.']
    """
    check_tokenization(tokenization)
    if tokenization == "plain":
        line = re.sub(PUNCTUATION, r" \1 ", line.lower())
    elif tokenization == "letters":
        line = re.sub(NOT_LETTERS, " ", line.lower())
    return line.split()


def check_tokenization(tokenization: str) -> None:
    if tokenization not in TOKENIZATIONS:
        raise ValueError(f"`tokenization` must be one of {TOKENIZATIONS}. Received: {tokenization!r}")


def read_lines(path: str | Path) -> Iterator[str]:
    """Lines of a UTF-8 file, without line breaks. The file is gzipped if its name ends in `.gz`.

    Lines longer than 1 MiB, such as the text of text8, are split after a space, so that they need not fit into memory.

    Raises:
        FileNotFoundError: If the file does not exist.
        IsADirectoryError: If `path` is a folder.
        ValueError: If the file is empty or not an intact gzip file, or a line is not UTF-8. The message gives the line
            number.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"Expected a text file but {path} is a folder. Name a file inside it.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}. Check the name or the folder given.")
    if path.stat().st_size == 0:
        raise ValueError(f"The file {path} is empty. Expected at least one line of text.")
    with _opened(path) as file:
        number, ended = 0, True
        while line := file.readline(LONGEST_LINE):
            while not line.endswith((b" ", b"\n")) and (byte := file.read(1)):
                line += byte
            number, ended = number + ended, line.endswith(b"\n")
            try:
                yield line.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}, line {number}: expected UTF-8, received byte {line[error.start]:#04x} at "
                    f"position {error.start + 1}. Convert the file, for example with iconv."
                ) from None


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader | gzip.GzipFile]:
    if path.suffix != ".gz":
        with path.open("rb") as file:
            yield file
        return
    try:
        with gzip.open(path, "rb") as file:
            yield file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is not an intact gzip file: {error}. Download or compress it again.") from None


def file_tokens(paths: Iterable[str | Path], tokenization: str) -> Iterator[str]:
    """Tokens of files, in order, with `<eos>` after each line."""
    return chain.from_iterable(tokens(read_lines(path), tokenization) for path in paths)


def tokens(lines: Iterable[str], tokenization: str) -> Iterator[str]:
    """Tokens of lines, with `<eos>` after each line."""
    for line in lines:
        yield from tokenize(line, tokenization)
        yield END_OF_SENTENCE
