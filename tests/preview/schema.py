"""The published schema of ``preview -o json``."""

import json
from importlib.resources import files
from typing import Any

import jsonschema

SCHEMA = json.loads(files("webhook.preview").joinpath("preview.schema.json").read_bytes())


def assert_as_published(value: Any) -> None:
    """Compares a document with the schema."""
    jsonschema.validate(value, SCHEMA, cls=jsonschema.Draft202012Validator)
