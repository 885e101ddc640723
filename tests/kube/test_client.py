"""Tests of the client of the API server: its requests, and the results and errors for an answer."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from kube import messages, rest
from kube.api import ApiError, ConflictError, ForbiddenError, GoneError
from kube.client import KubernetesApi, connect
from testbed.plane.api import Client


class Server(ThreadingHTTPServer):
    """Answers each request with ``answer`` or, if it is set, ``answer_for(path)``; records the requests."""

    answer: tuple[int, bytes] = (200, b"{}")
    answer_for: Callable[[str], bytes] | None = None
    authorization: str | None = None
    missing_bytes = 0
    """If not 0, the answer lacks this many bytes, and the connection stays open until `may_close` is set."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, str, str | None, Any]] = []
        self.may_close = threading.Event()


class Handler(BaseHTTPRequestHandler):
    """Handles the requests of one connection to `Server`."""

    def handle_any(self) -> None:
        """Records a request and answers it."""
        server = self.server
        assert isinstance(server, Server)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        document = json.loads(body) if body else None
        server.requests.append((self.command, self.path, self.headers["Content-Type"], document))
        server.authorization = self.headers["Authorization"]
        status, text = (200, server.answer_for(self.path)) if server.answer_for else server.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(text) + server.missing_bytes))
        self.end_headers()
        self.wfile.write(text)
        if server.missing_bytes:
            server.may_close.wait(60)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815 - http.server's names

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as fake_server:
        thread = threading.Thread(target=fake_server.serve_forever, args=(0.01,))
        thread.start()
        yield fake_server
        fake_server.shutdown()
        thread.join()


@pytest.fixture
def api(server: Server, tmp_path: Path) -> KubernetesApi:
    return connect(kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}"))


def kubeconfig(folder: Path, url: str, bearer: str = "t") -> Path:
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": bearer}}],
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
    assert server.requests == [
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
        ("create", 404, ApiError),  # the namespace does not exist
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
def test_each_status_gives_its_result_or_error(
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
    assert len(server.requests) == 1, "the client has repeated the request"


def test_an_object_of_an_api_group_that_is_not_served_is_read_as_none(
    server: Server, api: KubernetesApi
) -> None:
    server.answer = (404, b"404 page not found\n")  # not JSON; for example resource.k8s.io/v1 before 1.34
    assert api.get("/a") is None
    with pytest.raises(ApiError, match=f"/a: 404 {messages.NOT_SERVED}$"):
        api.create("/a", {})


def test_an_answer_that_is_not_a_json_object_is_an_error(server: Server, api: KubernetesApi) -> None:
    for status, text in ((200, b"<html>"), (200, b"[]"), (503, b"busy"), (404, b"<html>")):
        server.answer = (status, text)
        with pytest.raises(ApiError, match=f" {messages.not_an_object(re.escape(text.decode()))}$"):
            api.get("/a")


def test_a_dry_run_reports_its_result_and_raises_nothing(server: Server, api: KubernetesApi) -> None:
    server.answer = (422, b'{"message": "the reason"}')
    assert api.create_as_dry_run("/a", {"b": 1}) == (422, {"message": "the reason"})
    assert server.requests[0][:2] == ("POST", "/a?dryRun=All&fieldValidation=Strict")


def test_an_answer_that_is_plain_text_can_be_read(server: Server, tmp_path: Path) -> None:
    """Only the client of the test bed reads plain text."""
    client = Client(kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}"))
    server.answer = (200, b"counter 1\n")
    assert client.text("/metrics") == "counter 1\n"
    server.answer = (403, b'{"message": "the reason"}')
    with pytest.raises(ForbiddenError, match="/metrics: 403 the reason"):
        client.text("/metrics")


def test_a_server_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ApiError, match=r"GET /a: .*refused"):
        connect(kubeconfig(tmp_path, "http://127.0.0.1:1")).get("/a")


@pytest.mark.parametrize("token", ["se\ncret", "se\r\ncret", "secre\u0165", "se\0cret"])
def test_a_token_with_characters_that_a_header_cannot_have_is_refused_and_not_shown(
    server: Server, tmp_path: Path, token: str
) -> None:
    api = connect(kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}", token))
    with pytest.raises(ApiError, match=f"^GET /a: {messages.BAD_TOKEN}$") as caught:
        api.get("/a")
    with pytest.raises(ApiError, match=messages.BAD_TOKEN), api.stream("/a"):
        pass
    assert "cre" not in str(caught.value)
    assert not server.requests


def test_a_line_end_after_a_token_is_left_out(server: Server, tmp_path: Path) -> None:
    connect(kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}", "secret\n")).get("/a")
    assert server.authorization == "Bearer secret"


def test_without_a_kubeconfig_or_a_service_account_the_error_has_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ApiError, match=f"^{re.escape(messages.no_server('@')).replace('@', '.+')}$"):
        connect(None)
    with pytest.raises(ApiError, match=f"^{messages.unreachable('[^()]+')}$"):
        connect(tmp_path / "none")


