"""Tests of ``preview --web`` without a cluster: access to the page, forwarded requests, and errors."""

import http.client
import json
import re
import threading
from collections.abc import Iterator
from contextlib import closing
from email.message import Message
from typing import NamedTuple, cast

import pytest

from kube.api import ApiError
from kubectl_ultraserver import messages, web
from kubectl_ultraserver.proxy import ProxiedApi, Reply
from kubectl_ultraserver.service import SERVICE_PATH
from tests.kubectl_ultraserver.build import run_plugin

PAGE_POLICY = "default-src 'none'"


class ForwardedRequest(NamedTuple):
    """A request that the page's server has forwarded."""

    verb: str
    path: str
    body: bytes
    headers: dict[str, str]


class FakeProxy:
    """Replaces ``kubectl proxy``: answers each request with ``reply``, or raises it if it is an error."""

    def __init__(self) -> None:
        self.requests: list[ForwardedRequest] = []
        self.reply: Reply | ApiError = reply_of(200, b"<p>page", {web.POLICY_HEADER: PAGE_POLICY})

    def pass_on(self, verb: str, path: str, body: bytes, headers: dict[str, str]) -> Reply:
        """Records a request, and answers it (see `ProxiedApi`)."""
        self.requests.append(ForwardedRequest(verb, path, body, headers))
        if isinstance(self.reply, ApiError):
            raise self.reply
        return self.reply


class Answer(NamedTuple):
    """An answer of the page's server."""

    status: int
    headers: Message
    text: str


def reply_of(status: int, data: bytes, headers: dict[str, str] | None = None) -> Reply:
    message = Message()
    for name, value in ({"Content-Type": "text/html", "Server": "gunicorn"} | (headers or {})).items():
        message[name] = value
    return Reply(status, message, data)


def refusal(status: int, message: str) -> Reply:
    """Returns an answer with which the API server refuses a request."""
    return reply_of(status, json.dumps({"kind": "Status", "message": message}).encode())


@pytest.fixture
def api() -> FakeProxy:
    return FakeProxy()


@pytest.fixture
def page(api: FakeProxy) -> Iterator[web.PageServer]:
    with web.PageServer(cast("ProxiedApi", api)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def send(
    page: web.PageServer, path: str, verb: str = "GET", body: bytes | None = None, **headers: str
) -> Answer:
    """Sends a request. In the names of ``headers``, ``_`` stands for ``-``."""
    with closing(http.client.HTTPConnection(page.host, timeout=5)) as connection:
        connection.request(verb, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read().decode())


def token_of(page: web.PageServer) -> str:
    return page.url.partition(page.host)[2]


def test_the_token_can_be_exchanged_for_a_cookie_once(page: web.PageServer, api: FakeProxy) -> None:
    """Protects the page from users who see its address later, in a history, a log or a list of processes."""
    first = send(page, token_of(page))
    assert (first.status, first.headers["Location"]) == (303, "/")
    cookie, *flags = first.headers["Set-Cookie"].split("; ")
    assert {*flags} == {"Path=/", "HttpOnly", "SameSite=Strict"}
    assert token_of(page).partition("=")[2] not in cookie
    assert send(page, token_of(page)).status == 403
    assert send(page, token_of(page), Cookie=cookie).status == 403
    assert not api.requests
    answer = send(page, "/?example", Cookie=f"other=1; {cookie}")
    assert (answer.status, answer.text) == (200, "<p>page")


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", {}),
        ("/static/page.js", {"Cookie": "preview=x; \xe4"}),
        ("/?token=", {}),
        ("/?token=wrong", {}),
        ("/?token=%ff", {}),
    ],
)
def test_without_token_or_cookie_no_request_is_forwarded(
    page: web.PageServer, api: FakeProxy, path: str, headers: dict[str, str]
) -> None:
    assert send(page, path, **headers).status == 403
    assert not api.requests
    assert send(page, token_of(page)).status == 303, "a wrong token must leave the right token valid"


@pytest.mark.parametrize("host", ["evil.example", "localhost:{port}", "127.0.0.1", "127.0.0.1:1"])
def test_a_foreign_host_is_refused_and_does_not_use_up_the_token(page: web.PageServer, host: str) -> None:
    """Protects users from a web page whose host name resolves to loopback (DNS rebinding)."""
    foreign = {"Host": host.format(port=page.server_port)}
    assert send(page, token_of(page), **foreign).status == 403
    assert send(page, "/", Cookie=page.cookie, **foreign).status == 403
    assert send(page, token_of(page)).status == 303


