from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cera_core.errors import DownloadError
from cera_core.modelfile import hub_source
from cera_core.modelfile.download import download
from cera_core.modelfile.hub_source import HubSource

CONTENT = b"weights" * 1000
SOURCE = HubSource("owner/model-GGUF", "model.gguf", revision="abc")
PATH = "/owner/model-GGUF/resolve/abc/model.gguf"


class Hub(ThreadingHTTPServer):
    """A hub on this machine; `answer` decides what it says."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.paths: list[str] = []
        self.answer: Callable[[_Handler], None] = lambda handler: handler.send(200, CONTENT)
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        self.server.answer(self)

    def send(self, status: int, body: bytes = b"", length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


def fetch(folder: Path, content: bytes = CONTENT) -> bytes:
    target = folder / "model.gguf"
    download(target, size=len(content), sha256=hashlib.sha256(content).hexdigest(), sources=[SOURCE])
    return target.read_bytes()


def refusal(folder: Path, content: bytes = CONTENT) -> str:
    with pytest.raises(DownloadError) as caught:
        fetch(folder, content)
    assert list(folder.iterdir()) == []
    message = str(caught.value)
    assert "Hugging Face repository owner/model-GGUF: " in message
    return message


def test_the_file_comes_from_the_address_of_its_revision(hub: Hub, tmp_path: Path) -> None:
    assert fetch(tmp_path) == CONTENT
    assert hub.paths == [PATH]


def test_a_trailing_slash_in_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example/")
    assert SOURCE.url == "https://mirror.example" + PATH


def test_the_hub_itself_without_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for unset in ("", None):
        if unset is None:
            monkeypatch.delenv("HF_ENDPOINT", raising=False)
        else:
            monkeypatch.setenv("HF_ENDPOINT", unset)
        assert SOURCE.url == "https://huggingface.co" + PATH


def test_redirections_are_followed(hub: Hub, tmp_path: Path) -> None:
    def answer(handler: _Handler) -> None:
        if handler.path == PATH:
            handler.send(302, Location="/elsewhere")
        else:
            handler.send(200, CONTENT)

    hub.answer = answer
    assert fetch(tmp_path) == CONTENT
    assert hub.paths == [PATH, "/elsewhere"]


def test_wrong_checksum(hub: Hub, tmp_path: Path) -> None:
    assert "SHA-256 must be" in refusal(tmp_path, bytes(len(CONTENT)))


def test_wrong_size_is_noticed_before_the_body(hub: Hub, tmp_path: Path) -> None:
    hub.answer = lambda handler: handler.send(200, length=1 << 40)
    assert f"the file must have 7000 bytes, but {hub.url}{PATH} has 1099511627776" in refusal(tmp_path)


def test_body_that_breaks_off(hub: Hub, tmp_path: Path) -> None:
    hub.answer = lambda handler: handler.send(200, CONTENT[:100], length=len(CONTENT))
    assert "but 100 were sent" in refusal(tmp_path)


@pytest.mark.parametrize("status", [401, 404, 500])
def test_error_status(hub: Hub, tmp_path: Path, status: int) -> None:
    hub.answer = lambda handler: handler.send(status)
    assert f"{hub.url}{PATH} answered {status} " in refusal(tmp_path)


def test_no_http_at_all(hub: Hub, tmp_path: Path) -> None:
    hub.answer = lambda handler: handler.wfile.write(b"SSH-2.0-OpenSSH\r\n") and None
    assert f"{hub.url}{PATH} broke off: " in refusal(tmp_path)


def test_closed_without_an_answer(hub: Hub, tmp_path: Path) -> None:
    hub.answer = lambda handler: None
    assert f"{hub.url}{PATH} broke off: " in refusal(tmp_path)


@pytest.mark.parametrize("begins", [False, True])
def test_slow_server(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins: bool) -> None:
    monkeypatch.setattr(hub_source, "TIMEOUT_SECONDS", 0.2)

    def answer(handler: _Handler) -> None:
        if begins:
            handler.send(200, CONTENT[:10], length=len(CONTENT))
        hub.released.wait(10)

    hub.answer = answer
    assert f"{hub.url}{PATH} did not answer within 0.2 seconds" in refusal(tmp_path)


def test_refused_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{taken.getsockname()[1]}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert "cannot be reached: [Errno 111] Connection refused" in refusal(tmp_path).replace("Errno 61", "Errno 111")


@pytest.mark.parametrize("endpoint", ["file:///etc", "huggingface.co", "ftp://x"])
def test_endpoint_that_is_no_web_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    assert f"HF_ENDPOINT must begin with https:// or http://, found '{endpoint}/owner" in refusal(tmp_path)


@pytest.mark.parametrize("endpoint", ["http://[::1", "http://a b", "http://:99999"])
def test_malformed_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    assert endpoint in refusal(tmp_path)
