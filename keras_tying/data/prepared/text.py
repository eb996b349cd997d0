"""A text as word ids in shards: written once, read by slices."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_tying.data.corpora import Corpus
from keras_tying.data.prepared.folder import Preparation, check_folder, describe, description_of
from keras_tying.data.prepared.index import open_split
from keras_tying.data.prepared.shards import Shards
from keras_tying.data.prepared.writing import CHARACTERS_OF_A_SHARD, Encoded, in_order, open_pool, pieces, write_split
from keras_tying.data.text import tokens
from keras_tying.data.vocabulary import Vocabulary
from keras_tying.files import check_fingerprint

TOKENS_OF_A_RECORD = 4096
VOCABULARY = "vocabulary.txt"


@dataclass(frozen=True)
class TextEncoder:
    """Lines to records of word ids, `int32`, `TOKENS_OF_A_RECORD` in each but the last."""

    vocabulary: Vocabulary
    tokenization: str

    def __call__(self, lines: list[str]) -> Encoded:
        ids = self.vocabulary.encode(tokens(lines, self.tokenization)).astype("<i4")
        starts = range(0, len(ids), TOKENS_OF_A_RECORD)
        records = (ids[start : start + TOKENS_OF_A_RECORD].tobytes() for start in starts)
        return Encoded(records, {"tokens": len(ids)})


class PreparedText:
    """A text on disk; a slice of it is an array `int32 [N]`, and only that is read.

    Args:
        shards: Of a `TextEncoder`.
    """

    def __init__(self, shards: Shards):
        self.shards = shards
        self._starts = np.cumsum([0, *(shard.totals["tokens"] for shard in shards.shards)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, span: slice) -> np.ndarray:
        start, stop, step = span.indices(len(self))
        if step != 1:
            raise ValueError(f"A prepared text is read word after word. Received: a step of {step}.")
        parts = [np.zeros(0, np.int32)]
        shard = int(np.searchsorted(self._starts, start, side="right")) - 1
        while start < stop:
            first, end = self._starts[shard : shard + 2]
            until = min(stop, end)
            parts.append(self._read(shard, int(start - first), int(until - first)))
            start, shard = until, shard + 1
        return np.concatenate(parts)

    def _read(self, shard: int, start: int, stop: int) -> np.ndarray:
        first = start // TOKENS_OF_A_RECORD
        records = self.shards.read(shard, range(first, -(-stop // TOKENS_OF_A_RECORD)))
        ids = np.frombuffer(b"".join(records), "<i4")
        return ids[start - first * TOKENS_OF_A_RECORD : stop - first * TOKENS_OF_A_RECORD]


class PreparedCorpus:
    """A text that `prepare_text` wrote.

    Args:
        folder: Where it is.

    Attributes:
        name: What results are reported under.
        tokenization: How lines became tokens.

    Raises:
        FileNotFoundError: If the folder has none.
        ValueError: If what it has are sentence pairs, or its vocabulary is not the one it was made with.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        preparation = description_of(self.folder, "text")
        self.name = preparation.corpus
        self.tokenization = preparation.tokenization or "spaces"
        path = self.folder / VOCABULARY
        self._vocabulary = Vocabulary.load(path)
        what = "vocabulary the text was prepared with"
        check_fingerprint(path, what, preparation.sha256, self._vocabulary.sha256)

    def vocabulary(self, size: int | None = None, minimum_count: int = 1) -> Vocabulary:
        """The words it was prepared with; `size` and `minimum_count` were decided then."""
        return self._vocabulary

    def ids(self, split: str, vocabulary: Vocabulary) -> PreparedText:
        """A split of it.

        Raises:
            ValueError: If `vocabulary` is another than its own, or the split is not whole.
            FileNotFoundError: If there is no such split.
        """
        if vocabulary.sha256 != self._vocabulary.sha256:
            raise ValueError(
                f"{self.folder} was prepared with another vocabulary, of {len(self._vocabulary):,} words. "
                f"Received: one of {len(vocabulary):,}. Prepare the text with it, in another folder."
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
    """Writes the splits of a text as word ids; called again, goes on from where it was stopped.

    No more of the text than a few pieces is in memory. The vocabulary is, and if it is not given, so are all different
    words of the training split while they are counted.

    Args:
        folder: Receives it: a new one, or one that holds the same text in part, or other splits.
        corpus: The text.
        vocabulary: Its words. Default: counted in the training split, or those that the folder has.
        size: At most so many words, `<unk>` and `<eos>` included. Default: no cap, or as the folder was made.
        minimum_count: Words seen less often are left out. Default: none are, or as the folder was made.
        processes: How many work at a time.
        report: Told of tokens that are done, under `"counting"` and then under the name of each split.
        characters: Text of a shard.

    Raises:
        ValueError: If the folder holds text of another vocabulary, tokenization or content.
        FileExistsError: If it holds something else.
        OSError: If a file cannot be written; what is whole is kept.

    Example:

    >>> import tempfile
    >>> corpus = Corpus("roses", {"train": ["a rose is a rose", "is a rose"]})
    >>> prepared = prepare_text(tempfile.mkdtemp(), corpus)
    >>> text = prepared.ids("train", prepared.vocabulary())
    >>> len(text), text[1:5]
    (10, array([1, 3, 0, 1], dtype=int32))
    """
    folder = Path(folder)
    check_folder(folder)
    if vocabulary is None:
        stored = folder / VOCABULARY
        if stored.exists():
            vocabulary = Vocabulary.load(stored)
        else:
            counts = count_tokens(
                corpus.lines("train"), corpus.tokenization, processes, lambda tokens: report("counting", tokens)
            )
            vocabulary = Vocabulary.from_counts(counts, size, minimum_count or 1)
    describe(
        folder,
        Preparation(
            kind="text",
            corpus=corpus.name,
            sha256=vocabulary.sha256,
            tokenization=corpus.tokenization,
            size=size,
            minimum_count=minimum_count,
        ),
    )
    vocabulary.save(folder / VOCABULARY)
    encode = TextEncoder(vocabulary, corpus.tokenization)
    for split in corpus.splits:

        def report_shard(totals: dict[str, int], split: str = split) -> None:
            report(split, totals["tokens"])

        write_split(folder / split, corpus.lines(split), encode, processes, report_shard, characters)
    return PreparedCorpus(folder)


def count_tokens(
    lines: Iterable[str], tokenization: str, processes: int, report: Callable[[int], None] = lambda tokens: None
) -> Counter[str]:
    """How often each token occurs, several processes counting."""
    counts: Counter[str] = Counter()
    with open_pool(processes) as pool:
        for part in in_order(lambda piece: pool.submit(_count, piece, tokenization), pieces(lines), processes + 1):
            counts.update(part)
            report(part.total())
    return counts


def _count(lines: list[str], tokenization: str) -> Counter[str]:
    return Counter(tokens(lines, tokenization))
