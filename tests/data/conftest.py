import threading
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pooch
import pytest


@dataclass
class Public:
    """A folder and the URL of its files."""

    folder: Path
    address: str


@pytest.fixture
def public(tmp_path, monkeypatch):
    """A folder served on localhost, and an empty download cache."""
    folder = tmp_path / "public"
    folder.mkdir()
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield Public(folder, f"http://127.0.0.1:{server.server_port}/")
    server.shutdown()
