"""Checks a rule table by the types of its rows, and generates the published JSON Schema from them."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from importlib.resources import files
from inspect import cleandoc
from typing import Any, Final, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails, core_schema

from common.familyrows import KEY_OF_LIST
from webhook.documents import read_documents
from webhook.objects.paths import ObjectPath
from webhook.objects.tree import Json, Path, get, shown
from webhook.rows.conditions import Condition
from webhook.rows.table import TableFile
from webhook.rules import messages
from webhook.rules.draft import NAMED_SECTIONS
from webhook.rules.problems import PathMessages


@cache
def _adapter() -> TypeAdapter[TableFile]:
    return TypeAdapter(TableFile)


@cache
def pod_template() -> dict[str, Any]:
    """Returns the JSON Schema of a rule's fragment; it is read once, so callers must not change it."""
    return dict(json.loads(files("webhook.rules").joinpath("podtemplate.schema.json").read_bytes()))


OLD_VERSION: Final = "ultraserver-webhook.io/v1alpha1"
VERSION: Final = "ultraserver-webhook.io/v1alpha2"
"""The apiVersion of tables of release 0.2.0, and the current apiVersion."""


def violations(raw: Json) -> PathMessages:
    """Yields the path and the message of every violation of the schema in a table."""
    if isinstance(raw, dict) and raw.get("apiVersion") == OLD_VERSION:
        yield ("apiVersion",), messages.old_version(OLD_VERSION, VERSION)
        return
    try:
        _adapter().validate_python(raw)
    except ValidationError as error:
        yield from _explain_errors(raw, error)
    rules = raw.get("rules") if isinstance(raw, dict) else ()
    for index, rule in enumerate(rules if isinstance(rules, list) else ()):
        if isinstance(rule, dict) and isinstance(rule.get("add"), dict):
            yield from _check_node(rule["add"], pod_template(), ("rules", index, "add"))


def read(raw: Json) -> TableFile:
    """Returns the rows of a table.

    Raises:
        pydantic.ValidationError: The table violates the schema. Fragments are not checked.
    """
    return _adapter().validate_python(raw)


def _may_lack(path: Path, key: str) -> bool:
    """Returns whether a table with `extends` may omit a key.

    It may omit sections, keys of `candidates`, and keys of rows except the key that identifies a row.
    """
    if not path:
        return key not in {"apiVersion", "kind"}
    section = str(path[-2]) if len(path) % 2 == 0 else ""
    is_row = section in (KEY_OF_LIST if path[2:] else NAMED_SECTIONS)
    identifier = KEY_OF_LIST.get(section, "name")
    return path == ("candidates",) or (path[0] in NAMED_SECTIONS and is_row and key != identifier)


def _explain_errors(raw: Json, violation: ValidationError) -> PathMessages:
    """Yields the path and the message of each error of pydantic that a user should read."""
    extends = isinstance(raw, dict) and "extends" in raw
    missing_sections: list[str] = []
    choices: dict[Path, list[tuple[tuple[int, bool], Path, str]]] = defaultdict(list)
    for error in violation.errors(include_url=False):
        kind, location = error["type"], error["loc"]
        path, choice = _path_of(raw, location[:-1] if kind == "missing" else location)
        if kind == "missing" and extends and _may_lack(path, str(location[-1])):
            continue
        if kind == "too_short" and (
            (extends and len(path) == 1) or len(error["input"]) >= error["ctx"]["min_length"]
        ):
            continue  # the packaged table has rows, or all items of the list are invalid and reported
        if kind == "missing" and not path and _may_lack(path, str(location[-1])):
            missing_sections.append(str(location[-1]))
        elif choice is None:
            yield path, message_of(error, path)
        else:
            # The author probably meant the type with the deepest error. With a `value_error`, the type fits.
            choices[choice].append(((len(path), kind == "value_error"), path, message_of(error, path)))
    if missing_sections:
        yield (), messages.no_sections(", ".join(missing_sections))
    for errors in choices.values():
        highest = max(rank for rank, _, _ in errors)
        probable = [(path, message) for rank, path, message in errors if rank == highest]
        yield probable[0][0], messages.either([message for _, message in probable])


