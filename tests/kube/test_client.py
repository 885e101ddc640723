"""The edge to the API server: what its answers become. The real one is asked in ``tests/cluster``."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from kube.api import ApiError, ConflictError, ForbiddenError, GoneError
from kube.client import KubernetesApi, connect, connect_as_user

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Server(ThreadingHTTPServer):
    """Answers everything with ``answer`` and remembers what was asked."""

    answer: tuple[int, bytes] = (200, b"{}")
    more = 0
    """Bytes that are promised behind the answer, and come only when `silent` is set."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str, str | None, Any]] = []
        self.silent = threading.Event()


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
        self.send_header("Content-Length", str(len(text) + server.more))
        self.end_headers()
        self.wfile.write(text)
        if server.more:
            server.silent.wait(60)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815 - http.server's names

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
    api.delete("/a/b")
    api.delete("/a/b", {"uid": "u"})
    assert server.asked == [
        ("GET", "/a?b=c", None, None),
        ("POST", "/a", "application/json", {"b": 1}),
        ("PUT", "/a/b", "application/json", {"b": 2}),
        ("PATCH", "/a/b", "application/json-patch+json", operations),
        ("DELETE", "/a/b", None, None),
        ("DELETE", "/a/b", "application/json", {"preconditions": {"uid": "u"}}),
    ]


@pytest.mark.parametrize(
    ("verb", "status", "error"),
    [
        ("get", 404, None),
        ("get", 403, ForbiddenError),
        ("get", 500, ApiError),
        ("create", 409, ConflictError),
        ("create", 404, ApiError),  # the namespace is not there
        ("create", 422, ApiError),
        ("replace", 409, ConflictError),
        ("replace", 404, ConflictError),
        ("patch", 409, ConflictError),
        ("patch", 404, ConflictError),
        ("patch", 403, ForbiddenError),
        ("delete", 404, None),
        ("delete", 403, ForbiddenError),
        ("get", 410, GoneError),
    ],
)
def test_what_an_answer_becomes(
    server: Server, api: KubernetesApi, verb: str, status: int, error: type[Exception] | None
) -> None:
    server.answer = (status, b'{"message": "the reason"}')
    call = getattr(api, verb)
    arguments = ("/a",) if verb in {"get", "delete"} else ("/a", {"metadata": {"name": "b"}})
    if error is None:
        assert call(*arguments) is None
        return
    with pytest.raises(ApiError, match=f"/a: {status} the reason") as caught:
        call(*arguments)
    assert type(caught.value) is error
    assert len(server.asked) == 1, "it was tried again below the caller"


def test_an_answer_that_is_no_object_is_an_error(server: Server, api: KubernetesApi) -> None:
    for status, text in ((200, b"<html>"), (200, b"[]"), (503, b"busy")):
        server.answer = (status, text)
        with pytest.raises(ApiError, match="no JSON object"):
            api.get("/a")


def test_nobody_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ApiError, match=r"GET /a: .*refused"):
        connect(kubeconfig(tmp_path, "http://127.0.0.1:1")).get("/a")


def test_without_a_kubeconfig_or_a_pod_the_way_out_is_said(tmp_path: Path) -> None:
    with pytest.raises(ApiError, match="name a --kubeconfig"):
        connect(None)
    with pytest.raises(ApiError, match="no API server to talk to"):
        connect(tmp_path / "none")


def test_a_user_has_the_namespace_of_the_context(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:1")
    config = json.loads(path.read_text(encoding="utf-8"))
    config["contexts"].append({"name": "y", "context": {"cluster": "c", "user": "u", "namespace": "team"}})
    path.write_text(json.dumps(config), encoding="utf-8")
    assert connect_as_user(path, None)[1] == "default"
    assert connect_as_user(path, "y")[1] == "team"
    with pytest.raises(ApiError, match=r"no API server to talk to: .*name z"):
        connect_as_user(path, "z")
    with pytest.raises(ApiError, match="no API server to talk to"):
        connect_as_user(tmp_path / "none", None)


def test_a_right_that_lacks_can_be_told_from_other_failures(server: Server, api: KubernetesApi) -> None:
    server.answer = (403, b'{"message": "nodes is forbidden"}')
    with pytest.raises(ForbiddenError, match="GET /a: 403 nodes is forbidden"):
        api.get("/a")


def test_a_collection_is_read_page_by_page(server: Server, api: KubernetesApi) -> None:
    server.answer = (200, b'{"metadata": {"continue": "token/1"}, "items": [1]}')
    pages = api.pages("/a?b=c")
    assert next(pages)["items"] == [1]
    server.answer = (200, b'{"metadata": {}, "items": [2]}')
    assert [page["items"] for page in pages] == [[2]]
    assert [path for _, path, *_ in server.asked] == [
        "/a?b=c&limit=500",
        "/a?b=c&limit=500&continue=token%2F1",
    ]


def test_a_watch_gives_events_whole_however_they_arrive(server: Server, api: KubernetesApi) -> None:
    server.answer = (
        200,
        b'{"type": "ADDED", "object": {"a": 1}}\n\n{"type": "DELE' + b'TED", "object": {}}\n',
    )
    with api.stream("/a") as events:
        assert list(events) == [{"type": "ADDED", "object": {"a": 1}}, {"type": "DELETED", "object": {}}]
    server.answer = (200, b'{"type": \n')
    with api.stream("/a") as events, pytest.raises(ApiError, match="GET /a: "):
        list(events)


def test_a_watch_that_says_nothing_for_long_ends_without_an_error(
    server: Server, api: KubernetesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kube.client.IDLE_SECONDS", 0.5)
    server.answer, server.more = (200, b""), 10
    with api.stream("/a") as events:
        assert list(events) == []
    server.silent.set()


@pytest.mark.parametrize(("status", "error"), [(410, GoneError), (403, ApiError), (500, ApiError)])
def test_a_watch_that_is_refused_says_why(
    server: Server, api: KubernetesApi, status: int, error: type[Exception]
) -> None:
    server.answer = (status, b'{"message": "the reason"}')
    with pytest.raises(error, match=f"/a: {status} the reason"), api.stream("/a"):
        pass
