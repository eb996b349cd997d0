"""Prepared aligned text: word ids and affiliations in shards."""

import hashlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from keras_tying.data.alignment import align
from keras_tying.data.bitext import Bitext
from keras_tying.data.joint_samples import JointSamples
from keras_tying.data.prepared.folder import Preparation, PreparedFolder, check_folder, has_shards, written_alone
from keras_tying.data.prepared.index import INDEX, open_split
from keras_tying.data.prepared.shards import Shards
from keras_tying.data.prepared.text import VOCABULARY, count_tokens
from keras_tying.data.prepared.writing import CHARACTERS_OF_A_SHARD, Encoded, write_split
from keras_tying.data.vocabulary import Vocabulary
from keras_tying.files import UNFINISHED, check_fingerprint, sha256_of, write_atomically

SOURCE_VOCABULARY = "source_vocabulary.txt"
VOCABULARIES = (SOURCE_VOCABULARY, VOCABULARY)
WORDS_LEARNT = 10_000
"""Maximum number of words of each side, if not given."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AlignedEncoder:
    """Encodes aligned sentence pairs as five records of `int32`, the arguments of `JointSamples.join`.

    Attributes:
        text: The files, which errors name, and their tokenization.
        source_vocabulary: Words of the source side.
        vocabulary: Words of the target side.
    """

    text: Bitext
    source_vocabulary: Vocabulary
    vocabulary: Vocabulary

    def __call__(self, lines: list[tuple[str, str, str, str]]) -> Encoded:
        """Encodes pairs: source, target, links and, for error messages, the number of the line."""
        pairs = [line[:3] for line in lines]
        part = self.text.encode_lines(pairs, int(lines[0][3]), self.source_vocabulary, self.vocabulary)
        _, source_starts, target_ids, _, _ = part
        longest = int(np.diff(source_starts).max())
        totals = {"pairs": len(pairs), "samples": len(target_ids), "longest_source": longest}
        return Encoded((array.astype("<i4").tobytes() for array in part), totals)


class PreparedSamples:
    """Samples of aligned text on disk. One shard, a part, is in memory at a time.

    Args:
        shards: Shards written by an `AlignedEncoder`.
        source_end_id: Id of the end of a source sentence.
        target_end_id: Id of the end of a target sentence.

    Attributes:
        part_lengths: Number of samples of each part.
        longest_source: Length of the longest source sentence, including its end.

    Raises:
        ValueError: If there are no samples.

    Example:

    >>> import tempfile, keras_tying as kt
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = [Path(folder, name) for name in ("en", "de", "links")]
    ...     for file, line in zip(files, ("a rose", "eine Rose", "0-0 1-1")):
    ...         _ = file.write_text(line)
    ...     prepared = kt.data.prepare_aligned(Path(folder, "prepared"), {"train": kt.data.Bitext(*files)})
    ...     samples = prepared.samples("train", *prepared.vocabularies)
    ...     len(samples), samples.part(0).affiliations.tolist()
    (3, [0, 1, 2])
    """

    def __init__(self, shards: Shards, source_end_id: int, target_end_id: int):
        self.shards = shards
        self.end_ids = source_end_id, target_end_id
        self.part_lengths = [shard.totals["samples"] for shard in shards.shards]
        self.longest_source = max((shard.totals["longest_source"] for shard in shards.shards), default=0)
        if not len(self):
            raise ValueError(f"Expected aligned text of at least one pair. Received: none in {shards.folder}.")

    def __len__(self) -> int:
        return sum(self.part_lengths)

    def part(self, index: int) -> JointSamples:
        """Reads the samples of a part.

        Raises:
            ValueError: If the file is damaged.
        """
        arrays = [np.frombuffer(record, "<i4") for record in self.shards.read(index, range(5))]
        source_ids, source_starts, target_ids, target_starts, affiliations = arrays
        positions = [each.astype(np.int64) for each in (source_starts, target_starts, affiliations)]
        part = source_ids, positions[0], target_ids, positions[1], positions[2]
        return JointSamples.join([part], *self.end_ids)


class PreparedAligned(PreparedFolder):
    """An aligned text written by `prepare_aligned`.

    Args:
        folder: Folder of the text.

    Attributes:
        tokenization: Name of the tokenization, see `tokenize`.
        vocabularies: Words of the source and of the target side.
        preparation: The options that it was prepared with.

    Raises:
        FileNotFoundError: If the folder has no prepared text.
        ValueError: If the text is not aligned, or a vocabulary is not the one it was prepared with.

    Example:

    >>> import tempfile, keras_tying as kt
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = [Path(folder, name) for name in ("en", "de", "links")]
    ...     for file, line in zip(files, ("a rose", "eine Rose", "0-0 1-1")):
    ...         _ = file.write_text(line)
    ...     _ = kt.data.prepare_aligned(Path(folder, "prepared"), {"train": kt.data.Bitext(*files)})
    ...     prepared = kt.data.PreparedAligned(Path(folder, "prepared"))
    >>> prepared.tokenization, [vocabulary.words for vocabulary in prepared.vocabularies]
    ('spaces', [['<eos>', 'a', 'rose', '<unk>'], ['<eos>', 'Rose', 'eine', '<unk>']])
    """

    def __init__(self, folder: str | Path):
        super().__init__(folder, "aligned")
        preparation = self.preparation
        self.tokenization = preparation.tokenization or "spaces"
        paths = [self.folder / name for name in VOCABULARIES]
        self.vocabularies = Vocabulary.load(paths[0]), Vocabulary.load(paths[1])
        expected = preparation.source_sha256 or "", preparation.sha256
        for path, sha256, vocabulary in zip(paths, expected, self.vocabularies, strict=True):
            check_fingerprint(path, "vocabulary the text was prepared with", sha256, vocabulary.sha256)

    def samples(self, split: str, source_vocabulary: Vocabulary, vocabulary: Vocabulary) -> PreparedSamples:
        """The samples of a split.

        Raises:
            ValueError: If the text was prepared with other vocabularies, or the split is empty or not complete.
            FileNotFoundError: If the split does not exist.
        """
        for side, own, given in zip(
            ("source", "target"), self.vocabularies, (source_vocabulary, vocabulary), strict=True
        ):
            if given.sha256 != own.sha256:
                raise ValueError(
                    f"{self.folder} was prepared with another {side} vocabulary, of {len(own):,} words. "
                    f"Received: one of {len(given):,}. Prepare the text with this vocabulary in another folder."
                )
        return PreparedSamples(open_split(self.folder / split), source_vocabulary.end_id, vocabulary.end_id)


def prepare_aligned(
    folder: str | Path,
    texts: Mapping[str, Bitext],
    vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
    source_size: int | None = None,
    size: int | None = None,
    processes: int = 1,
    report: Callable[[str, int], None] = lambda stage, count: None,
    characters: int = CHARACTERS_OF_A_SHARD,
) -> PreparedAligned:
    """Writes splits of an aligned text as word ids and affiliations. If interrupted, the same call resumes.

    Texts without links are aligned together first, by `align`, which has them in memory. Their links are kept in the
    folder, as `train.align`.

    Args:
        folder: A new folder, or one with a part, or other splits, of the same text.
        texts: The files of each split. All have one tokenization.
        vocabularies: Words of the source and of the target side. Default: those of the text in the folder, else those
            of the training split.
        source_size: Maximum number of source words, including `<unk>` and `<eos>`. Default: 10,000, or that of the
            folder.
        size: The same of target words.
        processes: Number of processes.
        report: Called with a name and a number: `"counting"` and the tokens counted, then the split and the pairs of
            each finished shard.
        characters: Number of characters of text per shard.

    Raises:
        ValueError: If the texts have several tokenizations, a link is wrong, or the folder has text with other
            vocabularies, another tokenization or content.
        ModuleNotFoundError: If text without links is to be aligned and eflomal is not installed.
        FileExistsError: If the folder has other files.
        OSError: If a file cannot be written, or another process prepares the text. Complete shards are kept.

    Example:

    >>> import tempfile, keras_tying as kt
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = [Path(folder, name) for name in ("en", "de", "links")]
    ...     for file, line in zip(files, ("a rose", "eine Rose", "0-0 1-1")):
    ...         _ = file.write_text(line)
    ...     prepared = kt.data.prepare_aligned(Path(folder, "prepared"), {"train": kt.data.Bitext(*files)})
    ...     len(prepared.samples("train", *prepared.vocabularies))
    3
    """
    folder = Path(folder)
    check_folder(folder)
    tokenizations = sorted({text.tokenization for text in texts.values()})
    if len(tokenizations) != 1:
        raise ValueError(f"Texts that are prepared together need one tokenization. Received: {tokenizations}")
    vocabularies = vocabularies or _vocabularies(folder, texts, source_size, size, processes, report)
    source, target = vocabularies
    preparation = Preparation(
        kind="aligned",
        corpus="files",
        sha256=target.sha256,
        source_sha256=source.sha256,
        tokenization=tokenizations[0],
        size=size,
        source_size=source_size,
    )
    with written_alone(folder, preparation):
        for name, vocabulary in zip(VOCABULARIES, vocabularies, strict=True):
            vocabulary.save(folder / name)
        for split, text in _aligned(folder, texts).items():

            def report_shard(totals: dict[str, int], split: str = split) -> None:
                report(split, totals["pairs"])

            encode = AlignedEncoder(text, source, target)
            write_split(folder / split, _numbered(text), encode, processes, report_shard, characters)
    return PreparedAligned(folder)


def _vocabularies(
    folder: Path,
    texts: Mapping[str, Bitext],
    source_size: int | None,
    size: int | None,
    processes: int,
    report: Callable[[str, int], None],
) -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies of the text in the folder, else those of the training split."""
    stored = [folder / name for name in VOCABULARIES]
    if all(path.exists() for path in stored) and has_shards(folder):
        return Vocabulary.load(stored[0]), Vocabulary.load(stored[1])
    if "train" not in texts:
        raise ValueError(f"The words of a new text are those of its training split. Received: {', '.join(texts)} only.")
    text = texts["train"]

    def learnt(lines: Iterator[str], most: int | None) -> Vocabulary:
        counts = count_tokens(lines, text.tokenization, processes, lambda tokens: report("counting", tokens))
        return Vocabulary.from_counts(counts, most or WORDS_LEARNT)

    source = learnt((source for source, _ in text.lines()), source_size)
    return source, learnt((target for _, target in text.lines()), size)


