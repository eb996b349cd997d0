import zipfile
from pathlib import Path

import pooch
import pytest

from keras_tying.data import bbc, corpora, load_corpus, tokenize
from keras_tying.data.bbc import bbc_news


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "bbc-fulltext.zip"
    with zipfile.ZipFile(path, "w") as files:
        files.writestr("bbc-fulltext/bbc/README.TXT", "not an article")
        for number in range(1, 41):
            files.writestr(f"bbc-fulltext/bbc/tech/{number:03}.txt", f"headline {number}\n\nfirst\nsecond\n".encode())
        files.writestr("bbc-fulltext/bbc/sport/001.txt", "cost \xa3600\n".encode("latin-1"))
    return path


@pytest.fixture
def published():
    """The folder with the published archive, which may not be copied into the repository."""
    folder = Path(__file__).parents[3] / "shared" / "data" / "bbc"
    if not folder.is_dir():
        pytest.skip("the BBC news articles are not on this machine")
    return folder


def page_text():
    page = Path(__file__).parents[2] / "zoo" / "results" / "table_7" / "README.md"
    return " ".join(page.read_text().split())


def test_articles_are_split_by_number(archive):
    splits = bbc_news(archive)
    headlines = {split: [line for line in lines if "headline" in line] for split, lines in splits.items()}
    assert headlines["test"] == ["headline 20", "headline 40"]
    assert headlines["valid"] == ["headline 10", "headline 30"]
    assert len(headlines["train"]) == 36


def test_paragraphs_are_lines_in_both_encodings(archive):
    assert bbc_news(archive)["train"][:4] == ["cost £600", "headline 1", "first", "second"]


def test_training_articles_that_were_printed_again_in_other_text_are_left_out(archive):
    sentence = "Thirteen words of one paragraph are a sign that an article is a reprint"
    assert len(sentence.split()) == 14
    shorter = " ".join(sentence.split()[2:])
    with zipfile.ZipFile(archive, "a") as files:
        files.writestr("bbc-fulltext/bbc/politics/040.txt", f"evaluated\n{sentence}.\n".encode())
        files.writestr("bbc-fulltext/bbc/politics/041.txt", f"changed\nHe said: {sentence.upper()}, too.\n".encode())
        files.writestr("bbc-fulltext/bbc/politics/042.txt", f"twelve\n{shorter}.\n".encode())
    splits = bbc_news(archive)
    assert splits["test"][:2] == ["evaluated", f"{sentence}."]
    assert splits["train"][:3] == ["twelve", f"{shorter}.", "cost £600"]


def test_as_much_text_was_in_two_splits_as_the_page_says(published, monkeypatch):
    monkeypatch.setattr(bbc, "REPRINT_WORDS", 10**6)  # so that no article is left out
    corpus = load_corpus("bbc", published)
    train, shares = set(corpus.lines("train")), []
    for split in ("valid", "test"):
        lengths = [(len(tokenize(line, corpus.tokenization)), line in train) for line in corpus.lines(split)]
        shares.append(sum(length for length, known in lengths if known) / sum(length for length, _ in lengths))
    valid, test = (f"{share:.1%}" for share in shares)
    text = f"paragraphs with {valid} of the words of the validation text and {test} of those of the test text"
    assert text in page_text()


def test_splits_have_as_many_tokens_as_the_page_says(published):
    corpus = load_corpus("bbc", published)
    counts = " / ".join(f"{sum(1 for _ in corpus.tokens(split)):,}" for split in corpora.SPLITS)
    assert f"Training, validation and test text have {counts} tokens." in page_text()


def test_an_archive_with_another_hash_is_refused(archive):
    with pytest.raises(ValueError, match="not the published file"):
        load_corpus("bbc", archive.parent)


def test_wikitext_is_unpacked_from_its_archive(tmp_path, monkeypatch):
    path = tmp_path / "wikitext-2-v1.zip"
    with zipfile.ZipFile(path, "w") as files:
        for split in corpora.SPLITS:
            files.writestr(f"wikitext-2/wiki.{split}.tokens", f" = Title = \n {split} <unk> \n")
    monkeypatch.setattr(corpora, "WIKITEXT2_SHA256", pooch.file_hash(str(path)))
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache")
    corpus = load_corpus("wikitext-2", tmp_path)
    assert list(corpus.tokens("valid")) == ["=", "Title", "=", "<eos>", "valid", "<unk>", "<eos>"]
