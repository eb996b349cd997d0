"""Prepared sentence pairs: subword ids in shards."""

from collections.abc import Callable
from pathlib import Path

from keras_tying.data.parallel import ParallelCorpus
from keras_tying.data.prepared.folder import Preparation, PreparedFolder, check_folder, has_shards, written_alone
from keras_tying.data.prepared.index import open_split
from keras_tying.data.prepared.writing import CHARACTERS_OF_A_SHARD, write_split
from keras_tying.data.sentence_pairs import PairEncoder, SentencePairs
from keras_tying.data.subwords import Subwords, sentences_of
from keras_tying.files import check_fingerprint

SUBWORDS = "subwords.model"
SUBWORDS_LEARNT = 8_000


class PreparedPairs(PreparedFolder):
    """Sentence pairs written by `prepare_pairs`.

    Args:
        folder: Folder of the pairs.

    Attributes:
        name: Name of the corpus in reported results.
        subwords: Subwords of the text.
        languages: Source and target language, or `None` if they are not known.
        preparation: The options that they were prepared with.

    Raises:
        FileNotFoundError: If the folder has no prepared text.
        ValueError: If the text is not in pairs, or the subwords are not those it was prepared with.

    Example:

    >>> import tempfile, keras_tying as kt
    >>> splits = {"train": [("a rose is a rose", "eine Rose ist eine Rose")] * 50}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = kt.data.prepare_pairs(folder, kt.data.ParallelCorpus("roses", splits, ("en", "de")), size=30)
    ...     prepared = kt.data.PreparedPairs(folder)
    >>> prepared.name, list(prepared.languages), len(prepared.subwords)
    ('roses', ['en', 'de'], 30)
    """

    def __init__(self, folder: str | Path):
        super().__init__(folder, "pairs")
        preparation = self.preparation
        self.name = preparation.corpus
        self.languages = preparation.languages
        path = self.folder / SUBWORDS
        self.subwords = Subwords.load(path)
        what = "sentencepiece model the text was prepared with"
        check_fingerprint(path, what, preparation.sha256, self.subwords.sha256)

    def pairs(self, split: str, subwords: Subwords) -> SentencePairs:
        """The pairs of a split.

        Raises:
            ValueError: If the text was prepared with other subwords, or the split is not complete.
            FileNotFoundError: If the split does not exist.
        """
        if subwords.sha256 != self.subwords.sha256:
            raise ValueError(
                f"{self.folder} was prepared with other subwords, {len(self.subwords):,} of them. "
                f"Received: {len(subwords):,}. Prepare the text with these subwords in another folder."
            )
        return SentencePairs(open_split(self.folder / split))


def prepare_pairs(
    folder: str | Path,
    corpus: ParallelCorpus,
    subwords: Subwords | None = None,
    size: int | None = None,
    maximum_length: int | None = None,
    processes: int = 1,
    report: Callable[[str, int], None] = lambda split, pairs: None,
    characters: int = CHARACTERS_OF_A_SHARD,
) -> PreparedPairs:
    """Writes the training split of a parallel corpus as subword ids. If interrupted, the same call resumes.

    Args:
        folder: A new folder, or one with a part of the same text.
        corpus: The parallel corpus.
        subwords: Subwords of both languages. Default: those of the text in the folder, else learnt from the corpus.
        size: Number of subwords to learn. Default: 8,000, or the number in the folder.
        maximum_length: Optional integer. Pairs with more subwords on either side are left out.
        processes: Number of processes.
        report: Called with the split and the number of pairs of each finished shard.
        characters: Number of characters of text per shard.

    Raises:
        ValueError: If the folder has text with other subwords or content, or the corpus has no training split.
        FileExistsError: If the folder has other files.
        OSError: If a file cannot be written, or another process prepares the text. Complete shards are kept.

    Example:

    >>> import tempfile, keras_tying as kt
    >>> corpus = kt.data.ParallelCorpus("roses", {"train": [("a rose is a rose", "eine Rose ist eine Rose")] * 50})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     prepared = kt.data.prepare_pairs(folder, corpus, size=30)
    ...     len(prepared.pairs("train", prepared.subwords))
    50
    """
    folder = Path(folder)
    check_folder(folder)
    pairs = corpus.pairs("train")
    if subwords is None:
        stored = folder / SUBWORDS
        subwords = (
            Subwords.load(stored)
            if stored.exists() and has_shards(folder)
            else Subwords.learn(sentences_of(corpus.pairs("train")), size or SUBWORDS_LEARNT)
        )
    preparation = Preparation(
        kind="pairs",
        corpus=corpus.name,
        sha256=subwords.sha256,
        languages=corpus.languages and list(corpus.languages),
        maximum_length=maximum_length,
        size=size,
    )
    with written_alone(folder, preparation):
        subwords.save(folder / SUBWORDS)
        encode = PairEncoder(subwords, subwords, maximum_length)
        write_split(
            folder / "train",
            pairs,
            encode,
            processes,
            lambda totals: report("train", totals["pairs"]),
            characters,
        )
    return PreparedPairs(folder)