def _aligned(folder: Path, texts: Mapping[str, Bitext]) -> dict[str, Bitext]:
    """The texts, those without links with the links that the folder has or now gets.

    All texts without links are aligned together, also if only some of the links are missing, because small ones need
    large ones.
    """
    own = {split: folder / f"{split}.align" for split, text in texts.items() if text.alignment is None}
    if missing := [split for split, path in own.items() if not _are_links_of(path, texts[split])]:
        if "train" not in own:
            log.warning("%s: aligned without the training text, which makes links worse.", ", ".join(missing))
        with TemporaryDirectory(dir=folder, prefix=".align.", suffix=UNFINISHED) as temporary:
            for split, text in zip(own, align([texts[split] for split in own], temporary), strict=True):
                if split not in missing:
                    continue
                assert text.alignment is not None
                os.replace(text.alignment, own[split])
                write_atomically(_mark(own[split]), _fingerprint(texts[split]))
    return {split: text.aligned(own[split]) if split in own else text for split, text in texts.items()}


def _are_links_of(path: Path, text: Bitext) -> bool:
    """Whether there are links of a text. Those of another one are replaced, unless the folder has a part of its text.

    Raises:
        ValueError: If it has.
    """
    if not path.exists():
        return False
    mark = _mark(path)
    if mark.exists() and mark.read_bytes() == _fingerprint(text):
        return True
    if (path.with_suffix("") / INDEX).exists():
        raise ValueError(f"{path} has the links of another text or tokenization. Choose another folder, or remove it.")
    return False


def _mark(path: Path) -> Path:
    """The file that says of which text the links in a file are."""
    return path.with_name(f"{path.name}.sha256")


def _fingerprint(text: Bitext) -> bytes:
    """SHA-256 of what the links of a text depend on."""
    parts = sha256_of(text.source), sha256_of(text.target), text.tokenization
    return hashlib.sha256(" ".join(parts).encode()).hexdigest().encode()


def _numbered(text: Bitext) -> Iterator[tuple[str, str, str, str]]:
    """Source, target and links of each pair, and the number of its line."""
    for number, lines in enumerate(text.aligned_lines(), start=1):
        yield *lines, str(number)
