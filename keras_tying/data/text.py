"""Text files and their tokenization."""

import gzip
import logging
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from io import BufferedReader
from pathlib import Path

END_OF_SENTENCE = "<eos>"
UNKNOWN = "<unk>"

BYTE_ORDER_MARK = "\ufeff"
WHITESPACE = "[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
"""What `str.split` splits at, for RE2, which TensorFlow uses."""

SEPARATORS = r"\x00-\x20\x7f-\xa0" + "\u1680\u180e\u2000-\u200b\u200e\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff"
"""White space, controls and invisible characters other than joiners, as part of a character class."""
CJK = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U0001b000-\U0001b16f\U00020000-\U0003fffd"
)
"""Characters of scripts without spaces between the words of Chinese and Japanese, as part of a character class."""
JOINED_TO_EMOJI = "\u200d\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff"
"""Joiner, variation selectors, keycap and skin tones, as part of a character class."""

LONGEST_LINE = 2**20
"""Bytes."""
LOOKED_AT = 8000
"""Number of bytes at the start of a file in which binary files have a NUL."""
CHARACTERS_LOOKED_AT = 100_000
"""Number of characters by which a text is found to be tokenized or not."""

TOKENIZATIONS = ("words", "spaces", "plain", "letters")

MISMATCHES = {
    "spaces": (
        r"\w([,;:!?]\s|[.,;:!?]\s*$)",
        'Many lines have words that end in punctuation, such as %r: tokenization "words" is for raw text',
    ),
    "words": (
        r"<unk>|(^|\s)([,.]|n't|'s|@[-,.]@)(\s|$)",
        'Many lines have tokens such as %r: tokenization "spaces" is for text that is tokenized already',
    ),
}
"""What lines have that are for another tokenization, and a warning of it."""

MANY_UNKNOWN = 0.3
"""Share of unknown tokens above which a vocabulary does not fit a text."""
MISFIT = (
    "%s of the start of the %s text are words that the vocabulary lacks, so its perplexity says little of the text. "
    "Expected: a larger vocabulary (a smaller minimum count gives one), or text of this tokenization (%r), case and "
    "language"
)

log = logging.getLogger(__name__)


def tokenize(line: str, tokenization: str) -> list[str]:
    """Splits a line into tokens. A byte order mark at its start is dropped.

    The SavedModels split text into the same tokens.

    Args:
        line: Text without a line break.
        tokenization: One of the following names.

            - `"words"`, for raw text: each punctuation mark, symbol and Chinese or Japanese character is a token.
              Numbers, contractions and words with hyphens are not split. `<unk>` and `<eos>` are words.
            - `"spaces"`, for text that is tokenized already: the tokens are separated by white space.
            - `"plain"`: text is lower-cased, and each ASCII punctuation mark is a token.
            - `"letters"`: as in text8, text is lower-cased, and ASCII characters other than letters separate words.

    Raises:
        ValueError: If there is no such tokenization.

    Example:

    >>> import keras_tying as kt
    >>> kt.data.tokenize("“It's a well-known yield_stmt”, he said: 3.14!", "words")
    ['“', "It's", 'a', 'well-known', 'yield_stmt', '”', ',', 'he', 'said', ':', '3.14', '!']
    >>> kt.data.tokenize("It's the yield_stmt.", "plain")
    ['it', "'", 's', 'the', 'yield', '_', 'stmt', '.']
    """
    if tokenization == "words":
        return re.findall(word_pattern(), line)
    line = line.removeprefix(BYTE_ORDER_MARK)
    if is_lower_cased(tokenization):
        line = line.lower() if line.isascii() else line.translate(lower_case())
    for pattern, replacement in rewrites(tokenization):
        line = re.sub(pattern, replacement, line)
    return line.split()


def check_tokenization(tokenization: str) -> None:
    if tokenization not in TOKENIZATIONS:
        raise ValueError(f"`tokenization` must be one of {TOKENIZATIONS}. Received: {tokenization!r}")


def is_lower_cased(tokenization: str) -> bool:
    """Whether a tokenization lower-cases text, by `lower_case`, before `rewrites`."""
    return tokenization in ("plain", "letters")


@cache
def lower_case() -> dict[int, int]:
    """Lower-case code points of upper-case ones. Unlike `str.lower`, it does not depend on neighbours.

    A character whose lower case has several characters stays as it is.
    """
    pairs = ((code, chr(code).lower()) for code in range(0x110000))
    return {code: ord(lower) for code, lower in pairs if len(lower) == 1 and ord(lower) != code}


@cache
def rewrites(tokenization: str) -> tuple[tuple[str, str], ...]:
    """The tokenization as regular expressions and replacements, to be applied in order.

    The tokens of the result are separated by white space. The patterns mean the same in Python and in RE2.

    Raises:
        ValueError: If there is no such tokenization.
    """
    check_tokenization(tokenization)
    if tokenization == "words":
        return ((f"[{SEPARATORS}]", " "), (f"({word_pattern()})", r" \1 "))
    if tokenization == "plain":
        return ((r"([!-/:-@\[-`{-~])", r" \1 "),)
    if tokenization == "letters":
        return ((r"<unk>|[\x00-\x60\x7b-\x7f]", " "),)
    return ()


