"""Serves the preview page: a form for objects, and the previews of the objects, rendered on the server."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final

from flask import Response, make_response, render_template, request
from werkzeug.datastructures import MultiDict

from common.texts import printable
from webhook import limits
from webhook.app import as_json
from webhook.documents import dump_yaml
from webhook.preview import messages
from webhook.preview.inputs import ParameterError, answer, read_query, refuse_long_request
from webhook.preview.lines import diff_lines
from webhook.preview.report import Preview
from webhook.preview.sentence import unit_name
from webhook.preview.text import totals
from webhook.rules.source import TableSource

EXAMPLE = files("webhook.preview").joinpath("static/example.yaml").read_text(encoding="utf-8")
"""The job that the page shows with ``?example``."""
MAX_WITH_CHANGES: Final = 25
"""Maximum number of documents that a page shows with changes. With 120, a browser takes 5 s for the page."""


def page(source: TableSource) -> Response:
    """Returns the page; after a POST, or with ``?example``, it has the previews of the form's documents."""
    form = read_form()
    texts = {name: form[name] for name in ("object", "old") if form[name].strip()}
    if "object" not in texts:
        return render_page(form)
    if (size := sum(len(text.encode()) for text in texts.values())) > limits.PREVIEW:
        return render_page(form, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, error=messages.TOO_LONG)
    try:
        options = read_query(MultiDict({key: form[key] for key in ("namespace", "pods") if form[key]}))
    except ParameterError as error:
        return render_page(form, HTTPStatus.BAD_REQUEST, error=error.description)
    render = partial(as_items, first=form["first"])
    status, text = source.work(size, answer, texts, options, render)
    return render_page(form, status, **(json.loads(text) if status == HTTPStatus.OK else {"error": text}))


def read_form() -> dict[str, Any]:
    """Returns the fields of the form in the request. An uploaded file has precedence over a text field."""
    refuse_long_request(2 * limits.PREVIEW)
    names = ("object", "old", "namespace", "pods")
    form: dict[str, Any] = {name: request.form.get(name, "") for name in names}
    form["namespace"] = form["namespace"].strip()
    form["first"] = max(0, request.form.get("first", 0, int))
    if "example" in request.args:
        form["object"] = EXAMPLE
    for name in ("object", "old"):
        file = request.files.get(f"{name}-file")
        if file and (content := file.read()):
            form[name] = content.decode("utf-8", "replace")
    return form


def as_items(previews: Iterable[Preview], first: int) -> str:
    """Returns the template's data as JSON, with changes of `MAX_WITH_CHANGES` previews from ``first`` on."""
    items, keys = list(previews), ("verdict", "sentence", "warnings", "hints", "notes")
    views = [{"title": printable(item.run.title)} | {key: item.report[key] for key in keys} for item in items]
    for item, view in list(zip(items, views, strict=True))[first : first + MAX_WITH_CHANGES]:
        view.update(changes_view(item))
    return json.dumps({"items": views, "totals": totals(items) if len(items) > 1 else ""})


def changes_view(item: Preview) -> dict[str, Any]:
    """Returns the parts of a preview that the page shows together with the changes."""
    placement = item.placement
    view = placement and {"name": unit_name(item.run.table, placement), **asdict(placement)}
    return {
        "lines": list(diff_lines(item)),
        "rules": item.report["rules"],
        "placement": view,
        "yaml": dump_yaml(item.run.outcome.after),
        "patch_text": json.dumps(item.report["patch"], indent=2),
        "pods": [{"title": str(pod.run.share), "lines": list(diff_lines(pod))} for pod in item.pods],
    }


def render_page(form: dict[str, str], status: int = HTTPStatus.OK, **data: Any) -> Response:  # noqa: ANN401
    """Returns the page with a form and the data of its previews, or an error."""
    data |= {"form": form, "max_with_changes": MAX_WITH_CHANGES, "status": status}
    return make_response(render_template("page.html", **data), status)


def error_page(status: int, code: str, reason: str) -> Response:
    """Returns an error: as HTML for a browser that requests a page, otherwise as JSON."""
    if not request.path.startswith("/v1/") and request.accept_mimetypes.best == "text/html":
        return render_page({}, status, error=reason)
    return as_json(status, code, reason)
