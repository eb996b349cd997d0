"""Prepared text: word ids in shards."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_tying.data.corpora import Corpus
from keras_tying.data.prepared.folder import Preparation, PreparedFolder, check_folder, has_shards, written_alone
from keras_tying.data.prepared.index import open_split
from keras_tying.data.prepared.shards import Shards
from keras_tying.data.prepared.writing import CHARACTERS_OF_A_SHARD, Encoded, in_order, open_pool, pieces, write_split
from keras_tying.data.text import tokens, warn_of_tokenization, warn_of_unknown_words
from keras_tying.data.vocabulary import Vocabulary
from keras_tying.files import check_fingerprint

TOKENS_OF_A_RECORD = 4096
VOCABULARY = "vocabulary.txt"


@dataclass(frozen=True)
class TextEncoder:
    """Encodes lines as records of `TOKENS_OF_A_RECORD` word ids, `int32`. The last record may be shorter."""

    vocabulary: Vocabulary
    tokenization: str

    def __call__(self, lines: list[str]) -> Encoded:
        ids = self.vocabulary.encode(tokens(lines, self.tokenization)).astype("<i4")
        starts = range(0, len(ids), TOKENS_OF_A_RECORD)
        records = (ids[start : start + TOKENS_OF_A_RECORD].tobytes() for start in starts)
        return Encoded(records, {"tokens": len(ids), "unknown": int(np.sum(ids == self.vocabulary.unknown_id))})


class PreparedText:
    """Word ids on disk. A slice reads only its own records and returns an array `int32 [N]`.

    Args:
        shards: Shards written by a `TextEncoder`.

    Example:

    >>> import tempfile, keras_tying as kt
    >>> corpus = kt.data.Corpus("roses", {"train": ["a rose is a rose"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     prepared = kt.data.prepare_text(folder, corpus)
    ...     text = prepared.ids("train", prepared.vocabulary())
    ...     len(text), text[1:4].tolist()
    (6, [1, 3, 0])
    """

    def __init__(self, shards: Shards):
        self.shards = shards
        self._starts = np.cumsum([0, *(shard.totals["tokens"] for shard in shards.shards)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, span: slice) -> np.ndarray:
        start, stop, step = span.indices(len(self))
        if step != 1:
            raise ValueError(f"Slices of a prepared text must have step 1. Received: a step of {step}.")
        parts = [np.zeros(0, np.int32)]
        shard = int(np.searchsorted(self._starts, start, side="right")) - 1
        while start < stop:
            shard_start, shard_stop = self._starts[shard : shard + 2]
            part_stop = min(stop, shard_stop)
            parts.append(self._read(shard, int(start - shard_start), int(part_stop - shard_start)))
            start, shard = part_stop, shard + 1
        return np.concatenate(parts)

    def _read(self, shard: int, start: int, stop: int) -> np.ndarray:
        first = start // TOKENS_OF_A_RECORD
        records = self.shards.read(shard, range(first, -(-stop // TOKENS_OF_A_RECORD)))
        ids = np.frombuffer(b"".join(records), "<i4")
        return ids[start - first * TOKENS_OF_A_RECORD : stop - first * TOKENS_OF_A_RECORD]


class PreparedCorpus(PreparedFolder):
    """A text written by `prepare_text`.

    Args:
        folder: Folder of the text.

    Attributes:
        name: Name of the corpus in reported results.
        tokenization: Name of the tokenization, see `tokenize`.
        preparation: The options that it was prepared with.

    Raises:
        FileNotFoundError: If the folder has no prepared text.
        ValueError: If the folder has sentence pairs, or the vocabulary is not the one it was prepared with.

    Example:

    >>> import tempfile, keras_tying as kt
    >>> corpus = kt.data.Corpus("roses", {"train": ["a rose is a rose"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = kt.data.prepare_text(folder, corpus)
    ...     prepared = kt.data.PreparedCorpus(folder)
    >>> prepared.name, prepared.tokenization, prepared.vocabulary().words
    ('roses', 'words', ['a', 'rose', '<eos>', 'is', '<unk>'])
    """

    def __init__(self, folder: str | Path):
        super().__init__(folder, "text")
        preparation = self.preparation
        self.name = preparation.corpus
        self.tokenization = preparation.tokenization or "spaces"
        path = self.folder / VOCABULARY
        self._vocabulary = Vocabulary.load(path)
        what = "vocabulary the text was prepared with"
        check_fingerprint(path, what, preparation.sha256, self._vocabulary.sha256)

    def vocabulary(self, size: int | None = None, minimum_count: int = 1) -> Vocabulary:
        """The vocabulary the text was prepared with; `size` and `minimum_count` are ignored."""
        return self._vocabulary

    def ids(self, split: str, vocabulary: Vocabulary) -> PreparedText:
        """The word ids of a split.

        Raises:
            ValueError: If the text was prepared with another vocabulary, or the split is not complete.
            FileNotFoundError: If the split does not exist.
        """
        if vocabulary.sha256 != self._vocabulary.sha256:
            raise ValueError(
                f"{self.folder} was prepared with another vocabulary, of {len(self._vocabulary):,} words. "
                f"Received: one of {len(vocabulary):,}. Prepare the text with this vocabulary in another folder."
            )
        return PreparedText(open_split(self.folder / split))


def prepare_text(
    folder: str | Path,
    corpus: Corpus,
    vocabulary: Vocabulary | None = None,
    size: int | None = None,
    minimum_count: int | None = None,
    processes: int = 1,
    report: Callable[[str, int], None] = lambda stage, tokens: None,
    characters: int = CHARACTERS_OF_A_SHARD,
) -> PreparedCorpus:
    """Writes the splits of a corpus as word ids. If interrupted, the same call resumes.

    Only a few pieces of the text are in memory at a time. The vocabulary is in memory. If it is not given, all
    distinct words of the training split are in memory while they are counted.

    Args:
        folder: A new folder, or one with a part, or other splits, of the same text.
        corpus: The corpus.
        vocabulary: Vocabulary of the text. Default: the one of the text in the folder, else the words of the training
            split.
        size: Optional integer, the maximum number of words, including `<unk>` and `<eos>`.
        minimum_count: Optional integer. Words with fewer occurrences are left out.
        processes: Number of processes.
        report: Called with a name and the number of finished tokens. The name is `"counting"` while words are
            counted, then the split.
        characters: Number of characters of text per shard.

    Raises:
        ValueError: If the folder has text with another vocabulary, tokenization or content.
        FileExistsError: If the folder has other files.
        OSError: If a file cannot be written, or another process prepares the text. Complete shards are kept.

    Example:

    >>> import tempfile, keras_tying as kt
    >>> corpus = kt.data.Corpus("roses", {"train": ["a rose is a rose", "is a rose"]})
    >>> prepared = kt.data.prepare_text(tempfile.mkdtemp(), corpus)
    >>> text = prepared.ids("train", prepared.vocabulary())
    >>> len(text), text[1:5]
    (10, array([1, 3, 0, 1], dtype=int32))
    """
    folder = Path(folder)
    check_folder(folder)
    if "train" in corpus.splits:
        warn_of_tokenization(corpus.lines("train"), corpus.tokenization)
    given = vocabulary is not None
    if vocabulary is None:
        stored = folder / VOCABULARY
        if stored.exists() and has_shards(folder):
            vocabulary = Vocabulary.load(stored)
        else:
            counts = count_tokens(
                corpus.lines(corpus.vocabulary_split),
                corpus.tokenization,
                processes,
                lambda tokens: report("counting", tokens),
            )
            vocabulary = Vocabulary.from_counts(counts, size, minimum_count or 1)
    preparation = Preparation(
        kind="text",
        corpus=corpus.name,
        sha256=vocabulary.sha256,
        tokenization=corpus.tokenization,
        size=size,
        minimum_count=minimum_count,
    )
    with written_alone(folder, preparation):
        vocabulary.save(folder / VOCABULARY)
        encode = TextEncoder(vocabulary, corpus.tokenization)
        to_check = given
        for split in corpus.splits:

            def report_shard(totals: dict[str, int], split: str = split) -> None:
                nonlocal to_check
                if to_check:
                    warn_of_unknown_words(totals.get("unknown", 0) / totals["tokens"], split, corpus.tokenization)
                to_check = False  # the first part is enough
                report(split, totals["tokens"])

            write_split(folder / split, corpus.lines(split), encode, processes, report_shard, characters)
    return PreparedCorpus(folder)


def count_tokens(
    lines: Iterable[str], tokenization: str, processes: int, report: Callable[[int], None] = lambda tokens: None
) -> Counter[str]:
    """Counts the occurrences of each token, with several processes."""
    counts: Counter[str] = Counter()
    with open_pool(processes) as pool:
        for part in in_order(lambda piece: pool.submit(_count, piece, tokenization), pieces(lines), processes + 1):
            counts.update(part)
            report(part.total())
    return counts


def _count(lines: list[str], tokenization: str) -> Counter[str]:
    return Counter(tokens(lines, tokenization))
