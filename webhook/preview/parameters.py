"""What a preview over HTTP may be asked for: ``openapi.yaml``, by which queries are read."""

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any, Final

from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import BadRequest

from common.texts import did_you_mean, printable
from webhook.documents import read_documents

SHOWN: Final = 60
"""Characters of a value that a refusal repeats."""
NAMESPACE: Final = "a name of 1 to 63 characters a-z, 0-9 and '-' that begins and ends with a letter or digit"


class ParameterError(BadRequest):
    """A query or a form that is refused.

    Attributes:
        code_name: what is wrong, for programs.
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
    return {each["name"]: dict(each["schema"]) for each in declared}


def read_query(query: MultiDict[str, str]) -> dict[str, Any]:
    """Returns what a query asks for, by the names that `preview` has; what it does not name is left out.

    Raises:
        ParameterError: if a parameter is unknown, given twice or wrong.
    """
    asked, known = {}, schemas()
    for name, texts in query.lists():
        if name not in known:
            allowed = ", ".join(known) + did_you_mean(name, known)
            message = f"unknown parameter {_quoted(name)}, allowed are {allowed}"
            raise ParameterError("unknown-parameter", message)
        if len(texts) > 1:
            message = f"parameter {name} is given {len(texts)} times: give it once"
            raise ParameterError("repeated-parameter", message)
        asked[name.replace("-", "_")] = _value(name, texts[0], known[name])
    return asked


def _value(name: str, text: str, schema: dict[str, Any]) -> str | bool:
    values = schema.get("enum", ["true", "false"])
    allowed = NAMESPACE if "pattern" in schema else ", ".join(values)
    if not (re.fullmatch(schema["pattern"], text) if "pattern" in schema else text in values):
        message = f"parameter {name} is {_quoted(text)}; allowed is {allowed}"
        raise ParameterError("invalid-parameter", message)
    return text == "true" if schema["type"] == "boolean" else text


def _quoted(text: str) -> str:
    return repr(printable(text, SHOWN))
