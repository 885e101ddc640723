"""Reads the query and the documents of a request for a preview, as ``openapi.yaml`` describes them."""

import re
import time
from collections.abc import Callable, Iterable, Mapping
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
from webhook.preview import messages
from webhook.preview.report import Preview
from webhook.preview.run import preview
from webhook.rows.table import Table

MAX_SHOWN: Final = 60
"""Maximum length of a value in a message."""
FORM: Final = "multipart/form-data"
PARTS: Final = {"object", "old"}
"""The parts of a form: the documents, and the stored objects that the documents update."""


class ParameterError(BadRequest):
    """The error for a query or a form that is denied.

    Attributes:
        code_name: The code of the error, for programs.
    """

    def __init__(self, code_name: str, reason: str) -> None:
        super().__init__(reason)
        self.code_name = code_name


@cache
def openapi() -> dict[str, Any]:
    """Returns the OpenAPI document, with the published schema of previews."""
    (document,) = read_documents(files("webhook.preview").joinpath("openapi.yaml").read_bytes())
    return dict(document.value)


@cache
def schemas(path: str = "/v1/preview") -> dict[str, dict[str, Any]]:
    """Returns the JSON Schema of each parameter of a path, by the name of the parameter."""
    parameters = openapi()["paths"][path]["post"]["parameters"]
    return {parameter["name"]: dict(parameter["schema"]) for parameter in parameters}


def accepted_type(types: Iterable[str]) -> str:
    """Returns the type that the client prefers, by default the first type; aborts (406) without a match."""
    types = tuple(types)
    media_type = request.accept_mimetypes.best_match(types) if request.accept_mimetypes else types[0]
    if media_type is None:
        header = printable(request.headers["Accept"], MAX_SHOWN)
        abort(406, messages.other_types(header, ", ".join(types)))
    return media_type


def read_query(query: MultiDict[str, str], path: str = "/v1/preview") -> dict[str, Any]:
    """Returns the values of a query's parameters, by the names of the arguments of `preview`.

    Raises:
        ParameterError: A parameter is unknown for the path, repeated or invalid.
    """
    values, known = {}, schemas(path)
    for name, texts in query.lists():
        if name not in known:
            hint = ", ".join(known) + did_you_mean(name, known)
            message = messages.unknown_parameter(printable(name, MAX_SHOWN), hint)
            raise ParameterError("unknown-parameter", message)
        if len(texts) > 1:
            raise ParameterError("repeated-parameter", messages.repeated_parameter(name, len(texts)))
        argument = "now" if name == "time" else name.replace("-", "_")
        values[argument] = read_parameter(name, texts[0])
    return values


def read_parameter(name: str, text: str) -> Any:  # noqa: ANN401 - a text, a boolean or a Unix time
    """Returns the value of a parameter; raises a `ParameterError` if the text is invalid."""
    schema = schemas()[name]
    choices = schema.get("enum", ["true", "false"])
    expected = schema.get("description") or ", ".join(choices)
    is_valid = re.fullmatch(schema["pattern"], text) if "pattern" in schema else text in choices
    time_value = time_of(text) if "format" in schema else None
    if not is_valid or ("format" in schema and not time_value):
        message = messages.invalid_parameter(name, printable(text, MAX_SHOWN), expected)
        raise ParameterError("invalid-parameter", message)
    return time_value.timestamp() if time_value else text == "true" if schema["type"] == "boolean" else text


def answer(
    table: Table,
    texts: Mapping[str, str | bytes],
    options: Mapping[str, Any],
    render: Callable[[list[Preview]], str],
) -> tuple[int, str]:
    """Returns the HTTP status, and the rendered previews of documents or the reason of an error.

    ``texts`` has the documents and, by the key ``old``, the stored objects. Messages name a text by its key.
    """
    try:
        parts = {name: read_documents(text, name, limits.PREVIEW_VALUES) for name, text in texts.items()}
        old = parts.pop("old", None)
        (documents,) = parts.values()
        options = {"now": time.time(), "old": old, "max_pods": limits.PREVIEW_PODS, **options}
        items = preview(table, documents, **options)
    except DocumentError as error:
        return 400, str(error)
    return (200, render(items)) if items else (400, messages.NO_OBJECTS)


def refuse_long_request(max_bytes: int) -> None:
    """Denies the request if its Content-Length is too large, and limits the size of its form."""
    if (request.content_length or 0) > max_bytes:
        abort(413, messages.TOO_LONG)
    request.max_form_memory_size = max_bytes


def request_texts() -> dict[str, bytes]:
    """Returns the parts of the request's form by name or, without a form, the body by the name ``request``.

    Raises:
        HTTPException: The request is too large, or its form has parts other than one ``object`` and at
            most one ``old``.
    """
    refuse_long_request(limits.PREVIEW)
    if request.mimetype != FORM:
        return {"request": request.get_data(cache=False)}
    parts = [(name, text.encode()) for name, text in request.form.items(multi=True)]
    parts += [(name, file.read()) for name, file in request.files.items(multi=True)]
    texts = dict(parts)
    if "object" not in texts or len(texts) < len(parts) or not texts.keys() <= PARTS:
        names = printable(", ".join(name or messages.UNNAMED_PART for name, _ in parts), MAX_SHOWN)
        raise ParameterError("invalid-form", messages.wrong_parts(names or "no part"))
    return texts
