"""deploy/page.py says in one line what it cannot ask. The page itself needs gradio, which a stub stands for."""

import importlib.util
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from unittest.mock import MagicMock

import pytest

PAGE = Path(__file__).parents[2] / "deploy" / "page.py"


class Error(Exception):
    """As `gr.Error`."""


class Textbox:
    """As `gr.Textbox`."""

    def __init__(self, *_, **__):
        self.submit = MagicMock()


@pytest.fixture
def page(monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", MagicMock(Error=Error, Textbox=Textbox))
    spec = importlib.util.spec_from_file_location("page", PAGE)
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    return page


@pytest.fixture
def client(page):
    return page.Client


@pytest.fixture
def serve():
    """Starts a server that answers all requests with some bytes; gives its address."""
    servers = []

    def start(content):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        servers.append(HTTPServer(("127.0.0.1", 0), Handler))
        Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_service_lists_its_models(client, serve):
    assert client(serve(b'{"models": []}')).models("attention") == []


@pytest.mark.parametrize("content", [b"<html>", b"\xff", b"{}", b"[]"])
def test_a_server_that_is_no_service_is_named(client, serve, content):
    address = serve(content)
    with pytest.raises(Error, match=f"^Expected the address of a service, .* Received: {address}/v1/models, .*$"):
        client(address).models("attention")


def test_what_is_no_address_is_named(client):
    with pytest.raises(Error, match=r"^Expected the address of a service, .* Received: foo/v1/models, .*$"):
        client("foo").models("attention")


def test_the_page_opens_where_a_model_lacks_the_word_of_the_example(page):
    client = MagicMock()
    client.models.side_effect = lambda signature: ["mine"] if signature == "similar_words" else []
    client.predict.return_value = {"similar": [[""]], "similarity": [[0.0]]}
    page.page(client)
    client.predict.assert_called_once_with("mine", "similar_words", words=["football"], k=5)
