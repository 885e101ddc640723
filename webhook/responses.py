"""What every HTTP app of the server has in common: a limit on bodies, and refusals as JSON."""

from flask import Flask, Response, json
from werkzeug.exceptions import HTTPException

from webhook import limits
from webhook.work import BusyError


def new_app(name: str) -> Flask:
    """An app without routes."""
    app = Flask(name, static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = limits.BODY
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(BusyError, _busy)
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
