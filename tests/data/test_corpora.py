"""Corpora that are cut from published files, from archives of the same form on a local server."""

import io
import tarfile
import zipfile
from dataclasses import replace

import pooch
import pytest

from keras_tying.data import corpora, load_corpus, load_parallel, prepare_text, wmt

TRAIN = [" = Title = ", " one two three four ", "", " five six "]  # 4, 5, 1 and 3 tokens with <eos>


@pytest.fixture
def wikitext(public, monkeypatch):
    with zipfile.ZipFile(public.folder / "wikitext-2-v1.zip", "w") as files:
        for split in corpora.SPLITS:
            lines = TRAIN if split == "train" else [split]
            files.writestr(f"wikitext-2/wiki.{split}.tokens", "".join(f"{line}\n" for line in lines))
    monkeypatch.setattr(corpora, "WIKITEXT2_ADDRESS", public.address)
    monkeypatch.setattr(corpora, "WIKITEXT2_SHA256", pooch.file_hash(str(public.folder / "wikitext-2-v1.zip")))
    return {half: load_corpus(f"wikitext-2-{half}-half") for half in ("first", "second")}


def test_the_halves_are_the_training_text_cut_after_the_line_of_the_middle_token(wikitext):
    assert list(wikitext["first"].lines("train")) == TRAIN[:2]
    assert list(wikitext["second"].lines("train")) == TRAIN[2:]
    assert list(wikitext["second"].lines("test")) == ["test"]


def test_a_half_has_the_vocabulary_of_the_whole_text(wikitext, tmp_path):
    words = load_corpus("wikitext-2").vocabulary().words
    assert {"one", "five"} <= set(words)
    assert [half.vocabulary().words for half in wikitext.values()] == [words, words]
    assert prepare_text(tmp_path / "prepared", wikitext["second"]).vocabulary().words == words


@pytest.fixture
def text8(public, monkeypatch):
    with zipfile.ZipFile(public.folder / "text8.zip", "w") as files:
        files.writestr("text8", " anarchism originated as a term of abuse")
    monkeypatch.setattr(corpora, "TEXT8_ADDRESS", public.address)
    monkeypatch.setattr(corpora, "TEXT8_SHA256", pooch.file_hash(str(public.folder / "text8.zip")))
    monkeypatch.setattr(corpora, "TEXT8_TEST_BYTES", 8)


def test_the_last_characters_of_text8_are_test_text(text8):
    corpus = load_corpus("text8-split")
    assert list(corpus.tokens("train")) == ["anarchism", "originated", "as", "a", "term", "<eos>"]
    assert list(corpus.tokens("test")) == list(corpus.tokens("valid")) == ["of", "abuse", "<eos>"]
    assert list(load_corpus("text8").splits) == ["train"]


@pytest.fixture
def europarl(public, monkeypatch):
    pairs = [
        ("un", "one"),
        ("", "two"),
        ("trois " * 101, "three"),
        ("quatre", "four"),
        ("cinq", "five"),
        ("six", "six"),
    ]
    archive = public.folder / "training-parallel-europarl-v7.tgz"
    with tarfile.open(archive, "w:gz") as files:
        for side, lines in zip(("fr", "en"), zip(*pairs, strict=True), strict=True):
            content = "".join(f"{line}\n" for line in lines).encode()
            entry = tarfile.TarInfo(wmt.EUROPARL.pattern.format(other="fr", side=side))
            entry.size = len(content)
            files.addfile(entry, io.BytesIO(content))
    sha256 = pooch.file_hash(str(archive))
    monkeypatch.setattr(wmt, "EUROPARL", replace(wmt.EUROPARL, address=public.address + archive.name, sha256=sha256))
    monkeypatch.setattr(wmt, "EUROPARL_PAIRS", {"train": 2, "valid": 1, "test": 1})
    return public.folder


@pytest.mark.parametrize("downloaded", [True, False])
def test_the_first_pairs_of_europarl_that_are_not_empty_or_long_are_its_splits(europarl, downloaded):
    corpus = load_parallel("europarl", "fr", "en", None if downloaded else europarl)
    assert {split: list(corpus.pairs(split)) for split in corpus.splits} == {
        "train": [("un", "one"), ("quatre", "four")],
        "valid": [("cinq", "five")],
        "test": [("six", "six")],
    }


def test_errors_about_europarl_name_what_is_wrong(europarl, monkeypatch):
    with pytest.raises(ValueError, match=r"in English \(en\) and one of .* Received: 'de' and 'fr'"):
        load_parallel("europarl", "de", "fr")
    monkeypatch.setattr(wmt, "EUROPARL_PAIRS", {"train": 5})
    with pytest.raises(ValueError, match=r"needs 5 pairs for train. Received: 4"):
        load_parallel("europarl", "fr", "en")


def test_a_string_is_no_text():
    with pytest.raises(
        ValueError, match=r"Give a file as a Path, and text as a list of lines. Received: train='a.txt'"
    ):
        corpora.Corpus("mine", {"train": "a.txt"})
