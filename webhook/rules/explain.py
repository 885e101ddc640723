"""Explains the keys of a table: describes them as in the published schema, with packaged rows as examples."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from common.texts import did_you_mean, fold
from webhook.documents import dump_yaml
from webhook.objects.tree import Json
from webhook.rules import messages
from webhook.rules.draft import FAMILY_LISTS, NAMED_SECTIONS
from webhook.rules.load import placement_draft
from webhook.rules.schema import forms, published_schema

TYPES: Final = {"string": "text", "integer": "whole number", "boolean": "true or false"}
"""Plain names of the types of JSON Schema."""

KEYS_OF_NEW_ROWS: Final = {**NAMED_SECTIONS, **FAMILY_LISTS}
"""The keys that a new row needs, by the name of the row's list."""

LONGEST_EXAMPLE: Final = 100
"""Maximum length of an example; longer examples are left out."""


class Key(NamedTuple):
    """A key of a row.

    Attributes:
        type: The type of the key's value in words. If the value is a row, this is the name of its class.
        default: The default value, ``required``, ``required in a new row``, or an empty text.
        example: An example on one line, or an empty text.
        about: The description.
    """

    name: str
    type: str
    default: str
    example: str
    about: str

    def __str__(self) -> str:
        prefix = " " if self.default.startswith("required") else " default "
        default = self.default and prefix + self.default
        return f"{self.name} <{self.type}>{default}\n{fold(self.about, '  ')}\n"


def explain_key(path: str = "") -> str:
    """Returns the explanation of a key and of the keys in its value; without a path, of the top-level keys.

    Raises:
        LookupError: No key has this path, and the paths of no key or of several keys end with it. The message
            names the paths of these keys or, if there are none, a similar path.
    """
    keys = keys_by_path()
    matches = [path] if path in keys else [key_path for key_path in keys if key_path.endswith(f".{path}")]
    if path and len(matches) != 1:
        reason = messages.several_keys(path, " or ".join(matches))
        raise LookupError(reason if matches else messages.no_key(path, did_you_mean(path, keys)))
    if not path:
        return "\n".join(str(key) for key_path, key in keys.items() if key_path == key.name)
    key = keys[matches[0]]
    example = [f"  For example: {key.example}\n"] if key.example else []
    inner_keys = [str(inner) for key_path, inner in keys.items() if key_path == f"{matches[0]}.{inner.name}"]
    others = ", ".join(other for other in keys if other.endswith(f".{path}") and other not in matches)
    note = [f"{messages.other_keys(others)}\n"] if others else []
    return "\n".join([str(key), *example, *inner_keys, *note])


@cache
def keys_by_path() -> Mapping[str, Key]:
    """Returns each key of a table by its path."""
    keys = [*_keys("", published_schema(), [placement_draft().raw])]
    # If alternatives have the same key, the first alternative with an example is used.
    return dict(keys) | dict(reversed(keys)) | dict(key for key in reversed(keys) if key[1].example)


def _keys(prefix: str, schema: dict[str, Any], values: Sequence[Json]) -> Iterator[tuple[str, Key]]:
    """Yields each key of the schema: its path, which begins with the prefix, and its `Key`."""
    maps = [value for value in values if isinstance(value, dict)]
    inner_values = {
        "items": [item for value in values if isinstance(value, list) for item in value],
        "additionalProperties": [item for value in maps for item in value.values()],
    }
    for form in forms(schema):
        for name, part in form.get("properties", {}).items() if "description" in form else ():
            if "description" in part:
                examples = [value[name] for value in maps if name in value]
                required = "required" if name in form.get("required", ()) else ""
                if name in KEYS_OF_NEW_ROWS.get(prefix[:-1].rpartition(".")[2], ()):
                    required = "required in a new row"
                yield prefix + name, _key(name, part, examples, required)
                if name != "add":  # Kubernetes defines pod templates
                    yield from _keys(f"{prefix}{name}.", part, examples)
        patterns = form.get("patternProperties", {}).values()
        for key, items in inner_values.items():
            for part in (form, *({"additionalProperties": inner} for inner in patterns)):
                if isinstance(part.get(key), dict):
                    yield from _keys(prefix, part[key], items)


def _key(name: str, part: dict[str, Any], values: Sequence[Json], required: str) -> Key:
    default = dump_yaml(part["default"]).split("\n")[0] if "default" in part else required
    examples = [value for value in part.get("examples", values) if value]
    if min(map(_length, examples), default=0) > LONGEST_EXAMPLE:
        examples += [_first(value) for value in examples]
    shortest = min(examples, key=_length, default=None)
    has_example = shortest is not None and _length(shortest) <= LONGEST_EXAMPLE
    example = dump_yaml({name: shortest}, flow=True).strip()[1:-1] if has_example else ""
    type_name = "part of a pod template" if name == "add" else _type(part)
    return Key(name, type_name, default, example, part["description"])


def _length(value: Json) -> int:
    return len(str(value))


def _first(value: Json) -> Json:
    """Returns a list or a map that has only the first element of the value."""
    value = value[:1] if isinstance(value, list) else value
    return dict([*value.items()][:1]) if isinstance(value, dict) else value


def _type(schema: dict[str, Any]) -> str:
    """Returns the type of a value in words."""
    if "enum" in schema or "const" in schema:
        words = map(str, schema.get("enum", [schema.get("const")]))
        return messages.join_or(word for word in words if word != "False" and not word.startswith("!"))
    if "$ref" in schema:
        definition = forms(schema)[1]
        return str(schema["$ref"].rpartition("/")[2]) if "properties" in definition else _type(definition)
    if "anyOf" in schema:
        types = dict.fromkeys(_type(inner) for inner in schema["anyOf"] if inner.get("type") != "null")
        items = [name for name in types if not name.startswith("list of ")]
        list_type = "a list of such maps" if items[0].startswith("map of ") else "a list of these"
        has_list = f"list of {messages.join_or(items)}" in types
        return messages.join_or([*items, list_type] if has_list else types)
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}"
    if schema["type"] == "object":
        (value, *_) = filter(
            None, [schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()]
        )
        return f"map of {_type(value)}"
    if "~[01]" in schema.get("pattern", ""):
        return "JSON pointer"
    return "time" if schema.get("format") == "date-time" else TYPES[schema["type"]]
