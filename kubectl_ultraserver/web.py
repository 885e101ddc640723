"""``preview --web``: the installation's page of previews, on loopback, for the browser of one user.

Requests go through ``kubectl proxy`` and the API server's service proxy, so the API server checks the user's
rights. ``kubectl port-forward`` would open one more port, for which other people need no token.
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
from kube.rest import decoded
from kubectl_ultraserver.proxy import ProxiedApi
from kubectl_ultraserver.service import SERVICE, reason

BODY: Final = 3 * 1024 * 1024
"""Maximum number of bytes of a form that are passed on, as many as the service accepts."""
PATHS: Final = re.compile(r"/(static/[a-z]+\.(css|js))?")
"""Paths that are passed on: dots could lead out of the service, to anything that the user may read."""
POLICY: Final = "Content-Security-Policy"
"""A header that every answer of the page has, and no answer of the API server."""
_PASSED_ON: Final = ("Accept", "Content-Type", "Origin", "Sec-Fetch-Site")
_HEADERS: Final = {
    "Content-Type": "text/plain; charset=utf-8",
    POLICY: "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class Web(ThreadingHTTPServer):
    """Serves the page at `url`, which works once: it gives the cookie that every other request needs."""

    def __init__(self, api: ProxiedApi) -> None:
        """Listens on a random port."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.api, self.host = api, f"127.0.0.1:{self.server_port}"
        self._token, self._spending = secrets.token_urlsafe(), threading.Lock()
        self.url = f"http://{self.host}/?token={self._token}"
        # A browser sends cookies to all ports of a host, so the port is in the name.
        self.cookie = f"preview-{self.server_port}={secrets.token_urlsafe()}"

    def spend(self, token: str) -> bool:
        """Returns whether this is the token, which is valid once."""
        with self._spending:
            valid = bool(self._token) and _same(token, self._token)
            self._token = "" if valid else self._token
        return valid

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores the error of a browser that closes its connection."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    server: Web
    timeout = 30
    error_content_type, error_message_format = _HEADERS["Content-Type"], "%(message)s\n"

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        tokens = parse_qs(query).get("token")
        cookies = self.headers.get("Cookie", "").split(";")
        length = self.headers.get("Content-Length", "0" if self.command == "GET" else "")
        if self.headers.get_all("Host") != [self.server.host]:
            self._say(HTTPStatus.FORBIDDEN, "this host name is not allowed")
        elif tokens:
            self._exchange(tokens[0])
        elif not any(_same(cookie.strip(), self.server.cookie) for cookie in cookies):
            self._say(HTTPStatus.FORBIDDEN, "open the address that kubectl ultraserver preview --web prints")
        elif not PATHS.fullmatch(path):
            self._say(HTTPStatus.NOT_FOUND, "there is no such page")
        elif not length:
            self._say(HTTPStatus.LENGTH_REQUIRED, "a body needs a Content-Length")
        elif not (length.isdecimal() and int(length) <= BODY):
            self._say(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has a length of at most {BODY} bytes")
        else:
            self._pass_on(f"{SERVICE}{path}?{query}", self.rfile.read(int(length)))

    do_POST = do_GET  # noqa: N815 - the name that http.server calls

    def _exchange(self, token: str) -> None:
        if not self.server.spend(token):
            self._say(
                HTTPStatus.FORBIDDEN, "this address worked once: run kubectl ultraserver preview --web again"
            )
            return
        cookie = f"{self.server.cookie}; Path=/; HttpOnly; SameSite=Strict"
        self._answer(HTTPStatus.SEE_OTHER, _HEADERS | {"Location": "/", "Set-Cookie": cookie})

    def _pass_on(self, path: str, body: bytes) -> None:
        headers = {name: self.headers[name] for name in _PASSED_ON if name in self.headers}
        try:
            reply = self.server.api.pass_on(self.command, path, body, headers)
        except ApiError as error:
            self._say(HTTPStatus.BAD_GATEWAY, str(error))
            return
        if POLICY in reply.headers:
            own = {name: reply.headers[name] for name in _HEADERS if name in reply.headers}
            self._answer(reply.status, own, reply.data)
        else:
            self._say(reply.status, reason(*decoded(reply.status, reply.data)))

    def _say(self, status: int, text: str) -> None:
        self._answer(status, _HEADERS, f"{text}\n".encode())

    def _answer(self, status: int, headers: Mapping[str, str], data: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Logs nothing, so that the address stays visible in the terminal."""


def _same(given: str, secret: str) -> bool:
    return secrets.compare_digest(given.encode(errors="replace"), secret.encode())


def serve(api: ProxiedApi, say: Callable[[str], object]) -> None:
    """Serves the page until Ctrl-C, and opens it in the browser.

    Raises:
        ApiError: The user cannot use the page; the message has the reason and what to do.
    """
    with Web(api) as web, suppress(KeyboardInterrupt):
        for verb in ("GET", "POST"):
            reply = api.pass_on(verb, f"{SERVICE}/", b"", {})
            if reply.status != HTTPStatus.OK:
                raise ApiError(reason(*decoded(reply.status, reply.data)))
        say(f"Open {web.url} in a browser; the address works once, and Ctrl-C ends the page.")
        # A browser of the terminal returns only when the user closes it.
        threading.Thread(target=webbrowser.open, args=(web.url,), daemon=True).start()
        web.serve_forever()
