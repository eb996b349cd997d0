"""Downloads, from a server on this machine."""

import hashlib
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pooch
import pytest

from keras_tying.data import corpora


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A folder whose files are served as the corpus's public location, and an empty cache."""
    folder = tmp_path / "public"
    folder.mkdir()
    for split in corpora.SPLITS:
        (folder / f"ptb.{split}.txt").write_text(f"the {split} text\n")
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(corpora, "PTB_ADDRESS", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setattr(corpora, "PTB_SHA256", hashes)
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache")
    yield folder
    server.shutdown()


def test_a_corpus_is_downloaded_once_and_kept(served):
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
