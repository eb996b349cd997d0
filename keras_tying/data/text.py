"""Text files to lines of tokens."""

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

END_OF_SENTENCE = "<eos>"
UNKNOWN = "<unk>"

PUNCTUATION = r"([!-/:-@\[-`{-~])"
"""ASCII punctuation and symbols, in a form that both Python and TensorFlow's RE2 read alike."""

TOKENIZATIONS = ("spaces", "plain")


def tokenize(line: str, tokenization: str) -> list[str]:
    """Splits a line into tokens.

    Args:
        line: Text without a line break.
        tokenization: `"spaces"` for text whose tokens stand apart already; `"plain"` for running
            text, which is lower-cased and has ASCII punctuation set apart.

    Example:

    >>> tokenize("It's the yield_stmt.", "plain")
    ['it', "'", 's', 'the', 'yield', '_', 'stmt', '.']
    """
    check_tokenization(tokenization)
    if tokenization == "plain":
        line = re.sub(PUNCTUATION, r" \1 ", line.lower())
    return line.split()


def check_tokenization(tokenization: str) -> None:
    if tokenization not in TOKENIZATIONS:
        raise ValueError(f"`tokenization` must be one of {TOKENIZATIONS}. Received: {tokenization!r}")


def read_lines(path: str | Path) -> Iterator[str]:
    """Lines of a UTF-8 file, gzipped if its name ends in `.gz`, without their breaks.

    Raises:
        FileNotFoundError: If there is no such file.
        IsADirectoryError: If `path` is a folder.
        ValueError: If the file is empty or not what gzip wrote, or a line is not UTF-8; the line's number is
            given.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"Expected a text file but {path} is a folder. Name a file inside it.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}. Check the name or the folder given.")
    if path.stat().st_size == 0:
        raise ValueError(f"The file {path} is empty. Expected at least one line of text.")
    for number, line in enumerate(_byte_lines(path), start=1):
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, line {number}: expected UTF-8, received byte {line[error.start]:#04x} at "
                f"position {error.start + 1}. Convert the file, for example with iconv."
            ) from None


def _byte_lines(path: Path) -> Iterator[bytes]:
    if path.suffix != ".gz":
        with path.open("rb") as file:
            yield from file
        return
    try:
        with gzip.open(path, "rb") as file:
            yield from file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is not a whole gzip file: {error}. Fetch or compress it anew.") from None


def tokens(lines: Iterable[str], tokenization: str) -> Iterator[str]:
    """All tokens of all lines, each line closed by `<eos>`."""
    for line in lines:
        yield from tokenize(line, tokenization)
        yield END_OF_SENTENCE
