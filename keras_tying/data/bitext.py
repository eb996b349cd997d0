"""Sentence pairs with word alignment, read line by line from three files."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import Literal

import numpy as np

from keras_tying.data.affiliation import affiliate
from keras_tying.data.joint_samples import JointSamples
from keras_tying.data.text import END_OF_SENTENCE, check_tokenization, read_lines, tokenize, tokens
from keras_tying.data.vocabulary import Vocabulary

PAIR = re.compile(r"[0-9]{1,9}-[0-9]{1,9}")
LINKS = re.compile(rf"(?:{PAIR.pattern}(?: |$))*")
PAIRS_AT_ONCE = 10_000
"""Number of sentence pairs that are encoded at a time."""

Side = Literal["source", "target"]


@dataclass(frozen=True)
class Bitext:
    """Files of sentence pairs, one sentence per line, and their word alignment.

    Each of the three files is gzipped if its name ends in `.gz`.

    Attributes:
        source: UTF-8 text.
        target: UTF-8 text, the translation of each line.
        alignment: Links of each pair: `i-j` links source token `i` to target token `j`, both counted
            from 0. The line of a pair without links is empty.
        tokenization: Name of the tokenization, see `tokenize`.
        sentences: Number of pairs to read from the start of the files; `None` reads all.

    Raises:
        ValueError: If the tokenization is unknown.

    Example:

    >>> import tempfile, keras_tying as kt
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source, target = Path(folder, "train.en"), Path(folder, "train.de")
    ...     _ = source.write_text("a rose"), target.write_text("eine Rose")
    ...     list(kt.data.Bitext(source, target).pairs())
    [(['a', 'rose'], ['eine', 'Rose'])]
    """

    source: Path
    target: Path
    alignment: Path | None = None
    tokenization: str = "spaces"
    sentences: int | None = None

    def __post_init__(self):
        check_tokenization(self.tokenization)

    @classmethod
    def of(cls, files: Sequence[Path], tokenization: str = "spaces", sentences: int | None = None) -> "Bitext":
        """The text of two or three files: source, target and, if there are any, links."""
        return cls(files[0], files[1], files[2] if len(files) > 2 else None, tokenization, sentences)

    def aligned(self, alignment: Path) -> "Bitext":
        """The same text with another alignment file."""
        return replace(self, alignment=alignment)

    def vocabularies(self, source_size: int | None = None, size: int | None = None) -> tuple[Vocabulary, Vocabulary]:
        """The words of the source and of the target side, all or the most frequent ones."""
        sides: tuple[tuple[Side, int | None], ...] = (("source", source_size), ("target", size))
        source, target = (Vocabulary.from_tokens(self.tokens(side), number) for side, number in sides)
        return source, target

    def tokens(self, side: Side) -> Iterator[str]:
        """All tokens of one side, with `<eos>` after each line."""
        yield from tokens(islice(read_lines(getattr(self, side)), self.sentences), self.tokenization)

    def pairs(self) -> Iterator[tuple[list[str], list[str]]]:
        """Tokens of source and target, pair by pair.

        Raises:
            ValueError: If the files have different numbers of lines. The message gives file and line.
        """
        for lines in self._lines((self.source, self.target)):
            yield tokenize(lines[0], self.tokenization), tokenize(lines[1], self.tokenization)

    def lines(self) -> Iterator[tuple[str, str]]:
        """Source and target sentences without tokenization, pair by pair; raises as `pairs` does."""
        for lines in self._lines((self.source, self.target)):
            yield lines[0], lines[1]

    def aligned_lines(self) -> Iterator[tuple[str, str, str]]:
        """Source and target sentences and their links, without tokenization, pair by pair.

        Raises:
            ValueError: If there is no alignment, or the files have different numbers of lines.
        """
        if self.alignment is None:
            raise ValueError(
                f"{self.target} has no alignment. Expected a file of `i-j` pairs, one line per sentence; "
                "`keras_tying.data.align` writes one."
            )
        for lines in self._lines((self.source, self.target, self.alignment)):
            yield lines[0], lines[1], lines[2]

    def encode(self, source_vocabulary: Vocabulary, target_vocabulary: Vocabulary) -> JointSamples:
        """Encodes the text as word ids, with one source position per target word.

        Raises:
            ValueError: If there is no alignment, the files have different numbers of lines, a link is not
                of the form `i-j` or a position is out of range. The message gives file and line.
        """
        lines = self.aligned_lines()
        parts, first = [], 1
        while chunk := list(islice(lines, PAIRS_AT_ONCE)):
            parts.append(self.encode_lines(chunk, first, source_vocabulary, target_vocabulary))
            first += len(chunk)
        return JointSamples.join(parts, source_vocabulary.end_id, target_vocabulary.end_id)

    def encode_lines(
        self,
        lines: list[tuple[str, str, str]],
        first: int,
        source_vocabulary: Vocabulary,
        target_vocabulary: Vocabulary,
    ) -> tuple[np.ndarray, ...]:
        """Encodes some pairs: a part as `JointSamples.join` takes it.

        Args:
            lines: Source and target sentences and their links.
            first: Number of the first line in the files, for error messages.
            source_vocabulary: Words of the source side.
            target_vocabulary: Words of the target side.

        Raises:
            ValueError: If a link is not of the form `i-j` or a position is out of range.
        """
        sources, targets, links = zip(*lines, strict=True)
        source_ids, source_starts = self._ids(sources, source_vocabulary)
        target_ids, target_starts = self._ids(targets, target_vocabulary)
        positions, sentences = parse_links(links, self.alignment, first)
        self._check_range(positions, sentences, first, np.diff(source_starts) - 1, np.diff(target_starts) - 1)
        positions = positions + np.stack([source_starts[sentences], target_starts[sentences]], axis=1)
        return source_ids, source_starts, target_ids, target_starts, affiliate(positions, source_starts, target_starts)

    def _ids(self, lines: tuple[str, ...], vocabulary: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
        """Ids of all lines with `<eos>` after each, and the start of each line."""
        sentences = [[*tokenize(line, self.tokenization), END_OF_SENTENCE] for line in lines]
        starts = np.cumsum([0, *map(len, sentences)])
        return vocabulary.encode(token for sentence in sentences for token in sentence), starts

    def _check_range(self, positions, sentences, first, *lengths) -> None:
        for side, (name, length) in enumerate(zip(("source", "target"), lengths, strict=True)):
            beyond = np.flatnonzero(positions[:, side] >= length[sentences])
            if len(beyond):
                sentence = sentences[beyond[0]]
                raise ValueError(
                    f"{self.alignment}, line {first + sentence}: expected {name} positions below "
                    f"{length[sentence]}, the length of the sentence. "
                    f"Received: {positions[beyond[0], 0]}-{positions[beyond[0], 1]}"
                )

    def _lines(self, paths: tuple[Path, ...]) -> Iterator[tuple[str, ...]]:
        """Lines of several files in parallel."""
        columns = islice(zip_longest(*map(read_lines, paths)), self.sentences)
        for number, lines in enumerate(columns, start=1):
            if None in lines:
                longer = next(path for path, line in zip(paths, lines, strict=True) if line is not None)
                total = sum(1 for _ in read_lines(longer))
                raise ValueError(
                    f"{paths[lines.index(None)]} ends before line {number}, but {longer} continues: they have "
                    f"{number - 1:,} and {total:,} lines. Expected one sentence per line in each file."
                )
            yield lines


def parse_links(lines: tuple[str, ...], path: Path | None, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Parses `i-j` pairs.

    Args:
        lines: Lines of pairs, separated by spaces.
        path: The file of the lines, for error messages.
        first: Number of the first line in that file.

    Returns:
        The pairs `int64 [M, 2]`, and the index in `lines` of each pair, `[M]`.

    Raises:
        ValueError: If a line has anything but pairs. The message gives file and line.

    Example:

    >>> pairs, indices = parse_links(("0-1 2-0", "", "1-1"), None, first=1)
    >>> pairs.tolist(), indices.tolist()
    ([[0, 1], [2, 0], [1, 1]], [0, 0, 2])
    >>> parse_links(("", ""), None, first=1)[0].shape
    (0, 2)
    """
    lines = tuple(" ".join(tokenize(line, "spaces")) for line in lines)
    for number, line in enumerate(lines, start=first):
        if not LINKS.fullmatch(line):
            wrong = next(pair for pair in line.split() if not PAIR.fullmatch(pair))
            raise ValueError(f"{path}, line {number}: expected pairs such as 3-4. Received: {wrong!r}")
    counts = [line.count("-") for line in lines]
    numbers = np.array(" ".join(lines).replace("-", " ").split(), np.int64)
    return numbers.reshape(-1, 2), np.repeat(np.arange(len(lines)), counts)
