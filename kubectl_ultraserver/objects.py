"""Reading objects of the API server: what is not there, or of another type than it should be, is empty."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kube.api import Object
from webhook.objects.tree import get, map_at, maps_at, nodes

NAME: Final = "ultraserver-webhook"
"""The namespace of an installation, and the name of most of its objects."""


def at(found: object, *path: str) -> Any:  # noqa: ANN401 - JSON of any shape
    """What is at a path of keys; None where there is nothing."""
    return get(found, path)


def text(found: object, *path: str) -> str:
    """The text at a path; empty for anything else."""
    found = get(found, path)
    return found if isinstance(found, str) else ""


def number(found: object, *path: str) -> int:
    """The whole number at a path; 0 for anything else."""
    found = get(found, path)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def maps(found: object, *path: str) -> list[Object]:
    """The maps of the list at a path."""
    return list(maps_at(found, path))


def labels(found: Object, kind: str = "labels") -> dict[str, str]:
    """The labels of an object, or its ``annotations``."""
    marks = map_at(found, ("metadata", kind))
    return {key: value for key, value in marks.items() if isinstance(value, str)}


def metadata(found: object) -> Object:
    """The metadata of an object."""
    return map_at(found, ("metadata",))


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
    return (node for _, node in nodes(found) if maps(node, "spec", "containers"))


def unmet(selector: object, has: Mapping[str, str]) -> str:
    """The first requirement of a label selector that labels do not meet; empty where they meet all.

    See Kubernetes, "Labels and Selectors".
    """
    exact = map_at(selector, ("matchLabels",)).items()
    said = [{"key": key, "operator": "In", "values": [value]} for key, value in exact]
    for each in (*said, *maps(selector, "matchExpressions")):
        key, operator, values = text(each, "key"), text(each, "operator"), each.get("values") or []
        met = {"Exists": key in has, "DoesNotExist": key not in has, "In": has.get(key) in values}
        if not met.get(operator, has.get(key) not in values):
            return f"{key} is {has.get(key, 'missing')}, not {operator} {', '.join(values)}".rstrip()
    return ""
