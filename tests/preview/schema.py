"""The published schema of the output of ``preview -o json``."""

from typing import Any

import jsonschema

from webhook.preview.inputs import openapi

SCHEMA = {"$ref": "#/components/schemas/Preview", "components": openapi()["components"]}


def assert_matches_schema(value: Any) -> None:
    """Fails if the output of ``preview -o json`` does not match the schema."""
    jsonschema.validate(value, SCHEMA, cls=jsonschema.Draft202012Validator)
