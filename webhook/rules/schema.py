"""The published JSON Schema of the rule table, which is also what loading uses."""

import difflib
import json
import sys
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from contract import place
from webhook.documents import Path
from webhook.objects.paths import object_path

FORMAT_LIBRARIES = (
    "fqdn",
    "idna",
    "isoduration",
    "rfc3339_validator",
    "rfc3987",
    "rfc3987_syntax",
    "uri_template",
)
"""What jsonschema imports at its own import to check formats, where installed: up to a second."""


# The table's schema has none of their formats, so they are made to look as if they were not installed.
_absent = [name for name in FORMAT_LIBRARIES if name not in sys.modules]
sys.modules.update(dict.fromkeys(_absent))  # type: ignore[arg-type]  # None is Python's own sign for that
from jsonschema import Draft202012Validator, FormatChecker  # noqa: E402
from jsonschema.exceptions import ValidationError  # noqa: E402

for _name in _absent:
    del sys.modules[_name]

TABLE = "table.schema.json"
POD_TEMPLATE = "podtemplate.schema.json"

LONGEST = 200
"""Characters of a message; jsonschema quotes whole values."""


@cache
def bundled() -> dict[str, Any]:
    """The schema as one document, for editors and other tools, and for loading."""
    table, pod = (
        json.loads(files("webhook.rules").joinpath(name).read_bytes()) for name in (TABLE, POD_TEMPLATE)
    )
    # The pod template's own references are relative to itself; in here they need the whole way.
    pod = json.loads(json.dumps(pod).replace('"#/$defs/', '"#/$defs/podTemplate/$defs/'))
    pod.pop("$schema")
    table["$defs"]["podTemplate"] = pod
    table["$defs"]["rule"]["properties"]["add"]["$ref"] = "#/$defs/podTemplate"
    return dict(table)


@cache
def _validator() -> Draft202012Validator:
    formats = FormatChecker(formats=())
    formats.checks("object-path", raises=ValueError)(_is_path)
    formats.checks("place", raises=ValueError)(_is_place)
    return Draft202012Validator(bundled(), format_checker=formats)


def _is_path(text: object) -> bool:
    """Whether a text is an object's path; one that breaks the schema's pattern is told of already."""
    return not (isinstance(text, str) and text.startswith("/")) or bool(object_path(text))


def _is_place(text: object) -> bool:
    return not isinstance(text, str) or bool(place.parse(text))


def violations(raw: Any) -> Iterator[tuple[Path, str]]:  # noqa: ANN401 - a document of whatever content
    """Where a table breaks the schema, and how: path and message of every violation."""
    for error in _validator().iter_errors(raw):
        yield from _explain(error)


def _explain(error: ValidationError) -> Iterator[tuple[Path, str]]:
    path = tuple(error.absolute_path)
    if error.validator == "additionalProperties" and isinstance(error.validator_value, bool):
        known = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
        for key in error.instance if isinstance(error.instance, dict) else ():
            if key not in known:
                yield (*path, key), _unknown(key, list(known))
    elif misplaced := list(_misplaced(error)):
        yield from misplaced
    elif error.context and error.validator in {"anyOf", "oneOf"}:
        depth = max(len(inner.absolute_path) for inner in error.context)
        deepest = [inner for inner in error.context if len(inner.absolute_path) == depth]
        messages = dict.fromkeys(_short(inner.message) for inner in deepest)
        yield tuple(deepest[0].absolute_path), " or ".join(messages)
    elif error.validator == "const":
        yield path, f"must be {json.dumps(error.validator_value)}"
    elif error.validator == "type" and error.validator_value == "string":
        yield path, f"{_short(json.dumps(error.instance))} is no text: put it in quotes"
    else:
        yield path, _short(error.message)


def _misplaced(error: ValidationError) -> Iterator[tuple[Path, str]]:
    """The texts that could be places and are none; what else could stand there is no news then."""
    if error.cause:
        yield tuple(error.absolute_path), str(error.cause)
    for inner in error.context or ():
        yield from _misplaced(inner)


def _unknown(key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(known)[:12])}"
    return f"unknown key {key!r}; {hint}"


def _short(message: str) -> str:
    return message if len(message) <= LONGEST else f"{message[:120]} … {message[-70:]}"
