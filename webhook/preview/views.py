"""Serves previews over HTTP, in a media type that the client accepts."""

import re
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from typing import Final

from flask import Blueprint, Response, abort, request

from common.output import clean
from webhook.messages import unusable_files
from webhook.preview import messages
from webhook.preview.browser import protect
from webhook.preview.fit import Ask, fit
from webhook.preview.formats import FORMATS, WITHOUT_PODS
from webhook.preview.inputs import ParameterError, accepted_type, answer, openapi, read_query, request_texts
from webhook.preview.page import page
from webhook.rules.source import TableSource

TYPES: Final = {
    "application/json": "json",
    "application/yaml": "yaml",
    "text/x-diff": "diff",
    "application/json-patch+json": "patch",
    "text/plain": "why",
}
"""The format of each media type; a client that names no type gets the first."""
CURL_TYPE: Final = "application/x-www-form-urlencoded"
"""The media type that curl sends by default."""
ONE_LINE: Final = re.compile(rb"\s*(#|---|[^\n\0{\[]*: [^\n\0{\[]*: )[^\n]*\Z")
"""Matches YAML without line ends: a comment, ``---``, or several keys of a map in one line."""
MEDIA_TYPES: Final = {name: media_type for media_type, name in TYPES.items()}


def preview_blueprint(
    source: TableSource, allowed_hosts: Sequence[str] = (), ask: Ask | None = None
) -> Blueprint:
    """Returns the blueprint of the page, the API below ``/v1/``, ``/livez`` and ``/readyz``.

    Args:
        source: The rule table.
        allowed_hosts: Patterns of host names that are allowed, in addition to IP addresses and localhost.
        ask: Asks the placement program; None if ``/v1/fit`` is off.
    """
    blueprint = Blueprint("preview", __name__, template_folder="templates", static_folder="static")
    protect(blueprint, allowed_hosts)
    blueprint.add_url_rule("/", "page", partial(page, source), methods=["GET", "POST"])
    blueprint.add_url_rule("/v1/preview", "preview", partial(show, source), methods=["POST"])
    blueprint.add_url_rule("/v1/fit", "fit", partial(fit, source, ask), methods=["POST"])
    blueprint.add_url_rule("/v1/openapi.json", "openapi", openapi)
    blueprint.add_url_rule("/livez", "livez", lambda: {"status": "ok"})
    blueprint.add_url_rule("/readyz", "readyz", partial(ready, source))
    return blueprint


def ready(source: TableSource) -> dict[str, str]:
    """Returns the release, the table in use, and the problem if the table's files cannot be used."""
    problem = source.watched.problem
    detail = {"status": "ok", "table": source.table().revision, "version": version("ultraserver-webhook")}
    return {**detail, "problem": unusable_files("table", problem)} if problem else detail


def show(source: TableSource) -> Response:
    """Returns the previews of YAML or JSON documents, as ``openapi.yaml`` describes them.

    The status is 200 even if the webhook would refuse a job, and 400 if a text cannot be read.
    """
    options = read_query(request.args)
    media_type = MEDIA_TYPES[options.pop("format")] if "format" in options else accepted_type(TYPES)
    name = TYPES[media_type]
    if options.get("pods") and name in WITHOUT_PODS:
        raise ParameterError("invalid-parameter", messages.no_pods_in(name))
    texts = request_texts()
    status, text = source.work(sum(map(len, texts.values())), answer, texts, options, FORMATS[name])
    if status != HTTPStatus.OK:
        is_one_line = request.mimetype == CURL_TYPE and ONE_LINE.match(texts["request"])
        abort(status, text + messages.NO_LINE_ENDS if is_one_line else text)
    # The output of curl in CI must not contain workflow commands of GitHub.
    return Response(clean(text), content_type=f"{media_type}; charset=utf-8")
