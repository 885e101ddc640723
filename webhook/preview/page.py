"""The preview page for people in a browser: a form and its previews, rendered on the server."""

import json
from collections.abc import Iterable
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
from webhook.preview.inputs import TOO_LONG, ParameterError, answer, read_query, refuse_longer
from webhook.preview.lines import diff_lines
from webhook.preview.report import Preview
from webhook.preview.sentence import called
from webhook.preview.text import totals
from webhook.rules.source import TableSource

EXAMPLE = files("webhook.preview").joinpath("static/example.yaml").read_text(encoding="utf-8")
"""The example job for users who have none."""
WHOLE: Final = 25
"""Maximum number of documents with their changes; a page with all 120 of a text takes a browser 5 s."""


def page(source: TableSource) -> Response:
    """Returns the form; after a POST, or with ``?example``, with the previews of its documents."""
    form = given()
    texts = {name: form[name] for name in ("object", "old") if form[name].strip()}
    if "object" not in texts:
        return rendered(form)
    if (size := sum(len(text.encode()) for text in texts.values())) > limits.PREVIEW:
        return rendered(form, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, error=TOO_LONG)
    try:
        how = read_query(MultiDict({key: form[key] for key in ("namespace", "pods") if form[key]}))
    except ParameterError as error:
        return rendered(form, HTTPStatus.BAD_REQUEST, error=error.description)
    render = partial(as_items, first=form["first"])
    status, text = source.work(size, answer, texts, how, render)
    return rendered(form, status, **(json.loads(text) if status == HTTPStatus.OK else {"error": text}))


def given() -> dict[str, Any]:
    """Returns the content of the form; an uploaded file takes precedence over the text."""
    refuse_longer(2 * limits.PREVIEW)
    form: dict[str, Any] = {
        name: request.form.get(name, "") for name in ("object", "old", "namespace", "pods")
    }
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
    """Returns previews as JSON for the page. `WHOLE` of them, beginning at an index, have their changes."""
    items, keys = list(previews), ("verdict", "sentence", "warnings", "hints", "notes")
    shown = [{"title": printable(item.seen.title)} | {key: item.item[key] for key in keys} for item in items]
    for item, view in list(zip(items, shown, strict=True))[first : first + WHOLE]:
        view.update(changes(item))
    return json.dumps({"items": shown, "totals": totals(items) if len(items) > 1 else ""})


def changes(item: Preview) -> dict[str, Any]:
    """Returns the parts of a preview that only the page shows."""
    place = item.place
    return {
        "lines": list(diff_lines(item)),
        "rules": item.item["rules"],
        "place": place
        and {"name": called(item.seen.table, place), "size": place.size, "workers": place.workers},
        "yaml": dump_yaml(item.seen.outcome.after),
        "patch_text": json.dumps(item.item["patch"], indent=2),
        "made": [{"title": str(pod.seen.share), "lines": list(diff_lines(pod))} for pod in item.pods],
    }


def rendered(form: dict[str, str], status: int = HTTPStatus.OK, **data: Any) -> Response:  # noqa: ANN401
    """Returns the page with a form and its previews."""
    return make_response(render_template("page.html", form=form, whole=WHOLE, status=status, **data), status)


def error_page(status: int, code: str, reason: str) -> Response:
    """Returns an error as HTML for a browser, and as JSON for programs and below the API's path."""
    if not request.path.startswith("/v1/") and request.accept_mimetypes.best == "text/html":
        return rendered({}, status, error=reason)
    return as_json(status, code, reason)
