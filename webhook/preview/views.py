"""Serves previews over HTTP: documents in the request, the answer in a type that the client accepts."""

import re
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from typing import Final

from flask import Blueprint, Response, abort, request

from common.output import clean
from webhook.preview.browser import guard
from webhook.preview.fit import Ask, fit
from webhook.preview.formats import FORMATS, WITHOUT_PODS
from webhook.preview.inputs import ParameterError, accepted, answer, openapi, read_query, texts_of
from webhook.preview.page import page
from webhook.rules.source import TableSource

TYPES: Final = {
    "application/json": "json",
    "application/yaml": "yaml",
    "text/x-diff": "diff",
    "application/json-patch+json": "patch",
    "text/plain": "why",
}
"""Media type -> format; the first one is for a client that accepts any."""
CURL: Final = "application/x-www-form-urlencoded"
"""curl's default type of any body."""
JOINABLE: Final = re.compile(rb"\s*(#|---|[^\n\0{\[]*: [^\n\0{\[]*: )[^\n]*\Z")
"""Matches YAML without its line ends: a comment, or several keys of a map in one line."""
JOINED: Final = "; curl's -d takes newlines out of a file: send it with --data-binary @FILE"
TYPE_OF: Final = {form: kind for kind, form in TYPES.items()}


def preview_blueprint(
    source: TableSource, allowed_hosts: Sequence[str] = (), asks: Ask | None = None
) -> Blueprint:
    """Returns the page, ``POST /v1/preview``, ``POST /v1/fit`` and ``/v1/openapi.json``.

    Args:
        source: The rule table.
        allowed_hosts: The names that a request may address, in addition to IP addresses and localhost.
        asks: Asks the placement program; None if ``/v1/fit`` is off.
    """
    blueprint = Blueprint("preview", __name__, template_folder="templates", static_folder="static")
    guard(blueprint, allowed_hosts)
    blueprint.add_url_rule("/", "page", partial(page, source), methods=["GET", "POST"])
    blueprint.add_url_rule("/v1/preview", "preview", partial(show, source), methods=["POST"])
    blueprint.add_url_rule("/v1/fit", "fit", partial(fit, source, asks), methods=["POST"])
    blueprint.add_url_rule("/v1/openapi.json", "openapi", openapi)
    blueprint.add_url_rule("/livez", "livez", lambda: {"status": "ok"})
    blueprint.add_url_rule("/readyz", "readyz", partial(ready, source))
    return blueprint


def ready(source: TableSource) -> dict[str, str]:
    """Returns the release and the table in use; invalid files are only reported."""
    problem = source.watched.problem
    detail = {"status": "ok", "table": source.table().revision, "version": version("ultraserver-webhook")}
    return {**detail, "problem": f"unusable table files: {problem}"} if problem else detail


def show(source: TableSource) -> Response:
    """Returns the previews of documents, YAML or JSON, up to `limits.PREVIEW`, as in ``openapi.yaml``.

    A refused job has status 200; a text that cannot be read 400.
    """
    how = read_query(request.args)
    kind = TYPE_OF[how.pop("format")] if "format" in how else accepted(TYPES)
    form = TYPES[kind]
    if how.get("pods") and form in WITHOUT_PODS:
        message = f"parameter pods is 'true', but format {form} has no Pods: ask for format json"
        raise ParameterError("invalid-parameter", message)
    texts = texts_of()
    status, text = source.work(sum(map(len, texts.values())), answer, texts, how, FORMATS[form])
    if status != HTTPStatus.OK:
        joined = request.mimetype == CURL and JOINABLE.match(texts["request"])
        abort(status, text + JOINED if joined else text)
    # CI reads GitHub's commands in curl's output.
    return Response(clean(text), content_type=f"{kind}; charset=utf-8")