@cache
def word_pattern() -> str:
    """Pattern of a token of `"words"`. Any character but separators is part of one."""
    symbols = _symbols()
    others = r"\x00-\x7f" + SEPARATORS + symbols + CJK
    part = f"(?:[A-Za-z_]+|[0-9]+(?:[.,:][0-9]+)*|[^{others}]+)+"
    word = f"{part}(?:['\u2019\\-\u2010\u2011]{part})*"
    return f"{word}|[{CJK}]|<unk>|<eos>|[{symbols}][{JOINED_TO_EMOJI}]*"


def _symbols() -> str:
    """Punctuation and symbols of all scripts but `_`, as part of a character class."""
    ranges: list[list[int]] = []
    for code in range(0x20000):  # there are none above
        if unicodedata.category(chr(code))[0] in "PS" and chr(code) != "_":
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in ranges)


def warn_of_tokenization(lines: Iterable[str], tokenization: str) -> None:
    """Logs a warning if the start of a text looks as if the text needed another tokenization."""
    if tokenization not in MISMATCHES:
        return
    pattern, message = MISMATCHES[tokenization]
    start, size = [], 0
    for line in filter(str.strip, lines):
        start.append(line)
        size += len(line)
        if size > CHARACTERS_LOOKED_AT:
            break
    found = [match for line in start if (match := re.search(pattern, line))]
    if len(found) > len(start) / 4:
        log.warning(message, found[0].string[: found[0].end()].split()[-1])


def warn_of_unknown_words(share: float, split: str, tokenization: str) -> None:
    """Logs a warning if a large share of the tokens at the start of a text are not in the vocabulary."""
    if share > MANY_UNKNOWN:
        log.warning(MISFIT, f"{share:.0%}", split, tokenization)


def check_is_file(path: Path) -> None:
    """Raises FileNotFoundError, IsADirectoryError or ValueError if the path is not that of a file."""
    if path.is_dir():
        raise IsADirectoryError(f"Expected a text file but {path} is a folder. Name a file inside it.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}. Check the name or the folder given.")
    if not path.is_file():
        raise ValueError(f"Expected a text file but {path} is a pipe or a device. Text is read several times: save it.")


def read_lines(path: str | Path, cut: bool = False) -> Iterator[str]:
    """Lines of a UTF-8 file, without line breaks. The file is gzipped if its name ends in `.gz`.

    A line ends with a newline, or with a carriage return and a newline. A byte order mark at the start of the file is
    dropped.

    Args:
        path: The file.
        cut: Whether lines longer than 1 MiB, such as the text of text8, are cut after a space, so that they need not
            fit into memory. Defaults to `False`: they are refused.

    Raises:
        FileNotFoundError: If the file does not exist.
        IsADirectoryError: If `path` is a folder.
        ValueError: If the file is empty, binary or not an intact gzip file, or a line is too long or not UTF-8. The
            message gives the line number.

    Example:

    >>> import gzip, tempfile, keras_tying as kt
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "train.txt.gz")
    ...     _ = path.write_bytes(gzip.compress(b"a rose is a rose"))
    ...     list(kt.data.read_lines(path))
    ['a rose is a rose']
    """
    path = Path(path)
    check_is_file(path)
    with _opened(path) as file:
        beginning = file.peek(LOOKED_AT)[:LOOKED_AT]
        if not beginning:
            raise ValueError(f"The file {path} is empty. Expected at least one line of text.")
        if b"\0" in beginning:
            raise ValueError(f"{path} has NUL bytes, as binary files and UTF-16 have. Expected UTF-8 text: convert it.")
        number, ended = 0, True
        while line := file.readline(LONGEST_LINE + len(b"\r\n")):
            continued = not ended
            number += ended
            if len(line.rstrip(b"\r\n")) > LONGEST_LINE:
                if not cut:
                    raise ValueError(
                        f"{path}, line {number}: expected at most {LONGEST_LINE:,} bytes. Received a longer line. "
                        "Write one sentence per line."
                    )
                line += _rest_of_word(line, file)
            ended = line.endswith(b"\n")
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}, line {number}: expected UTF-8, received byte {line[error.start]:#04x} at "
                    f"position {error.start + 1}. Convert the file, for example with iconv."
                ) from None
            text = (text.removeprefix(BYTE_ORDER_MARK) if number == 1 and not continued else text).rstrip("\r\n")
            if text or not continued:  # else the line was cut at its end
                yield text


def _rest_of_word(line: bytes, file: BufferedReader | gzip.GzipFile) -> bytes:
    """Reads on from the start of a line up to the next space, or to the end of a character if that is beyond 2 MiB."""
    rest, last = bytearray(), line[-1:]
    while last not in (b" ", b"\n") and (following := file.peek(1)[:1]):
        inside_character = following[0] & 0xC0 == 0x80
        if len(line) + len(rest) >= 2 * LONGEST_LINE + 3 * inside_character:
            break
        last = file.read(1)
        rest += last
    return bytes(rest)


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


def tokens(lines: Iterable[str], tokenization: str) -> Iterator[str]:
    """Tokens of lines, with `<eos>` after each line."""
    for line in lines:
        yield from tokenize(line, tokenization)
        yield END_OF_SENTENCE
