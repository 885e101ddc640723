"""``POST /preview``: documents in, the answer out as the client accepts it."""

from typing import Final

from flask import Blueprint, Response, jsonify, request

from webhook.documents import DocumentError, read_documents
from webhook.preview.run import FORMATS, preview
from webhook.rules.source import TableSource

TYPES: Final = {
    "application/json": "json",
    "application/yaml": "yaml",
    "text/x-diff": "diff",
    "application/json-patch+json": "patch",
}
"""Media type -> format; the first is the answer to a client that takes anything."""


def preview_routes(source: TableSource) -> Blueprint:
    """The route, for an app that serves reviews as well or for one of its own.

    One or many documents, YAML or JSON, up to the body limit of the app. ``?namespace=`` is for documents
    that name none. A job that is denied is an answer (200); a text that cannot be read is 400.

    Args:
        source: of the rule table.
    """
    routes = Blueprint("preview", __name__)

    @routes.post("/preview")
    def show() -> Response:
        kind = request.accept_mimetypes.best_match(TYPES) if request.accept_mimetypes else next(iter(TYPES))
        if kind is None:
            reason = f"cannot answer as {request.headers.get('Accept')}; can as {', '.join(TYPES)}"
            return _error(406, reason)
        try:
            documents = read_documents(request.get_data(cache=False), "request")
            shown = preview(source.table(), documents, request.args.get("namespace", "default"))
        except DocumentError as error:
            return _error(400, str(error))
        if not shown:
            return _error(400, "the body holds no document")
        text = FORMATS[TYPES[kind]](shown)
        return Response(text, content_type=f"{kind}; charset=utf-8")

    return routes


def _error(code: int, reason: str) -> Response:
    answer = jsonify(error=reason)
    answer.status_code = code
    return answer
