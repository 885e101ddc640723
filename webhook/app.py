"""Creates the Flask application of a listener, with a limit on bodies and one form of error responses."""

import logging
from collections.abc import Callable
from io import BytesIO
from typing import Any

from flask import Blueprint, Flask, Request, Response, jsonify, request
from werkzeug.exceptions import HTTPException

from webhook import limits, messages
from webhook.messages import code_of, reason_of
from webhook.work import BusyError, FailedError, TooLargeError

log = logging.getLogger("webhook.app")


def as_json(_: int, code: str, reason: str) -> Response:
    """Returns a response with an error as JSON."""
    return jsonify(error=reason, code=code)


class InMemoryRequest(Request):
    """A request that is never written to files, because the file system of a container is read-only."""

    def _get_file_stream(self, *_: Any, **__: Any) -> BytesIO:  # noqa: ANN401 - werkzeug's
        return BytesIO()


def create_app(*blueprints: Blueprint, render_error: Callable[[int, str, str], Response] = as_json) -> Flask:
    """Returns the application; ``render_error`` returns the response for a status, a code and a reason."""
    app = Flask("webhook", static_folder=None)
    app.request_class = InMemoryRequest
    app.config.update(MAX_CONTENT_LENGTH=limits.BODY, PROVIDE_AUTOMATIC_OPTIONS=False)
    app.url_map.merge_slashes = False
    for blueprint in blueprints:
        app.register_blueprint(blueprint)

    def answer(error: Exception) -> Response:
        status, reason, headers = describe_error(error)
        response = render_error(status, getattr(error, "code_name", code_of(status)), reason)
        response.status_code = status
        response.headers.update(headers)
        return response

    app.register_error_handler(Exception, answer)
    return app


def describe_error(error: Exception) -> tuple[int, str, dict[str, Any]]:
    """Returns the status, the reason and the headers for an error; logs failures and unexpected errors."""
    match error:
        case HTTPException():
            status = error.code or 500
            reason = error.description
            if not reason or reason == type(error).description:
                reason = reason_of(status)
            headers = {key: value for key, value in error.get_headers() if key == "Allow"}
            return status, reason, headers
        case BusyError():
            return 503, reason_of(503), {"Retry-After": "1"}
        case TooLargeError():
            log.warning("refused %s of %d bytes: %s", request.path, request.content_length, error)
            return 413, messages.too_large(error), {}
        case FailedError():
            log.error("%s of %d bytes failed: %s", request.path, request.content_length, error)
            return 500, messages.NOT_EVALUATED, {}
    log.error("%s failed", request.path, exc_info=error)
    return 500, reason_of(500), {}
