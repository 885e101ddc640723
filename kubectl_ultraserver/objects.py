"""Reads values of JSON objects: one that is missing or of an unexpected type is empty."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.pointers import get, get_map
from kube.api import Object

NAME: Final = "ultraserver-webhook"
"""The namespace of an installation, and the name of most of its objects."""


def at(document: object, *path: str | int) -> Any:  # noqa: ANN401 - JSON of any shape
    """Returns the value at a path of keys and positions; None if there is none."""
    return get(document, path)


def mapped(document: object, *path: str | int) -> Object:
    """Returns the map at a path; empty for any other value."""
    return get_map(document, path)


def text(document: object, *path: str) -> str:
    """Returns the text at a path; empty for any other value."""
    value = at(document, *path)
    return value if isinstance(value, str) else ""


def number(document: object, *path: str) -> int:
    """Returns the integer at a path; 0 for any other value."""
    value = at(document, *path)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def maps(document: object, *path: str) -> list[Object]:
    """Returns the maps of the list at a path."""
    value = at(document, *path)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def labels(obj: Object, kind: str = "labels") -> dict[str, str]:
    """Returns the labels of an object, or its ``annotations``."""
    marks = mapped(obj, "metadata", kind)
    return {key: value for key, value in marks.items() if isinstance(value, str)}


def metadata(obj: object) -> Object:
    """Returns the metadata of an object."""
    return mapped(obj, "metadata")


def name_of(obj: Object) -> str:
    """Returns the name of an object."""
    return text(obj, "metadata", "name")


def condition(obj: Object, kind: str) -> Object:
    """Returns the condition of this type in an object's status; empty if it has none."""
    return next((item for item in maps(obj, "status", "conditions") if item.get("type") == kind), {})


def holds(obj: Object, kind: str) -> bool:
    """Returns whether a condition of an object's status is True."""
    return bool(condition(obj, kind).get("status") == "True")


def templates(obj: object) -> Iterator[Object]:
    """Yields the pod templates in an object of any kind."""
    if maps(obj, "spec", "containers") and isinstance(obj, dict):
        yield obj
    inner = obj.values() if isinstance(obj, dict) else obj if isinstance(obj, list) else ()
    for node in inner:
        yield from templates(node)


def unmet(selector: object, has: Mapping[str, str]) -> str:
    """Returns the first requirement of a label selector that labels do not meet; empty if they meet all.

    See Kubernetes, "Labels and Selectors".
    """
    exact = mapped(selector, "matchLabels").items()
    equal = [{"key": key, "operator": "In", "values": [value]} for key, value in exact]
    for each in (*equal, *maps(selector, "matchExpressions")):
        key, operator, values = text(each, "key"), text(each, "operator"), each.get("values") or []
        met = {"Exists": key in has, "DoesNotExist": key not in has, "In": has.get(key) in values}
        if not met.get(operator, has.get(key) not in values):
            return f"{key} is {has.get(key, 'missing')}, not {operator} {', '.join(values)}".rstrip()
    return ""
