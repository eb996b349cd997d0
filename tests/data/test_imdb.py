import io
import tarfile

import pooch
import pytest

from keras_tying.data import corpora, load_corpus


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "aclImdb_v1.tar.gz"
    with tarfile.open(path, "w:gz") as files:

        def add(name, text):
            entry = tarfile.TarInfo(f"aclImdb/{name}")
            entry.size = len(text.encode())
            files.addfile(entry, io.BytesIO(text.encode()))

        add("README", "not a review")
        add("train/urls_pos.txt", "http://example.org")
        for number in reversed(range(41)):
            add(f"train/pos/{number}_9.txt", f"pos {number}")
        add("train/unsup/7_0.txt", "First.<br /><br />Second: caf\N{LATIN SMALL LETTER E WITH ACUTE}.")
        add("train/unsup/8_0.txt", "Bad")  # as in the test text
        add("train/unsup/9_0.txt", "pos 20")  # as in the validation text
        add("test/neg/20_1.txt", "Bad")
    return path


@pytest.fixture
def reviews(archive, monkeypatch):
    monkeypatch.setattr(corpora, "IMDB_SHA256", pooch.file_hash(str(archive)))
    return load_corpus("imdb", archive.parent)


def test_reviews_are_split_by_number_and_folder(reviews):
    assert list(reviews.lines("valid")) == ["pos 0", "pos 20", "pos 40"]
    assert list(reviews.lines("test")) == ["Bad"]
    assert list(reviews.lines("train"))[:3] == ["pos 1", "pos 2", "pos 3"]
    assert len(list(reviews.lines("train"))) == 38 + 2


def test_reviews_of_the_validation_and_test_text_are_not_training_text(reviews):
    assert not {"pos 20", "Bad"} & set(reviews.lines("train"))


def test_paragraphs_are_tokenized_lines(reviews):
    assert list(reviews.tokens("train"))[-8:] == ["first", ".", "<eos>", "second", ":", "café", ".", "<eos>"]


def test_an_archive_with_another_hash_is_refused(archive):
    with pytest.raises(ValueError, match="not the published file"):
        load_corpus("imdb", archive.parent)
