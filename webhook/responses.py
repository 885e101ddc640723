"""What the HTTP apps of the server have in common: views by path, a limit on bodies, refusals as JSON."""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import werkzeug
from werkzeug.exceptions import HTTPException, InternalServerError, MethodNotAllowed, NotFound
from werkzeug.wrappers import Response

from webhook import limits
from webhook.work import BusyError, FailedError, TooLargeError

GET: Final = frozenset({"GET", "HEAD"})
POST: Final = frozenset({"POST"})

log = logging.getLogger("webhook.responses")


class Request(werkzeug.Request):
    """A request; of a body that is too long nothing is read."""

    max_content_length = limits.BODY


View = Callable[[Request], Response]
"""Answers a request; it may raise werkzeug's `HTTPException`, and as `webhook.work.Work`."""

Views = Mapping[str, tuple[frozenset[str], View]]
"""By path, without its slash: the methods, and what answers them."""


class App:
    """A WSGI application of views."""

    def __init__(self, views: Views) -> None:
        self._views = {f"/{path}": view for path, view in views.items()}

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        request = Request(environ)
        try:
            response = self._view(request)(request)
        except Exception as error:  # noqa: BLE001 - `_refused` logs what is none of the expected ones
            response = _refused(request, error)
        return response(environ, start_response)

    def _view(self, request: Request) -> View:
        methods, view = self._views.get(request.path, (None, None))
        if methods is None or view is None:
            raise NotFound
        if request.method not in methods:
            raise MethodNotAllowed(methods)
        return view


def refusal(code: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    """A refusal with a reason."""
    body = json.dumps({"error": reason})
    return Response(body, status=code, mimetype="application/json", headers=headers)


def _refused(request: Request, error: Exception) -> Response:
    match error:
        case HTTPException():
            headers = {key: value for key, value in error.get_headers() if key.lower() == "allow"}
            return refusal(error.code or 500, error.description or error.name, headers)
        case BusyError():
            return refusal(503, str(error), {"Retry-After": "1"})
        case TooLargeError():
            log.warning("refused %s of %d bytes: %s", request.path, request.content_length, error)
            return refusal(413, f"the body is too large: {error}")
        case FailedError():
            log.error("%s of %d bytes failed: %s", request.path, request.content_length, error)
            return refusal(500, "it could not be evaluated, see the log of ultraserver-webhook")
    log.error("%s failed", request.path, exc_info=error)
    return refusal(500, InternalServerError.description or "")