@pytest.mark.parametrize(
    "path",
    ["/../../../secrets", "/static/../..", "/static/%2e%2e/x.js", "/..%2f..%2fsecrets", "//x", "/v1/preview"],
)
def test_no_path_leads_out_of_the_service(page: web.PageServer, api: FakeProxy, path: str) -> None:
    """Protects other objects, which the user may read, from scripts in the page."""
    assert send(page, path, Cookie=page.cookie).status == 404
    assert not api.requests


def test_a_form_is_forwarded_with_length_and_origin_and_without_the_cookie(
    page: web.PageServer, api: FakeProxy
) -> None:
    """The preview service needs the length, and uses the other headers to refuse requests of other sites."""
    sent = {"Origin": "null", "Sec-Fetch-Site": "same-origin", "Content-Type": "multipart/form-data"}
    answer = send(page, "/", "POST", b"object=x", Cookie=page.cookie, **sent)
    assert answer.status == 200
    assert api.requests == [ForwardedRequest("POST", f"{SERVICE_PATH}/?", b"object=x", sent)]
    assert answer.headers[web.POLICY_HEADER] == PAGE_POLICY
    assert "gunicorn" not in answer.headers["Server"]


def test_a_body_without_a_length_or_too_long_is_refused(page: web.PageServer, api: FakeProxy) -> None:
    for length, status in (("", 411), ("-1", 413), (str(web.MAX_BODY_BYTES + 1), 413)):
        assert send(page, "/", "POST", b"", Cookie=page.cookie, Content_Length=length).status == status
    assert not api.requests


@pytest.mark.parametrize("verb", ["PUT", "HEAD", "OPTIONS"])
def test_another_method_is_refused_with_plain_text(page: web.PageServer, api: FakeProxy, verb: str) -> None:
    """Protects users from HTML error pages of http.server, which lack the security headers of the page."""
    answer = send(page, "/", verb, Cookie=page.cookie)
    assert (answer.status, answer.headers["Content-Type"]) == (501, "text/plain; charset=utf-8")
    assert answer.text == ("" if verb == "HEAD" else f"Unsupported method ({verb!r})\n")
    assert not api.requests


@pytest.mark.parametrize(
    ("reply", "status", "text"),
    [
        (ApiError("POST /x: Connection refused"), 502, "Connection refused"),
        (refusal(403, 'User "ada" cannot get services/proxy'), 403, 'answers 403: User "ada" cannot'),
        (refusal(503, "no endpoints available"), 503, "no endpoints available"),
        (reply_of(504, b"<b>gateway"), 504, "port-forward"),
    ],
)
def test_an_answer_that_is_not_the_page_is_reported_as_plain_text(
    page: web.PageServer, api: FakeProxy, reply: Reply | ApiError, status: int, text: str
) -> None:
    """Protects users if their right is revoked, or a Pod or the proxy ends, while the page is open."""
    api.reply = reply
    answer = send(page, "/", Cookie=page.cookie)
    assert answer.status == status
    assert text in answer.text
    assert answer.headers.get_content_type() == "text/plain"
    assert "frame-ancestors 'none'" in answer.headers[web.POLICY_HEADER]


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (refusal(403, "no right"), "answers 403: no right; an administrator can give you the Role"),
        (refusal(404, "no service"), "install the chart with the value preview: true"),
        (refusal(503, "no endpoints"), "get deployment ultraserver-webhook-preview"),
        (
            reply_of(403, b'{"error": "this host name is not allowed"}', {web.POLICY_HEADER: PAGE_POLICY}),
            "this host name is not allowed; an administrator can add the name of the API server",
        ),
    ],
)
def test_without_a_page_the_command_prints_the_remedy(
    api: FakeProxy, monkeypatch: pytest.MonkeyPatch, reply: Reply, text: str
) -> None:
    monkeypatch.setattr("kubectl_ultraserver.__main__.connect_as_user", lambda *_: (api, "team"))
    api.reply = reply
    code, out, err = run_plugin("preview", "--web")
    assert (code, out) == (2, "")
    assert re.match("error: [^\n]*\n$", err)
    assert text in err


def test_files_and_the_page_exclude_each_other(api: FakeProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubectl_ultraserver.__main__.connect_as_user", lambda *_: (api, "team"))
    for words in ([], ["--web", "-f", "x"]):
        code, _, err = run_plugin("preview", *words)
        assert code == 2
        assert messages.FILE_OR_WEB in err
