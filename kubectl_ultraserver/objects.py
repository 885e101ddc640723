"""Reads values of JSON objects. A value that is missing or has another type is read as empty."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.pointers import get, get_map, get_maps
from kube.api import Object

NAME: Final = "ultraserver-webhook"
"""The namespace of an installation, and the name of most of its objects."""


def at(document: object, *path: str | int) -> Any:  # noqa: ANN401 - JSON of any shape
    """Returns the value at a path of keys and positions; None if the document lacks the path."""
    return get(document, path)


def map_at(document: object, *path: str | int) -> Object:
    """Returns the map at a path; empty for any other value."""
    return get_map(document, path)


def text_at(document: object, *path: str) -> str:
    """Returns the text at a path; empty for any other value."""
    value = at(document, *path)
    return value if isinstance(value, str) else ""


def number_at(document: object, *path: str) -> int:
    """Returns the integer at a path; 0 for any other value."""
    value = at(document, *path)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def maps_at(document: object, *path: str) -> list[Object]:
    """Returns the maps in the list at a path; empty for any other value."""
    return get_maps(document, path)


def labels(obj: Object, field: str = "labels") -> dict[str, str]:
    """Returns an object's labels or, if ``field`` is ``annotations``, its annotations."""
    values = map_at(obj, "metadata", field)
    return {key: value for key, value in values.items() if isinstance(value, str)}


def metadata(obj: object) -> Object:
    """Returns the metadata of an object."""
    return map_at(obj, "metadata")


def name_of(obj: Object) -> str:
    """Returns the name of an object."""
    return text_at(obj, "metadata", "name")


def condition(obj: Object, type_name: str) -> Object:
    """Returns the condition of a type in an object's status; empty if the status has no such condition."""
    return next((item for item in maps_at(obj, "status", "conditions") if item.get("type") == type_name), {})


def is_true(obj: Object, type_name: str) -> bool:
    """Returns whether a condition of an object's status is True."""
    return bool(condition(obj, type_name).get("status") == "True")


def templates(obj: object) -> Iterator[Object]:
    """Yields the pod templates in an object of any kind; a Pod is its own template."""
    if maps_at(obj, "spec", "containers") and isinstance(obj, dict):
        yield obj
    children = obj.values() if isinstance(obj, dict) else obj if isinstance(obj, list) else ()
    for child in children:
        yield from templates(child)


def unmet(selector: object, labels: Mapping[str, str]) -> str:
    """Returns the first requirement of a label selector that the labels do not meet; empty if they meet all.

    See Kubernetes, "Labels and Selectors".
    """
    match_labels = map_at(selector, "matchLabels").items()
    exact_requirements = [{"key": key, "operator": "In", "values": [value]} for key, value in match_labels]
    for item in (*exact_requirements, *maps_at(selector, "matchExpressions")):
        key, operator, values = (text_at(item, "key"), text_at(item, "operator"), item.get("values") or [])
        met = {"Exists": key in labels, "DoesNotExist": key not in labels, "In": labels.get(key) in values}
        if not met.get(operator, labels.get(key) not in values):
            return f"{key} is {labels.get(key, 'missing')}, not {operator} {', '.join(values)}".rstrip()
    return ""
