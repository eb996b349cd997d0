"""Sentence pairs as subword ids in shards: written once, read pair by pair."""

from collections.abc import Callable
from pathlib import Path

from keras_tying.data.parallel import ParallelCorpus
from keras_tying.data.prepared.folder import Preparation, check_folder, describe, description_of
from keras_tying.data.prepared.index import open_split
from keras_tying.data.prepared.writing import CHARACTERS_OF_A_SHARD, write_split
from keras_tying.data.sentence_pairs import PairEncoder, SentencePairs
from keras_tying.data.subwords import Subwords, sentences_of
from keras_tying.files import check_fingerprint

SUBWORDS = "subwords.model"
SUBWORDS_LEARNT = 8_000


class PreparedPairs:
    """Sentence pairs that `prepare_pairs` wrote.

    Args:
        folder: Where they are.

    Attributes:
        name: What results are reported under.
        subwords: Their subwords.

    Raises:
        FileNotFoundError: If the folder has none.
        ValueError: If what it has is no text in pairs, or its subwords are not those it was made with.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        preparation = description_of(self.folder, "pairs")
        self.name = preparation.corpus
        path = self.folder / SUBWORDS
        self.subwords = Subwords.load(path)
        what = "sentencepiece model the text was prepared with"
        check_fingerprint(path, what, preparation.sha256, self.subwords.sha256)

    def pairs(self, split: str, subwords: Subwords) -> SentencePairs:
        """A split of them.

        Raises:
            ValueError: If `subwords` are others than its own, or the split is not whole.
            FileNotFoundError: If there is no such split.
        """
        if subwords.sha256 != self.subwords.sha256:
            raise ValueError(
                f"{self.folder} was prepared with other subwords, {len(self.subwords):,} of them. "
                f"Received: {len(subwords):,}. Prepare the text with them, in another folder."
            )
        return SentencePairs(open_split(self.folder / split))


def prepare_pairs(
    folder: str | Path,
    corpus: ParallelCorpus,
    subwords: Subwords | None = None,
    size: int | None = None,
    longest: int | None = None,
    processes: int = 1,
    report: Callable[[str, int], None] = lambda split, pairs: None,
    characters: int = CHARACTERS_OF_A_SHARD,
) -> PreparedPairs:
    """Writes the training split of a parallel text as subword ids; called again, goes on from where it was stopped.

    Args:
        folder: Receives it: a new one, or one that holds the same text in part.
        corpus: The text.
        subwords: Its subwords, of both languages. Default: learnt on it, or those that the folder has.
        size: How many are learnt. Default: 8,000, or as the folder was made.
        longest: Pairs with more subwords than this on a side are left out. Default: none are.
        processes: How many work at a time.
        report: Told of pairs that are done.
        characters: Text of a shard.

    Raises:
        ValueError: If the folder holds text of other subwords or content.
        FileExistsError: If it holds something else.
        OSError: If a file cannot be written; what is whole is kept.
    """
    folder = Path(folder)
    check_folder(folder)
    if subwords is None:
        stored = folder / SUBWORDS
        subwords = (
            Subwords.load(stored)
            if stored.exists()
            else Subwords.learn(sentences_of(corpus.pairs("train")), size or SUBWORDS_LEARNT)
        )
    describe(folder, Preparation(kind="pairs", corpus=corpus.name, sha256=subwords.sha256, longest=longest, size=size))
    subwords.save(folder / SUBWORDS)
    encode = PairEncoder(subwords, subwords, longest)
    write_split(
        folder / "train",
        corpus.pairs("train"),
        encode,
        processes,
        lambda totals: report("train", totals["pairs"]),
        characters,
    )
    return PreparedPairs(folder)
