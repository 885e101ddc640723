"""What every HTTP app of the server has in common: a limit on bodies, and every refusal as JSON."""

import logging

from flask import Flask, Response, json, request
from werkzeug.exceptions import HTTPException

from webhook import limits
from webhook.work import BusyError, FailedError, TooLargeError

log = logging.getLogger("webhook.responses")


def new_app(name: str) -> Flask:
    """An app without routes."""
    app = Flask(name, static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = limits.BODY
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(BusyError, _busy)
    app.register_error_handler(TooLargeError, _too_large)
    app.register_error_handler(FailedError, _failed)
    return app


def refusal(code: int, reason: str, headers: dict[str, str] | None = None) -> Response:
    """A refusal with a reason."""
    body = json.dumps({"error": reason})
    return Response(body, status=code, mimetype="application/json", headers=headers)


def _http_error(error: HTTPException) -> Response:
    headers = {key: value for key, value in error.get_headers() if key.lower() == "allow"}
    return refusal(error.code or 500, error.description or error.name, headers)


def _busy(error: BusyError) -> Response:
    return refusal(503, str(error), {"Retry-After": "1"})


def _too_large(error: TooLargeError) -> Response:
    log.warning("refused %s of %d bytes: %s", request.path, request.content_length, error)
    return refusal(413, f"the body is too large: {error}")


def _failed(error: FailedError) -> Response:
    log.error("%s of %d bytes failed: %s", request.path, request.content_length, error)
    return refusal(500, "it could not be evaluated, see the log of ultraserver-webhook")
