"""The edge to the API server: what its answers become. The real one is asked in ``tests/cluster``."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from certs.api import ConflictError, StoreError
from certs.store import KubernetesApi, connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Server(ThreadingHTTPServer):
    """Answers everything with ``answer`` and remembers what was asked."""

    answer: tuple[int, bytes] = (200, b"{}")

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str, str | None, Any]] = []


class Handler(BaseHTTPRequestHandler):
    """One connection of `Server`."""

    def handle_any(self) -> None:
        """Answers."""
        server = self.server
        assert isinstance(server, Server)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = json.loads(body) if body else None
        server.asked.append((self.command, self.path, self.headers["Content-Type"], asked))
        status, text = server.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_PATCH = handle_any  # noqa: N815 - http.server's names

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def api(server: Server, tmp_path: Path) -> KubernetesApi:
    return connect(kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}"))


def kubeconfig(folder: Path, url: str) -> Path:
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def test_each_verb_is_one_request_with_its_content_type(server: Server, api: KubernetesApi) -> None:
    server.answer = (200, b'{"kind": "Secret"}')
    operations = [{"op": "test", "path": "/a", "value": 1}]
    assert api.get("/a?b=c") == {"kind": "Secret"}
    api.create("/a", {"b": 1})
    api.replace("/a/b", {"b": 2})
    api.patch("/a/b", operations)
    assert server.asked == [
        ("GET", "/a?b=c", None, None),
        ("POST", "/a", "application/json", {"b": 1}),
        ("PUT", "/a/b", "application/json", {"b": 2}),
        ("PATCH", "/a/b", "application/json-patch+json", operations),
    ]


@pytest.mark.parametrize(
    ("verb", "status", "error"),
    [
        ("get", 404, None),
        ("get", 403, StoreError),
        ("get", 500, StoreError),
        ("create", 409, ConflictError),
        ("create", 404, StoreError),  # the namespace is not there
        ("create", 422, StoreError),
        ("replace", 409, ConflictError),
        ("replace", 404, ConflictError),
        ("patch", 409, ConflictError),
        ("patch", 404, ConflictError),
        ("patch", 403, StoreError),
    ],
)
def test_what_an_answer_becomes(
    server: Server, api: KubernetesApi, verb: str, status: int, error: type[Exception] | None
) -> None:
    server.answer = (status, b'{"message": "the reason"}')
    call = getattr(api, verb)
    arguments = ("/a",) if verb == "get" else ("/a", {"metadata": {"name": "b"}})
    if error is None:
        assert call(*arguments) is None
        return
    with pytest.raises(StoreError, match=f"/a: {status} the reason") as caught:
        call(*arguments)
    assert type(caught.value) is error
    assert len(server.asked) == 1, "it was tried again below the caller"


def test_an_answer_that_is_no_object_is_an_error(server: Server, api: KubernetesApi) -> None:
    for status, text in ((200, b"<html>"), (200, b"[]"), (503, b"busy")):
        server.answer = (status, text)
        with pytest.raises(StoreError, match="no JSON object"):
            api.get("/a")


def test_nobody_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"GET /a: .*refused"):
        connect(kubeconfig(tmp_path, "http://127.0.0.1:1")).get("/a")


def test_without_a_kubeconfig_or_a_pod_the_way_out_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="name a --kubeconfig"):
        connect(None)
    with pytest.raises(StoreError, match="no API server to talk to"):
        connect(tmp_path / "none")