def _path_of(raw: Json, location: Path) -> tuple[Path, Path | None]:
    """Returns the path of a pydantic error in the table, and the path of the first value with several types.

    The location that pydantic reports also contains names of types.
    """
    path: Path = ()
    choice, node = None, raw
    for part in location:
        if part in node if isinstance(node, dict) else isinstance(node, list) and isinstance(part, int):
            path, node = (*path, part), node[part]
        elif choice is None:
            choice = path
    return path, choice


def message_of(error: ErrorDetails, path: Path) -> str:
    """Returns the message of a pydantic error at a path of a table."""
    kind, key, value, context = error["type"], error["loc"][-1:], error["input"], error.get("ctx", {})
    if kind == "unexpected_keyword_argument":
        name = str(key[0])
        if name in messages.REMOVED_KEYS:
            return messages.removed_key(name, messages.REMOVED_KEYS[name])
        known = (key for form in _schemas(path[:-1]) for key in form.get("properties", {}))
        return messages.unknown_key(name, known)
    if kind in messages.VIOLATIONS:
        pattern = context.get("pattern", "")
        values = {"form": messages.form(pattern), "json": shown(value), "key": "".join(map(str, key))}
        text = messages.VIOLATIONS[kind].format(**values, **context)
        lower = value.lower() if pattern else value
        return text + messages.meant(lower) if lower != value and re.search(pattern, lower) else text
    if "expected" in context:
        choices = context["expected"]
        return messages.must_be_one(value, re.findall(r"'([^']+)'", choices) or [choices.lower()])
    if kind == "string_type" and isinstance(value, dict | list):
        for form in _schemas(path):
            if "pattern" in form:
                return messages.must_be(messages.form(form["pattern"]), shown(value))
    return messages.must_have_type(value, [kind.removesuffix("_type")])


def refused_parts(value: Json, schema: Mapping[str, Any]) -> PathMessages:
    """Yields path and message of the parts of a value that an API server with the schema refuses."""
    for path, message in _check_node(value, schema, (), strict=False):
        if get(value, path) is not None:  # the API server removes nulls
            yield path, message


def _check_node(node: Json, schema: Mapping[str, Any], path: Path, *, strict: bool = True) -> PathMessages:
    """Yields path and message of each violation of a schema; unknown keys are violations if ``strict``."""
    if "$ref" in schema:
        definition = pod_template()["$defs"][schema["$ref"].rpartition("/")[2]]
        yield from _check_node(node, definition, path, strict=strict)
    types, known = schema.get("type", [*messages.TYPES]), schema.get("properties", {})
    types = [types] if isinstance(types, str) else types
    if not any(
        isinstance(node, messages.TYPES[name][0]) and isinstance(node, bool) == (name == "boolean")
        for name in types
    ):
        yield path, messages.must_have_type(node, types)
    elif isinstance(node, dict):
        missing = [key for key in schema.get("required", ()) if key not in node]
        yield from ((path, messages.missing(key)) for key in missing)
        for key, value in node.items():
            yield from _check_node(key, schema.get("propertyNames", {}), (*path, key))
            value_schema = known.get(key, schema.get("additionalProperties", {}))
            if value_schema is not False:
                yield from _check_node(value, value_schema, (*path, key), strict=strict)
            elif strict:
                yield (*path, key), messages.unknown_key(key, known)
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield from _check_node(item, schema.get("items", {}), (*path, index), strict=strict)
    else:
        yield from ((path, message) for message in _check_scalar(node, schema))


def _check_scalar(node: Json, schema: Mapping[str, Any]) -> Iterator[str]:
    schema = {**schema, **schema.get("then", {})} if isinstance(node, str) and "$(" not in node else schema
    if isinstance(node, str) and not re.search(schema.get("pattern", ""), node):
        yield messages.is_not(shown(node), schema.get("title", messages.ALLOWED_PLACEHOLDER))
    elif node not in (choices := schema.get("enum", [node])):
        yield messages.must_be_one(node, choices)
    elif "minimum" in schema and not schema["minimum"] <= node <= schema["maximum"]:
        yield messages.not_between(schema["minimum"], schema["maximum"], node)


