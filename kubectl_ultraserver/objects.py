"""Reading objects of the API server: what is not there, or of another type than it should be, is empty."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.pointers import get
from kube.api import Object

NAME: Final = "ultraserver-webhook"
"""The namespace of an installation, and the name of most of its objects."""


def at(found: object, *path: str | int) -> Any:  # noqa: ANN401 - JSON of any shape
    """What is at a path of keys and positions; None where there is nothing."""
    return get(found, path)


def mapped(found: object, *path: str | int) -> Object:
    """The map at a path; empty for anything else."""
    there = at(found, *path)
    return there if isinstance(there, dict) else {}


def text(found: object, *path: str) -> str:
    """The text at a path; empty for anything else."""
    found = at(found, *path)
    return found if isinstance(found, str) else ""


def number(found: object, *path: str) -> int:
    """The whole number at a path; 0 for anything else."""
    found = at(found, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def maps(found: object, *path: str) -> list[Object]:
    """The maps of the list at a path."""
    there = at(found, *path)
    return [item for item in there if isinstance(item, dict)] if isinstance(there, list) else []


def labels(found: Object, kind: str = "labels") -> dict[str, str]:
    """The labels of an object, or its ``annotations``."""
    marks = mapped(found, "metadata", kind)
    return {key: value for key, value in marks.items() if isinstance(value, str)}


def metadata(found: object) -> Object:
    """The metadata of an object."""
    return mapped(found, "metadata")


def name_of(found: Object) -> str:
    """The name of an object."""
    return text(found, "metadata", "name")


def condition(found: Object, kind: str) -> Object:
    """A condition of an object's status; empty where it has none of that type."""
    return next((item for item in maps(found, "status", "conditions") if item.get("type") == kind), {})


def holds(found: Object, kind: str) -> bool:
    """Whether a condition of an object's status is True."""
    return bool(condition(found, kind).get("status") == "True")


def templates(found: object) -> Iterator[Object]:
    """The pod templates of an object of any kind."""
    if maps(found, "spec", "containers") and isinstance(found, dict):
        yield found
    inner = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    for node in inner:
        yield from templates(node)


def unmet(selector: object, has: Mapping[str, str]) -> str:
    """The first requirement of a label selector that labels do not meet; empty where they meet all.

    See Kubernetes, "Labels and Selectors".
    """
    exact = mapped(selector, "matchLabels").items()
    said = [{"key": key, "operator": "In", "values": [value]} for key, value in exact]
    for each in (*said, *maps(selector, "matchExpressions")):
        key, operator, values = text(each, "key"), text(each, "operator"), each.get("values") or []
        met = {"Exists": key in has, "DoesNotExist": key not in has, "In": has.get(key) in values}
        if not met.get(operator, has.get(key) not in values):
            return f"{key} is {has.get(key, 'missing')}, not {operator} {', '.join(values)}".rstrip()
    return ""
