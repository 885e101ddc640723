"""The description of the API of previews for programs: an OpenAPI document."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from webhook import limits
from webhook.preview.parameters import PARAMETERS
from webhook.preview.upload import FORM, PARTS

ERRORS: Final = {
    400: f"A parameter, the form or a document is wrong, or has more than {limits.PREVIEW_VALUES:,} values.",
    405: "The path does not take this method.",
    406: "There is no such format.",
    413: f"A preview takes {limits.PREVIEW} bytes at most.",
    503: "Too much work is waiting; try again after `Retry-After`.",
}
"""Statuses of what is refused."""

ERROR: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["error", "code"],
    "properties": {
        "error": {"type": "string", "description": "The reason, for people."},
        "code": {"type": "string", "description": "The same for programs.", "pattern": "^[a-z-]+$"},
    },
}

ANSWERS: Final = {
    "json": {"$ref": "#/components/schemas/Preview"},
    "yaml": {"description": "The objects as they would be stored."},
    "patch": {"description": "The JSON Patch (RFC 6902) of each object, one a line.", "type": "array"},
    "json-old": {"description": "As of 0.1.0; deprecated.", "type": "array"},
}
"""Format -> what is in the answer; of any other, text."""


@cache
def _schemas() -> dict[str, Any]:
    """The published schema of previews, and what it refers to, by name."""
    text = files("webhook.preview").joinpath("preview.schema.json").read_text("utf-8")
    schema = json.loads(text.replace("#/$defs/", "#/components/schemas/"))
    shown = {key: schema[key] for key in schema if key not in {"$schema", "$id", "$defs"}}
    return {"Preview": shown, "Error": ERROR, **schema["$defs"]}


def openapi(types: Mapping[str, str]) -> dict[str, Any]:
    """The OpenAPI document.

    Args:
        types: media type of an answer -> format.
    """
    return {
        "openapi": "3.1.0",
        "info": {"title": "Previews of ultraserver-webhook", "version": "1"},
        "paths": {"/v1/preview": {"post": _operation(types)}},
        "components": {"schemas": _schemas()},
    }


def _operation(types: Mapping[str, str]) -> dict[str, Any]:
    text: dict[str, Any] = {"schema": {"type": "string"}}
    answers = {kind: {"schema": ANSWERS.get(form, text["schema"])} for kind, form in types.items()}
    parts = {name: {"type": "string", "description": meaning} for name, meaning in PARTS.items()}
    form = {"type": "object", "required": ["object"], "properties": parts, "additionalProperties": False}
    return {
        "operationId": "preview",
        "summary": "Shows what the webhook would do to objects, created or updated.",
        "parameters": [
            {"name": name, "in": "query", "description": each.meaning, "schema": each.schema}
            for name, each in PARAMETERS.items()
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/yaml": text,
                "application/json": {"schema": {"type": "object"}},
                FORM: {"schema": form},
            },
        },
        "responses": {
            "200": {
                "description": "What would be done; a job that is denied is an answer.",
                "content": answers,
            },
            **{
                str(status): {
                    "description": meaning,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
                }
                for status, meaning in ERRORS.items()
            },
        },
    }
