"""Reads the query and the documents of a preview over HTTP, and writes its answer (see ``openapi.yaml``)."""

import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from flask import abort, request
from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import BadRequest

from common.texts import did_you_mean, printable
from common.times import time_of
from webhook import limits
from webhook.documents import DocumentError, read_documents
from webhook.preview.report import Preview
from webhook.preview.run import EMPTY, preview
from webhook.rows.table import Table

SHOWN: Final = 60
"""Maximum length of a value in a refusal."""
FORM: Final = "multipart/form-data"
PARTS: Final = {"object", "old"}
"""Parts of a form: the documents, and the stored objects that they update."""


_NAMES: Final = {"all-rules": "all_rules", "default-namespace": "context", "time": "now"}
"""Names of parameters of `preview` that differ from those of the query."""


class ParameterError(BadRequest):
    """A query or a form that is refused.

    Attributes:
        code_name: The kind of error, for programs.
    """

    def __init__(self, code_name: str, reason: str) -> None:
        super().__init__(reason)
        self.code_name = code_name


@cache
def openapi() -> dict[str, Any]:
    """Returns the OpenAPI document, with the published schema of previews."""
    folder = files("webhook.preview")
    (document,) = read_documents(folder.joinpath("openapi.yaml").read_bytes())
    described: dict[str, Any] = document.value
    text = folder.joinpath("preview.schema.json").read_text("utf-8")
    schema = json.loads(text.replace("#/$defs/", "#/components/schemas/"))
    shown = {key: schema[key] for key in schema if key not in {"$schema", "$id", "$defs"}}
    described["components"]["schemas"] |= {"Preview": shown, **schema["$defs"]}
    return described


@cache
def schemas() -> dict[str, dict[str, Any]]:
    """Returns the JSON Schema of each parameter by its name."""
    declared = openapi()["paths"]["/v1/preview"]["post"]["parameters"]
    return {parameter["name"]: dict(parameter["schema"]) for parameter in declared}


def accepted(types: Iterable[str]) -> str:
    """Returns the one of ``types`` that the client prefers; the first if the client names none."""
    types = tuple(types)
    kind = request.accept_mimetypes.best_match(types) if request.accept_mimetypes else types[0]
    if kind is None:
        given = printable(request.headers["Accept"], SHOWN)
        abort(406, f"cannot answer as {given}; possible types are {', '.join(types)}")
    return kind


def read_query(query: MultiDict[str, str], names: Collection[str] | None = None) -> dict[str, Any]:
    """Returns a query's parameters by the names of `preview`, without those that are not given.

    Args:
        query: The query.
        names: The parameters of the path, if it does not have all.

    Raises:
        ParameterError: A parameter is unknown, given twice or invalid.
    """
    values = {}
    known = {name: schema for name, schema in schemas().items() if names is None or name in names}
    for name, texts in query.lists():
        if name not in known:
            allowed = ", ".join(known) + did_you_mean(name, known)
            message = f"unknown parameter {printable(name, SHOWN)!r}; the allowed ones are {allowed}"
            raise ParameterError("unknown-parameter", message)
        if len(texts) > 1:
            message = f"parameter {name} is given {len(texts)} times: give it once"
            raise ParameterError("repeated-parameter", message)
        text = checked(name, texts[0])
        values[_NAMES.get(name, name)] = _value(text, known[name])
    return values


def _value(text: str, schema: dict[str, Any]) -> str | bool | float:
    moment = time_of(text) if "format" in schema else None
    return moment.timestamp() if moment else text == "true" if schema["type"] == "boolean" else text


def checked(name: str, text: str) -> str:
    """Returns the text of a known parameter; raises a `ParameterError` if it is invalid."""
    schema = schemas()[name]
    values = schema.get("enum", ["true", "false"])
    allowed = schema.get("description") or ", ".join(values)
    valid = re.fullmatch(schema["pattern"], text) if "pattern" in schema else text in values
    if not valid or ("format" in schema and not time_of(text)):
        message = f"parameter {name} is {printable(text, SHOWN)!r}; it must be {allowed}"
        raise ParameterError("invalid-parameter", message)
    return text


def answer(
    table: Table,
    texts: Mapping[str, str | bytes],
    how: Mapping[str, Any],
    render: Callable[[list[Preview]], str],
) -> tuple[int, str]:
    """Returns HTTP status and text for the previews of documents; the text of a refusal is its reason.

    The texts are the documents and, as ``old``, the stored objects, with their names for messages.
    """
    try:
        read = {name: read_documents(text, name, limits.PREVIEW_VALUES) for name, text in texts.items()}
        old = read.pop("old", None)
        (documents,) = read.values()
        how = {"now": time.time(), "old": old, "most_pods": limits.PREVIEW_PODS, **how}
        items = preview(table, documents, **how)
    except DocumentError as error:
        return 400, str(error)
    return (200, render(items)) if items else (400, EMPTY)


TOO_LONG: Final = f"a preview takes {limits.PREVIEW} bytes at most: split the documents"


def refuse_longer(most: int) -> None:
    """Denies a request that is longer than ``most`` bytes, before its body is read."""
    if (request.content_length or 0) > most:
        abort(413, TOO_LONG)
    request.max_form_memory_size = most


def texts_of() -> dict[str, bytes]:
    """Returns the texts of the request: ``request``, its body; or the parts of a form.

    Raises:
        HTTPException: The request is too large, or has another type.
    """
    refuse_longer(limits.PREVIEW)
    if request.mimetype != FORM:
        return {"request": request.get_data(cache=False)}
    given = [(name, text.encode()) for name, text in request.form.items(multi=True)]
    given += [(name, file.read()) for name, file in request.files.items(multi=True)]
    texts = dict(given)
    if "object" not in texts or len(texts) < len(given) or not texts.keys() <= PARTS:
        names = printable(", ".join(name or "a part without a name" for name, _ in given), SHOWN)
        message = f"the form has {names or 'nothing'}; it takes object once and, for an update, old once"
        raise ParameterError("invalid-form", f"{message}: send it as curl -F does")
    return texts
