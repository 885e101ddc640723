"""Previews over HTTP: documents in, the answer out as the client accepts it."""

import time
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from typing import Final

from flask import Blueprint, Response, abort, request

from webhook import limits
from webhook.documents import DocumentError, read_documents
from webhook.preview.browser import guard
from webhook.preview.formats import FORMATS
from webhook.preview.run import preview
from webhook.rows.table import Table
from webhook.rules.source import TableSource
from webhook.work import Work, inline

TYPES: Final = {
    "application/json": "json",
    "application/yaml": "yaml",
    "text/x-diff": "diff",
    "application/json-patch+json": "patch",
    "text/plain": "why",
    "application/vnd.ultraserver-webhook.preview-old+json": "json-old",
}
"""Media type -> format; the first is the answer to a client that takes anything."""


def preview_blueprint(
    source: TableSource, work: Work = inline, allowed_hosts: Sequence[str] = ()
) -> Blueprint:
    """Returns ``POST /v1/preview``, and ``/preview``, its path up to 0.2.0.

    Args:
        source: of the rule table.
        work: where previews are made.
        allowed_hosts: names by which people address it, beside IP addresses and localhost.
    """
    blueprint = Blueprint("preview", __name__)
    guard(blueprint, allowed_hosts)
    for path in ("/v1/preview", "/preview"):
        blueprint.add_url_rule(path, path[1:], partial(show, source, work), methods=["POST"])
    blueprint.add_url_rule("/livez", "livez", lambda: {"status": "ok"})
    blueprint.add_url_rule("/readyz", "readyz", partial(ready, source))
    return blueprint


def ready(source: TableSource) -> dict[str, str]:
    """Which table is in use; files that cannot be used are only reported."""
    problem = source.watched.problem
    detail = {"status": "ok", "table": source.table().revision}
    return {**detail, "problem": f"unusable table files: {problem}"} if problem else detail


def show(source: TableSource, work: Work) -> Response:
    """One or many documents previewed, YAML or JSON, up to `limits.PREVIEW`.

    ``?namespace=`` is for documents that name none; ``?all-rules=true`` tells of rules for other objects too.
    A job that is denied is an answer (200); a text that cannot be read is 400.
    """
    kind = request.accept_mimetypes.best_match(TYPES) if request.accept_mimetypes else next(iter(TYPES))
    if kind is None:
        abort(406, f"cannot answer as {request.headers.get('Accept')}; can as {', '.join(TYPES)}")
    body = request.get_data(cache=False)
    if len(body) > limits.PREVIEW:
        abort(413, f"a preview takes {limits.PREVIEW} bytes at most")
    namespace = request.args.get("namespace")
    every = request.args.get("all-rules") == "true"
    status, text = work(len(body), shown, source.table(), body, TYPES[kind], namespace, every)
    if status != HTTPStatus.OK:
        abort(status, text)
    return Response(text, content_type=f"{kind}; charset=utf-8")


def shown(table: Table, body: bytes, form: str, namespace: str | None, every: bool) -> tuple[int, str]:  # noqa: FBT001
    """HTTP status and text of the preview of a body; the text of a refusal is its reason."""
    try:
        found = preview(table, read_documents(body, "request"), namespace, time.time(), all_rules=every)
    except DocumentError as error:
        return 400, str(error)
    if not found:
        return 400, "the body holds no document"
    return 200, FORMATS[form](found)
