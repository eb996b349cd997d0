import pytest

import keras_tying as kt
from keras_tying.data import Bitext, Corpus, Subwords, prepare_text, sentences_of

SHARD = 20_000
"""Characters per shard, for several shards."""


@pytest.fixture(scope="module")
def text(corpus):
    return Corpus("some", {split: corpus.splits[split][:3000] for split in ("train", "valid")}, "plain")


@pytest.fixture(scope="module")
def uninterrupted(text, tmp_path_factory):
    return prepare_text(tmp_path_factory.mktemp("prepared"), text, size=300, characters=SHARD)


@pytest.fixture(scope="module")
def pairs():
    return kt.data.load_parallel("embedded", "en", "de")


@pytest.fixture(scope="module")
def subwords(pairs):
    return Subwords.learn(sentences_of(pairs.splits["valid"]), 200)


@pytest.fixture(scope="session")
def files():
    """The content of all files of a folder."""

    def read(folder):
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    return read


@pytest.fixture
def bitexts(pairs, tmp_path):
    """Aligned files of some pairs, with links along the diagonal."""

    def written(split, pairs):
        columns = zip(*((s, t, _diagonal(s, t)) for s, t in pairs), strict=True)
        paths = [tmp_path / f"{split}.{side}" for side in ("en", "de", "align")]
        for path, column in zip(paths, columns, strict=True):
            path.write_text("".join(f"{line}\n" for line in column))
        return Bitext(*paths)

    text = list(pairs.pairs("train"))
    return {"train": written("train", text[:1500]), "valid": written("valid", text[1500:1600])}


def _diagonal(source, target):
    return " ".join(f"{i}-{i}" for i in range(min(len(source.split()), len(target.split()))))
