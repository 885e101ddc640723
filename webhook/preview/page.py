"""The page of previews for people in a browser: a form and its previews, rendered on the server."""

import json
import time
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from flask import Blueprint, Response, abort, make_response, render_template, request
from werkzeug.datastructures import MultiDict

from webhook import limits
from webhook.app import as_json
from webhook.documents import DocumentError, dump_yaml, read_documents
from webhook.preview.lines import diff_lines
from webhook.preview.parameters import ParameterError, read_query
from webhook.preview.picture import picture
from webhook.preview.report import rules_of
from webhook.preview.run import Preview, preview
from webhook.preview.sentence import sentence, totals, verdict
from webhook.rows.table import Table
from webhook.rules.source import TableSource
from webhook.work import Work

EXAMPLE = files("webhook.preview").joinpath("static/example.yaml").read_text(encoding="utf-8")
"""The job that the page offers to somebody who has none at hand."""
WHOLE = 25
"""Documents shown with their changes; a page of all 120 that a text may hold takes a browser 5 s."""


def add_page(blueprint: Blueprint, source: TableSource, work: Work) -> None:
    """Adds ``GET /`` and ``POST /``, which take a form and need no JavaScript."""
    blueprint.add_url_rule("/", "page", partial(page, source, work), methods=["GET", "POST"])


def page(source: TableSource, work: Work) -> Response:
    """The form; after a POST, or with ``?example``, the previews of its documents as well."""
    form = given()
    if not form["object"].strip():
        return rendered(form, {"items": []}, HTTPStatus.OK)
    table = source.table()
    size = len(form["object"]) + len(form["old"])
    status, text = work(size, answer, table, form)
    return rendered(form, json.loads(text), HTTPStatus(status))


def given() -> dict[str, Any]:
    """What the form holds; texts are the content of a file where one was sent."""
    if (request.content_length or 0) > 2 * limits.PREVIEW:
        abort(413, f"a preview takes {limits.PREVIEW} bytes at most")
    request.max_form_memory_size = 2 * limits.PREVIEW
    form: dict[str, Any] = {name: request.form.get(name, "") for name in ("object", "old", "namespace")}
    form["pods"] = "pods" in request.form
    form["first"] = request.form.get("first", 0, int)
    if "example" in request.args:
        form["object"] = EXAMPLE
    for name in ("object", "old"):
        file = request.files.get(f"{name}-file")
        if file and (content := file.read()):
            form[name] = content.decode("utf-8", "replace")
    return form


def answer(table: Table, form: Mapping[str, Any]) -> tuple[int, str]:
    """Status and JSON of the previews of a form: ``items``, ``totals``, or ``error``."""
    try:
        documents, old = (
            read_documents(form[name], name, limits.PREVIEW_VALUES) for name in ("object", "old")
        )
        asked = {"namespace": form["namespace"].strip()}
        namespace = read_query(MultiDict({key: text for key, text in asked.items() if text})).get("namespace")
        items = preview(
            table,
            documents,
            namespace,
            time.time(),
            old=old or None,
            pods=form["pods"],
            most_pods=limits.PREVIEW_PODS,
        )
    except (DocumentError, ParameterError) as error:
        reason = error.description if isinstance(error, ParameterError) else str(error)
        return 400, json.dumps({"items": [], "error": reason})
    if not items:
        return 400, json.dumps({"items": [], "error": "the text holds no document"})
    last = totals(items) if len(items) > 1 else ""
    whole = range(form["first"], form["first"] + WHOLE)
    found = [answer_of(item) | (changes(item) if index in whole else {}) for index, item in enumerate(items)]
    return 200, json.dumps({"items": found, "totals": last})


def answer_of(item: Preview) -> dict[str, Any]:
    """What the page shows of every preview."""
    said = {"title": item.title, "verdict": verdict(item), "sentence": sentence(item)}
    return said | {"warnings": list(item.outcome.warnings), "notes": list(item.notes)}


def changes(item: Preview) -> dict[str, Any]:
    """What the page shows of `WHOLE` previews besides."""
    drawn = picture(item)
    return {
        "lines": list(diff_lines(item)),
        "picture": drawn and {"units": [unit._asdict() for unit in drawn.units], "more": drawn.more},
        "rules": [row._asdict() for row in rules_of(item)],
        "yaml": dump_yaml(item.outcome.after),
        "patch_text": json.dumps(list(item.outcome.operations), indent=2),
        "made": [{"title": str(pod.share), "lines": list(diff_lines(pod))} for pod in item.pods or ()],
    }


def rendered(form: Mapping[str, Any], found: Mapping[str, Any], status: HTTPStatus) -> Response:
    """The page with a form and the previews of it."""
    return make_response(render_template("page.html", form=form, whole=WHOLE, **found), status)


def error_page(status: int, code: str, reason: str) -> Response:
    """An error as HTML for a browser that asked for the page, and else as JSON."""
    if request.path == "/" and request.accept_mimetypes.best == "text/html":
        return make_response(render_template("error.html", status=status, reason=reason))
    return as_json(status, code, reason)
