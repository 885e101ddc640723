"""Serves the installation's preview page on loopback, for the user's browser (``preview --web``).

Requests go through ``kubectl proxy`` and the API server's service proxy, so the API server checks the user's
rights. A port of ``kubectl port-forward`` needs no token, so other users of this machine could use it.
"""

import re
import secrets
import sys
import threading
import webbrowser
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs

from kube.api import ApiError
from kube.rest import decode
from kubectl_ultraserver import messages
from kubectl_ultraserver.proxy import ProxiedApi
from kubectl_ultraserver.service import SERVICE_PATH, error_text

MAX_BODY_BYTES: Final = 3 * 1024 * 1024
"""The maximum size of a request's body, which is also the service's maximum."""
PAGE_PATHS: Final = re.compile(r"/(static/[a-z]+\.(css|js))?")
"""The only paths that are passed on. A path with ``..`` could lead to any object that the user may read."""
POLICY_HEADER: Final = "Content-Security-Policy"
"""A header of every answer of the service; an error of the API server does not have it."""
_REQUEST_HEADERS: Final = ("Accept", "Content-Type", "Origin", "Sec-Fetch-Site")
_RESPONSE_HEADERS: Final = {
    "Content-Type": "text/plain; charset=utf-8",
    POLICY_HEADER: "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class PageServer(ThreadingHTTPServer):
    """Serves the page at `url`. This URL works once, and sets the cookie that every other request needs."""

    def __init__(self, api: ProxiedApi) -> None:
        """Listens on a random port."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.api, self.host = api, f"127.0.0.1:{self.server_port}"
        self._token, self._token_lock = secrets.token_urlsafe(), threading.Lock()
        self.url = f"http://{self.host}/?token={self._token}"
        # A browser sends cookies to all ports of a host, so the cookie's name has the port of this server.
        self.cookie = f"preview-{self.server_port}={secrets.token_urlsafe()}"

    def use_token(self, token: str) -> bool:
        """Returns whether a text is the token. If it is, the token becomes invalid."""
        with self._token_lock:
            is_valid = bool(self._token) and _is_equal(token, self._token)
            self._token = "" if is_valid else self._token
        return is_valid

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores the error of a browser that closes its connection."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    timeout = 30
    error_content_type, error_message_format = _RESPONSE_HEADERS["Content-Type"], "%(message)s\n"

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        tokens = parse_qs(query).get("token")
        cookies = self.headers.get("Cookie", "").split(";")
        length = self.headers.get("Content-Length", "0" if self.command == "GET" else "")
        if self.headers.get_all("Host") != [self.server.host]:
            self._send_text(HTTPStatus.FORBIDDEN, messages.OTHER_HOST)
        elif tokens:
            self._exchange_token(tokens[0])
        elif not any(_is_equal(cookie.strip(), self.server.cookie) for cookie in cookies):
            self._send_text(HTTPStatus.FORBIDDEN, messages.NO_COOKIE)
        elif not PAGE_PATHS.fullmatch(path):
            self._send_text(HTTPStatus.NOT_FOUND, messages.NO_PAGE)
        elif not length:
            self._send_text(HTTPStatus.LENGTH_REQUIRED, messages.NO_LENGTH)
        elif not (length.isdecimal() and int(length) <= MAX_BODY_BYTES):
            self._send_text(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, messages.too_long(MAX_BODY_BYTES))
        else:
            self._pass_on(f"{SERVICE_PATH}{path}?{query}", self.rfile.read(int(length)))

    do_POST = do_GET  # noqa: N815 - the name that http.server calls

    def _exchange_token(self, token: str) -> None:
        if not self.server.use_token(token):
            self._send_text(HTTPStatus.FORBIDDEN, messages.USED_ADDRESS)
            return
        cookie = f"{self.server.cookie}; Path=/; HttpOnly; SameSite=Strict"
        self._send(HTTPStatus.SEE_OTHER, _RESPONSE_HEADERS | {"Location": "/", "Set-Cookie": cookie})

    def _pass_on(self, path: str, body: bytes) -> None:
        headers = {name: self.headers[name] for name in _REQUEST_HEADERS if name in self.headers}
        try:
            reply = self.server.api.pass_on(self.command, path, body, headers)
        except ApiError as error:
            self._send_text(HTTPStatus.BAD_GATEWAY, str(error))
            return
        if POLICY_HEADER in reply.headers:
            reply_headers = {name: reply.headers[name] for name in _RESPONSE_HEADERS if name in reply.headers}
            self._send(reply.status, reply_headers, reply.data)
        else:
            self._send_text(reply.status, error_text(*decode(reply.status, reply.data)))

    def _send_text(self, status: int, text: str) -> None:
        self._send(status, _RESPONSE_HEADERS, f"{text}\n".encode())

    def _send(self, status: int, headers: Mapping[str, str], data: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Logs nothing, so that the URL stays visible in the terminal."""


def _is_equal(text: str, secret: str) -> bool:
    return secrets.compare_digest(text.encode(errors="replace"), secret.encode())


def serve(api: ProxiedApi, say: Callable[[str], object]) -> None:
    """Serves the page until Ctrl-C, and opens it in the browser.

    Raises:
        ApiError: The user cannot use the page; the message has the reason and what to do.
    """
    with PageServer(api) as web, suppress(KeyboardInterrupt):
        for verb in ("GET", "POST"):
            reply = api.pass_on(verb, f"{SERVICE_PATH}/", b"", {})
            if reply.status != HTTPStatus.OK:
                raise ApiError(error_text(*decode(reply.status, reply.data)))
        say(messages.open_page(web.url))
        # The call of a browser that runs in the terminal returns only when the user closes the browser.
        threading.Thread(target=webbrowser.open, args=(web.url,), daemon=True).start()
        web.serve_forever()
