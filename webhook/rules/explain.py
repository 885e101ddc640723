"""Explains the keys of a table, from the types of the published schema and the packaged table."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from common.texts import did_you_mean, folded
from webhook.documents import dump_yaml
from webhook.objects.tree import Json
from webhook.rules.load import placement_draft
from webhook.rules.schema import bundled, forms

TYPES: Final = {"string": "text", "integer": "whole number", "boolean": "true or false"}
"""Names of JSON Schema's types for people."""

LONGEST: Final = 100
"""Most characters of an example; longer ones are left out."""


class Key(NamedTuple):
    """A key of a row.

    Attributes:
        type: In words; a capital letter begins the name of a row.
        default: Empty if there is none; or ``required``.
        example: On one line; empty if there is none.
        about: A description.
    """

    name: str
    type: str
    default: str
    example: str
    about: str

    def __str__(self) -> str:
        default = self.default and f" {'' if self.default == 'required' else 'default '}{self.default}"
        return f"{self.name} <{self.type}>{default}\n{folded(self.about, '  ')}\n"


def explained(path: str = "") -> str:
    """Returns the explanation of a key and those below it; without a path that of a table's keys.

    Raises:
        LookupError: No key has this path, or several have; the message says which.
    """
    keys = every()
    known = [path] if path in keys else [each for each in keys if each.endswith(f".{path}")]
    if path and len(known) != 1:
        several = f"several keys are called {path}: say {' or '.join(known)}"
        raise LookupError(several if known else f"no key is called {path!r}{did_you_mean(path, keys)}")
    if not path:
        return "\n".join(str(key) for each, key in keys.items() if each == key.name)
    key = keys[known[0]]
    example = [f"  For example: {key.example}\n"] if key.example else []
    below = [str(inner) for each, inner in keys.items() if each == f"{known[0]}.{inner.name}"]
    return "\n".join([str(key), *example, *below])


@cache
def every() -> Mapping[str, Key]:
    """Returns each key of a table by its path."""
    keys = [*_keys("", bundled(), [placement_draft().raw])]
    return dict(keys) | dict(reversed(keys))  # the first of alternatives with one key counts


def _keys(at: str, schema: dict[str, Any], values: Sequence[Json]) -> Iterator[tuple[str, Key]]:
    """Yields the keys of the rows in a value, list or map, with examples from these values."""
    maps = [each for each in values if isinstance(each, dict)]
    inside = {
        "items": [one for each in values if isinstance(each, list) for one in each],
        "additionalProperties": [one for each in maps for one in each.values()],
    }
    for form in forms(schema):
        for name, part in form.get("properties", {}).items() if "description" in form else ():
            if "description" in part:
                given = [each[name] for each in maps if name in each]
                yield at + name, _key(name, part, given, required=name in form.get("required", ()))
                if name != "add":  # a pod template is Kubernetes' own
                    yield from _keys(f"{at}{name}.", part, given)
        of = [form, *({"additionalProperties": each} for each in form.get("patternProperties", {}).values())]
        for key, several in inside.items():
            for each in of:
                if isinstance(each.get(key), dict):
                    yield from _keys(at, each[key], several)


def _key(name: str, part: dict[str, Any], values: Sequence[Json], *, required: bool) -> Key:
    default = dump_yaml(part["default"]).split("\n")[0] if "default" in part else required and "required"
    given = [each for each in part.get("examples", values) if each]
    given += [_first(each) for each in given] if min(map(_length, given), default=0) > LONGEST else []
    shortest = min(given, key=_length, default=None)
    fits = shortest is not None and _length(shortest) <= LONGEST
    example = dump_yaml({name: shortest}, flow=True).strip()[1:-1] if fits else ""
    kind = "part of a pod template" if name == "add" else _type(part)
    return Key(name, kind, default or "", example, part["description"])


def _length(value: Json) -> int:
    return len(str(value))


def _first(value: Json) -> Json:
    """Returns a list or a map with only its first element."""
    value = value[:1] if isinstance(value, list) else value
    return dict([*value.items()][:1]) if isinstance(value, dict) else value


def _type(schema: dict[str, Any]) -> str:
    """Returns a value's type in words."""
    if "enum" in schema or "const" in schema:
        words = map(str, schema.get("enum", [schema.get("const")]))
        return _either(each for each in words if each != "False" and not each.startswith("!"))
    if "$ref" in schema:
        named = forms(schema)[1]
        return str(schema["$ref"].rpartition("/")[2]) if "properties" in named else _type(named)
    if "anyOf" in schema:
        kinds = dict.fromkeys(_type(each) for each in schema["anyOf"] if each.get("type") != "null")
        one = [each for each in kinds if not each.startswith("list of ")]
        return _either([*one, "a list of these"] if f"list of {_either(one)}" in kinds else kinds)
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}"
    if schema["type"] == "object":
        (of, *_) = filter(
            None, [schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()]
        )
        return f"map of {_type(of)}"
    if "~[01]" in schema.get("pattern", ""):
        return "JSON pointer"
    return "time" if schema.get("format") == "date-time" else TYPES[schema["type"]]


def _either(words: Iterable[str]) -> str:
    *most, last = [*filter(None, words)] or [""]
    return f"{', '.join(most)} or {last}" if most else last
