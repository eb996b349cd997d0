"""Named parallel corpora and their splits."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

from keras_tying.data.bitext import Bitext
from keras_tying.data.corpora import SPLITS
from keras_tying.data.downloads import find_file
from keras_tying.data.wmt import europarl_files, given_files, published_files
from keras_tying.extras import require

MULTI30K_ADDRESS = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
MULTI30K_SHA256 = {
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.fr.gz": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.fr.gz": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.fr.gz": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
}
MULTI30K_FILES = dict(zip(SPLITS, ("train", "val", "test_2016_flickr"), strict=True))


@dataclass(frozen=True)
class ParallelCorpus:
    """Sentence pairs in splits: `train`, `valid`, `test` and optional further test sets.

    Attributes:
        name: Name of the corpus in reported results.
        splits: For each split, by name: files of pairs, or pairs in memory.
        languages: Source and target language, or `None` if they are not known.

    Example:

    >>> import keras_tying as kt
    >>> corpus = kt.data.ParallelCorpus("roses", {"train": [("a rose", "eine Rose")]}, languages=("en", "de"))
    >>> list(corpus.pairs("train"))
    [('a rose', 'eine Rose')]
    """

    name: str
    splits: Mapping[str, Sequence[Bitext] | list[tuple[str, str]]]
    languages: tuple[str, str] | None = None

    def pairs(self, split: str) -> Iterator[tuple[str, str]]:
        """Source and target sentences of a split. Each call reads the split from its start."""
        if split not in self.splits:
            raise ValueError(f"The corpus {self.name!r} has the splits {sorted(self.splits)}. Received: {split!r}")
        parts = self.splits[split]
        return chain.from_iterable(part.lines() if isinstance(part, Bitext) else (part,) for part in parts)


def load_parallel(
    name: str, source: str = "en", target: str = "de", data_dir: str | Path | None = None
) -> ParallelCorpus:
    """Loads a named parallel corpus.

    Args:
        name: One of the following names.

            - `"embedded"`: phrases from CLDR in any two of its languages.
            - `"europarl"`: the start of Europarl v7, in splits as large as those of Zhang and Qi, between English and
              French or German.
            - `"multi30k"`: image descriptions in English, German and French (task 1). The test set is
              `test_2016_flickr`.
            - `"wmt14"`, `"wmt15"`: news. The validation set is newstest2013, the test set is newstest2014. `"wmt15"`
              has newstest2015 as a second test set. The download has all parallel text of the task of that year. To
              use a selection of it, as the published models did, give a `data_dir` with `train.en`,
              `newstest2013.en` and so on, gzipped or not.
        source: Source language.
        target: Target language.
        data_dir: Folder of the corpus files. Default: the files are downloaded and their SHA-256 is checked.

    Raises:
        ValueError: If the name or a language is unknown, or a file is not the published one.
        FileNotFoundError: If a file is missing in `data_dir`.

    Example:

    >>> import keras_tying as kt
    >>> corpus = kt.data.load_parallel("embedded", "en", "de")  # doctest: +SKIP
    >>> {split: len(pairs) for split, pairs in corpus.splits.items()}  # doctest: +SKIP
    {'train': 26000, 'valid': 2000, 'test': 2000}
    """
    if name not in PARALLEL_CORPORA:
        raise ValueError(f"There is no parallel corpus {name!r}. Known: {sorted(PARALLEL_CORPORA)}")
    if source == target:
        raise ValueError(f"Source and target must be different languages. Received: {source!r} twice.")
    corpus = PARALLEL_CORPORA[name](source, target, None if data_dir is None else Path(data_dir))
    return replace(corpus, languages=(source, target))


def parallel_files(files: Mapping[str, Sequence[tuple[str | Path, str | Path]]], name: str = "files") -> ParallelCorpus:
    """A corpus from UTF-8 files, one sentence per line: one or more pairs of files per split.

    Example:

    >>> import tempfile, keras_tying as kt
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source, target = Path(folder, "train.en"), Path(folder, "train.de")
    ...     _ = source.write_text("a rose"), target.write_text("eine Rose")
    ...     list(kt.data.parallel_files({"train": [(source, target)]}).pairs("train"))
    [('a rose', 'eine Rose')]
    """
    return ParallelCorpus(name, {split: [Bitext(Path(s), Path(t)) for s, t in pairs] for split, pairs in files.items()})


def zip_files(sources: Sequence[Path], targets: Sequence[Path]) -> list[tuple[Path, Path]]:
    """Pairs each file of source sentences with the file of their translations.

    Raises:
        ValueError: If the numbers of files differ.

    Example:

    >>> import keras_tying as kt
    >>> from pathlib import Path
    >>> pairs = kt.data.zip_files([Path("a.en"), Path("b.en")], [Path("a.de"), Path("b.de")])
    >>> [(source.name, target.name) for source, target in pairs]
    [('a.en', 'a.de'), ('b.en', 'b.de')]
    """
    if len(sources) != len(targets):
        raise ValueError(
            "--source and --target need the same number of files, each target the translation of its source. "
            f"Received: {len(sources)} and {len(targets)}"
        )
    return list(zip(sources, targets, strict=True))


def _embedded(source: str, target: str, data_dir: Path | None) -> ParallelCorpus:
    require("babel", "translation")
    from keras_tying.data.phrases import phrase_pairs

    return ParallelCorpus("embedded", phrase_pairs(source, target))


def _multi30k(source: str, target: str, data_dir: Path | None) -> ParallelCorpus:
    def find(split: str, language: str) -> Path:
        file = f"{MULTI30K_FILES[split]}.{language}.gz"
        if file not in MULTI30K_SHA256:
            raise ValueError(f"Multi30k has English (en), German (de) and French (fr). Received: {language!r}")
        return find_file(file, MULTI30K_SHA256[file], MULTI30K_ADDRESS, "multi30k", data_dir)

    return ParallelCorpus(
        "multi30k", {split: [Bitext(find(split, source), find(split, target))] for split in MULTI30K_FILES}
    )


def _wmt(year: str, source: str, target: str, data_dir: Path | None) -> ParallelCorpus:
    files = published_files(year, source, target) if data_dir is None else given_files(year, source, target, data_dir)
    return parallel_files(files, name=year)


def _europarl(source: str, target: str, data_dir: Path | None) -> ParallelCorpus:
    return parallel_files(europarl_files(source, target, data_dir), name="europarl")


PARALLEL_CORPORA: dict[str, Callable[[str, str, Path | None], ParallelCorpus]] = {
    "embedded": _embedded,
    "europarl": _europarl,
    "multi30k": _multi30k,
    "wmt14": partial(_wmt, "wmt14"),
    "wmt15": partial(_wmt, "wmt15"),
}
