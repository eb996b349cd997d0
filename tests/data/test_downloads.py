"""Downloads from a local server."""

import zipfile

import pooch
import pytest

from keras_tying.data import corpora, downloads


@pytest.fixture
def served(public, monkeypatch):
    """A folder of corpus files, served at the address of the corpus."""
    for split in corpora.SPLITS:
        (public.folder / f"ptb.{split}.txt").write_text(f"the {split} text\n")
    hashes = {path.name: pooch.file_hash(str(path)) for path in public.folder.iterdir()}
    monkeypatch.setattr(corpora, "PTB_ADDRESS", public.address)
    monkeypatch.setattr(corpora, "PTB_SHA256", hashes)
    return public.folder


def test_a_corpus_is_downloaded_once(served):
    assert list(corpora.load_corpus("ptb").tokens("valid")) == ["the", "valid", "text", "<eos>"]
    for path in served.iterdir():
        path.unlink()
    assert list(corpora.load_corpus("ptb").tokens("test")) == ["the", "test", "text", "<eos>"]


def test_a_download_with_another_hash_is_refused_and_not_kept(served, tmp_path):
    (served / "ptb.valid.txt").write_text("something else\n")
    with pytest.raises(ValueError, match="does not match the known hash"):
        corpora.load_corpus("ptb")
    assert not (tmp_path / "cache" / "ptb" / "ptb.valid.txt").exists()


def test_a_failed_download_says_what_to_do(served, monkeypatch):
    monkeypatch.setattr(corpora, "PTB_ADDRESS", "http://127.0.0.1:1/")
    with pytest.raises(ConnectionError, match=r"Put .* into a folder"):
        corpora.load_corpus("ptb")


def test_files_are_unpacked_atomically(public, tmp_path, monkeypatch):
    archive = tmp_path / "text.zip"
    with zipfile.ZipFile(archive, "w") as files:
        files.writestr("text/a.txt", "a" * 1000)

    def fail(source, target):
        target.write(source.read(10))
        raise OSError("No space left on device")

    with monkeypatch.context() as full:
        full.setattr(downloads.shutil, "copyfileobj", fail)
        with pytest.raises(OSError, match="No space left"):
            downloads.unpack(archive, "text/a.txt", "kept")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert downloads.unpack(archive, "text/a.txt", "kept").read_text() == "a" * 1000
    archive.unlink()
    with pytest.raises(FileNotFoundError, match=r"no file .*text\.zip"):
        downloads.unpack(archive, "text/a.txt", "kept")


def test_a_file_missing_in_an_archive_is_named(public, tmp_path):
    archive = tmp_path / "text.zip"
    zipfile.ZipFile(archive, "w").close()
    with pytest.raises(ValueError, match=r"text\.zip has no file b\.txt"):
        downloads.unpack(archive, "b.txt", "kept")


def test_an_unpacked_file_that_has_changed_is_unpacked_again(public, tmp_path):
    archive = tmp_path / "text.zip"
    with zipfile.ZipFile(archive, "w") as files:
        files.writestr("a.txt", "right")
    path = downloads.unpack(archive, "a.txt", "kept")
    path.write_text("wrong")
    assert downloads.unpack(archive, "a.txt", "kept") == path
    assert path.read_text() == "right"


def test_what_is_made_of_an_unpacked_file_is_made_again_if_it_has_changed(tmp_path):
    path = tmp_path / "half.txt"
    for _ in range(2):
        assert downloads.keep(path, b"right") == path
        assert path.read_bytes() == b"right"
        path.write_bytes(b"wrong")
