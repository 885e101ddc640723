"""Previews over HTTP: documents in, the answer out as the client accepts it."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from flask import Blueprint, Response, abort, request

from common.texts import printable
from webhook import limits
from webhook.documents import DocumentError, read_documents
from webhook.preview.browser import guard
from webhook.preview.formats import FORMATS
from webhook.preview.openapi import openapi
from webhook.preview.page import add_page
from webhook.preview.parameters import SHOWN, read_query, refuse_pods
from webhook.preview.run import preview
from webhook.preview.upload import hint, texts_of
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
TYPE_OF: Final = {form: kind for kind, form in TYPES.items()}


def preview_blueprint(
    source: TableSource, work: Work = inline, allowed_hosts: Sequence[str] = ()
) -> Blueprint:
    """Returns ``POST /v1/preview``, ``/preview``, its path up to 0.2.0, and ``/v1/openapi.json``.

    Args:
        source: of the rule table.
        work: where previews are made.
        allowed_hosts: names by which people address it, beside IP addresses and localhost.
    """
    blueprint = Blueprint("preview", __name__, template_folder="templates", static_folder="static")
    add_page(blueprint, source, work)
    guard(blueprint, allowed_hosts)
    for path in ("/v1/preview", "/preview"):
        blueprint.add_url_rule(path, path[1:], partial(show, source, work), methods=["POST"])
    blueprint.add_url_rule("/v1/openapi.json", "openapi", partial(openapi, TYPES))
    blueprint.add_url_rule("/livez", "livez", lambda: {"status": "ok"})
    blueprint.add_url_rule("/readyz", "readyz", partial(ready, source))
    return blueprint


def ready(source: TableSource) -> dict[str, str]:
    """Which table is in use; files that cannot be used are only reported."""
    problem = source.watched.problem
    detail = {"status": "ok", "table": source.table().revision}
    return {**detail, "problem": f"unusable table files: {problem}"} if problem else detail


def show(source: TableSource, work: Work) -> Response:
    """Documents previewed, YAML or JSON, up to `limits.PREVIEW`, as `PARAMETERS` ask.

    A job that is denied is an answer (200); a text that cannot be read is 400.
    """
    how = read_query(request.args)
    kind = TYPE_OF[how.pop("format")] if "format" in how else accepted()
    refuse_pods(TYPES[kind], pods=how.get("pods", False))
    texts = texts_of(request)
    size = sum(map(len, texts.values()))
    status, text = work(size, shown, source.table(), texts, TYPES[kind], how)
    if status != HTTPStatus.OK:
        abort(status, text + hint(request, texts))
    return Response(text, content_type=f"{kind}; charset=utf-8")


def accepted() -> str:
    """The media type that the client likes best."""
    kind = request.accept_mimetypes.best_match(TYPES) if request.accept_mimetypes else next(iter(TYPES))
    if kind is None:
        given = printable(request.headers["Accept"], SHOWN)
        abort(406, f"cannot answer as {given}; can as {', '.join(TYPES)}")
    return kind


def shown(table: Table, texts: Mapping[str, bytes], form: str, how: Mapping[str, Any]) -> tuple[int, str]:
    """HTTP status and text of the preview of a body or of a form; the text of a refusal is its reason.

    Args:
        table: the rules.
        texts: as of `texts_of`.
        form: one of `FORMATS`.
        how: parameters by name.
    """
    asked = {name.replace("-", "_"): value for name, value in how.items()}
    try:
        read = {name: read_documents(text, name, limits.PREVIEW_VALUES) for name, text in texts.items()}
        old = read.pop("old", None)
        (documents,) = read.values()
        limit = limits.PREVIEW_PODS
        previews = preview(table, documents, now=time.time(), old=old, most_pods=limit, **asked)
    except DocumentError as error:
        return 400, str(error)
    if not previews:
        return 400, "the body holds no document"
    return 200, FORMATS[form](previews)