@cache
def published_schema() -> dict[str, Any]:
    """Returns the schema of tables as one document, for editors; it is cached, so do not change it."""
    table, pod = _adapter().json_schema(schema_generator=_DescribedSchema), pod_template()
    table["$defs"] |= pod["$defs"]
    keys = ("additionalProperties", "properties")
    table["$defs"]["Rule"]["properties"]["add"] |= {key: pod[key] for key in keys}
    requirements = _split_requirements(table, table)
    return {
        "$schema": pod["$schema"],
        "$id": "https://ultraserver-webhook.io/schemas/v1alpha2/rule-table.json",
        "$comment": pod["$comment"],
        **table,
        "title": "Rule table of ultraserver-webhook",
        "if": {"not": {"required": ["extends"]}},
        "then": requirements,
    }


def _split_requirements(row: dict[str, Any], table: dict[str, Any], path: Path = ()) -> dict[str, Any]:
    """Removes requirements that tables with `extends` need not meet; returns all requirements as a schema."""
    rows: dict[str, Any] = {}
    for name, value in row["properties"].items():
        item = value.get("items", value)
        if "$ref" in item and (name in KEY_OF_LIST or not path):
            item_path: Path = (*path, name) if item is value else (*path, name, 0)
            rows[name] = _split_requirements(forms(item, table)[-1], table, item_path)
            if item is not value:
                rows[name] = {"items": rows[name]} | ({} if path else {"minItems": value.pop("minItems", 0)})
    required = row["required"]
    row["required"] = [key for key in required if not _may_lack(path, key)]
    return {"required": required} | ({"properties": rows} if rows else {})


def _schemas(path: Path) -> list[dict[str, Any]]:
    """Returns the schemas that the published schema has for the value at a path."""
    schemas = [published_schema()]
    for part in path:
        parts = (form.get("items") if isinstance(part, int) else _property(form, part) for form in schemas)
        schemas = [form for schema in parts if isinstance(schema, dict) for form in forms(schema)]
    return schemas


def _property(form: dict[str, Any], key: str) -> Json:
    """Returns the schema of a property, from the schema of an object; None if there is no schema."""
    others = (form.get("additionalProperties"), *form.get("patternProperties", {}).values())
    return form.get("properties", {}).get(key) or next(filter(None, others), None)


def forms(schema: dict[str, Any], root: Json = None) -> list[dict[str, Any]]:
    """Returns a schema, and the schemas to which its ``$ref`` and ``anyOf`` lead, directly or indirectly.

    ``root`` has the definitions; by default it is the published schema.
    """
    definition = [get(root or published_schema(), schema["$ref"].split("/")[1:])] if "$ref" in schema else []
    parts = (*definition, *schema.get("anyOf", ()))
    return [schema, *(form for part in parts for form in forms(part, root))]


class _DescribedSchema(GenerateJsonSchema):
    """Generates a schema with descriptions from docstrings of rows; adds no titles and null defaults."""

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> dict[str, Any]:
        result = super().dataclass_schema(schema)
        properties = result["properties"]
        for base in reversed(schema["cls"].__mro__):
            summary, _, keys = cleandoc(base.__doc__ or "").partition("\n\nAttributes:\n")
            result["description"] = _line(summary)
            for name, text in re.findall(r"^    (\w+): (.*(?:\n     .*)*)", keys, re.MULTILINE):
                properties[to_camel(name)] |= _description(text)
        for field in fields(schema["cls"]):
            default = field.default
            if isinstance(default, bool | int | str | ObjectPath):
                is_text = isinstance(default, str | ObjectPath)
                properties[to_camel(field.name)]["default"] = str(default) if is_text else default
        for name, hint in get_type_hints(schema["cls"]).items():
            for argument in get_args(hint):
                if isinstance(argument, type) and issubclass(argument, Condition):
                    properties[to_camel(name)] |= _description(cleandoc(argument.__doc__ or ""))
        return result

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def dict_schema(self, schema: core_schema.DictSchema) -> dict[str, Any]:
        result = super().dict_schema(schema)
        return result | {"additionalProperties": False} if "patternProperties" in result else result

    def field_title_should_be_set(self, _: object) -> bool:
        return False


def _description(text: str) -> dict[str, Any]:
    """Returns the schema's description of a key, and the example that the text has after ``E.g.``."""
    description, _, example = _line(text).removesuffix(".").partition(" E.g. ")
    if not example:
        return {"description": _line(text)}
    return {"description": description, "examples": [read_documents(example)[0].value]}


def _line(text: str) -> str:
    return " ".join(text.replace("``", "`").split())
