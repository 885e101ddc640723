"""Explains the keys of a table, from the types of the published schema and the packaged table."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from common.texts import did_you_mean, folded
from webhook.documents import dump_yaml
from webhook.objects.tree import Json
from webhook.rules.draft import ROWS, WITHIN
from webhook.rules.load import placement_draft
from webhook.rules.schema import bundled, forms

TYPES: Final = {"string": "text", "integer": "whole number", "boolean": "true or false"}
"""Plain names of JSON Schema's types."""

NEW: Final = {**ROWS, **WITHIN}
"""The keys that a new row needs, by its list."""

LONGEST: Final = 100
"""Maximum length of an example; longer ones are left out."""


class Key(NamedTuple):
    """A key of a row.

    Attributes:
        type: The type in words; names of rows begin with a capital letter.
        default: The default; empty if there is none, or ``required``, in some rows only if they are new.
        example: An example on one line; empty if there is none.
        about: The description.
    """

    name: str
    type: str
    default: str
    example: str
    about: str

    def __str__(self) -> str:
        default = (
            self.default and f" {'' if self.default.startswith('required') else 'default '}{self.default}"
        )
        return f"{self.name} <{self.type}>{default}\n{folded(self.about, '  ')}\n"


def explained(path: str = "") -> str:
    """Returns the explanation of a key and the keys below it; without a path, of the table's top keys.

    Raises:
        LookupError: No key has this path, or several have; the message says which.
    """
    keys = every()
    matching = [path] if path in keys else [known for known in keys if known.endswith(f".{path}")]
    if path and len(matching) != 1:
        several = f"several keys have the name {path}: use {' or '.join(matching)}"
        raise LookupError(several if matching else f"no key has the name {path!r}{did_you_mean(path, keys)}")
    if not path:
        return "\n".join(str(key) for known, key in keys.items() if known == key.name)
    key = keys[matching[0]]
    example = [f"  For example: {key.example}\n"] if key.example else []
    below = [str(inner) for known, inner in keys.items() if known == f"{matching[0]}.{inner.name}"]
    others = ", ".join(known for known in keys if known.endswith(f".{path}") and known not in matching)
    also = [f"Other keys have the same name: {others}\n"] if others else []
    return "\n".join([str(key), *example, *below, *also])


@cache
def every() -> Mapping[str, Key]:
    """Returns each key of a table by its path."""
    keys = [*_keys("", bundled(), [placement_draft().raw])]
    # If alternatives have the same key, the first with an example is used.
    return dict(keys) | dict(reversed(keys)) | dict(key for key in reversed(keys) if key[1].example)


def _keys(at: str, schema: dict[str, Any], values: Sequence[Json]) -> Iterator[tuple[str, Key]]:
    """Yields the keys of the rows in a value, list or map, with examples from these values."""
    maps = [value for value in values if isinstance(value, dict)]
    inside = {
        "items": [item for value in values if isinstance(value, list) for item in value],
        "additionalProperties": [item for value in maps for item in value.values()],
    }
    for form in forms(schema):
        for name, part in form.get("properties", {}).items() if "description" in form else ():
            if "description" in part:
                examples = [value[name] for value in maps if name in value]
                required = "required" if name in form.get("required", ()) else ""
                if name in NEW.get(at[:-1].rpartition(".")[2], ()):
                    required = "required in a new row"
                yield at + name, _key(name, part, examples, required)
                if name != "add":  # Kubernetes defines pod templates
                    yield from _keys(f"{at}{name}.", part, examples)
        patterns = form.get("patternProperties", {}).values()
        for key, items in inside.items():
            for part in (form, *({"additionalProperties": inner} for inner in patterns)):
                if isinstance(part.get(key), dict):
                    yield from _keys(at, part[key], items)


def _key(name: str, part: dict[str, Any], values: Sequence[Json], required: str) -> Key:
    default = dump_yaml(part["default"]).split("\n")[0] if "default" in part else required
    examples = [value for value in part.get("examples", values) if value]
    if min(map(_length, examples), default=0) > LONGEST:
        examples += [_first(value) for value in examples]
    shortest = min(examples, key=_length, default=None)
    fits = shortest is not None and _length(shortest) <= LONGEST
    example = dump_yaml({name: shortest}, flow=True).strip()[1:-1] if fits else ""
    kind = "part of a pod template" if name == "add" else _type(part)
    return Key(name, kind, default, example, part["description"])


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
        return _either(word for word in words if word != "False" and not word.startswith("!"))
    if "$ref" in schema:
        named = forms(schema)[1]
        return str(schema["$ref"].rpartition("/")[2]) if "properties" in named else _type(named)
    if "anyOf" in schema:
        types = dict.fromkeys(_type(inner) for inner in schema["anyOf"] if inner.get("type") != "null")
        single = [name for name in types if not name.startswith("list of ")]
        several = "a list of such maps" if single[0].startswith("map of ") else "a list of these"
        return _either([*single, several] if f"list of {_either(single)}" in types else types)
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