def test_a_page_that_is_too_long_is_read_as_several_shorter_pages(
    server: Server, api: KubernetesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "MAX_PAGE_BYTES", 8000)
    items = ["."] * 600 + ["large" * 600] * 5 + ["larger" * 2000] + ["."] * 100
    limits = []

    def answer(path: str) -> bytes:
        query = dict(parse_qsl(urlsplit(path).query))
        assert query["b"] == "c"
        begin = int(query.get("continue", "token/0").removeprefix("token/"))
        end = begin + int(query["limit"])
        limits.append(int(query["limit"]))
        result = {
            "metadata": {"continue": f"token/{end}"} if end < len(items) else {},
            "items": [f"{number}{text}" for number, text in enumerate(items[begin:end], begin)],
        }
        return json.dumps(result).encode()

    server.answer_for = answer
    pages = list(api.pages("/a?b=c"))
    assert [text for page in pages for text in page["items"]] == [
        f"{i}{text}" for i, text in enumerate(items)
    ]
    # Pages grow again after the large objects. An object that exceeds the maximum by itself is read, too.
    assert limits[0] == rest.PAGE_SIZE
    assert max(len(json.dumps(page)) for page in pages) < 13_000
    assert limits[-1] > 1


def test_a_watch_yields_complete_events_from_pieces_and_fails_at_an_invalid_line(
    server: Server, api: KubernetesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kube.client._READ_BYTES", 7)
    body = b'{"type": "ADDED", "object": {"a": 1}}\n\n{"type": "DELETED", "object": {}}\n'
    server.answer = (200, body)
    with api.stream("/a") as events:
        assert list(events) == [{"type": "ADDED", "object": {"a": 1}}, {"type": "DELETED", "object": {}}]
    server.answer = (200, b'{"type": \n')
    with api.stream("/a") as events, pytest.raises(ApiError, match="GET /a: "):
        list(events)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (b'"\xff"', "\ufffd"),
        (b'"]}\\""', ']}"'),
        (b"[" * 90 + b"]" * 90, None),
        (b"[" * 5000 + b"]" * 5000, None),
        (b"[" + b"1" * 5000 + b"]", None),
    ],
)
def test_one_unreadable_object_does_not_prevent_reading_the_others(
    server: Server, api: KubernetesApi, value: bytes, read: str | None
) -> None:
    """Protects programs from values that a user stores and Python cannot read, such as deep nesting."""
    body = b'{"items": [{"a": %b, "b": [{}]}, {"a": 1}]}' % value
    server.answer = (200, body)
    (page,) = api.pages("/a")
    server.answer = (200, body + b"\n")
    with api.stream("/a") as events:
        assert [*events] == [page]
    (odd, other) = page["items"]
    assert (odd["b"], other) == ([{}], {"a": 1})
    assert odd["a"] == read if read else isinstance(odd["a"], list)


def test_a_watch_without_events_ends_without_an_error(
    server: Server, api: KubernetesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kube.client.IDLE_SECONDS", 0.1)
    server.answer, server.missing_bytes = (200, b""), 10
    with api.stream("/a") as events:
        assert list(events) == []
    server.may_close.set()


@pytest.mark.parametrize(("status", "error"), [(410, GoneError), (403, ApiError), (500, ApiError)])
def test_a_refused_watch_has_the_reason(
    server: Server, api: KubernetesApi, status: int, error: type[Exception]
) -> None:
    server.answer = (status, b'{"message": "the reason"}')
    with pytest.raises(error, match=f"/a: {status} the reason"), api.stream("/a"):
        pass
