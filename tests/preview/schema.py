"""The published schema of ``preview -o json``."""

from typing import Any

import jsonschema

from webhook.preview.inputs import openapi

SCHEMA = {"$ref": "#/components/schemas/Preview", "components": openapi()["components"]}


def assert_as_published(value: Any) -> None:
    """Compares a document with the schema."""
    jsonschema.validate(value, SCHEMA, cls=jsonschema.Draft202012Validator)
