"""Reading objects of the API server: what is not there, or of another type than it should be, is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webhook.objects.tree import get, nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube.api import Object


def at(found: object, *path: str) -> Any:  # noqa: ANN401 - JSON of any shape
    """What is at a path of keys; None where there is nothing."""
    return get(found, path)


def text(found: object) -> str:
    """A text; empty for anything else."""
    return found if isinstance(found, str) else ""


def number(found: object) -> int | None:
    """A whole number; None for anything else."""
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def maps(found: object) -> list[Object]:
    """The maps of a list."""
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def mapping(found: object) -> Object:
    """A map; empty for anything else."""
    return found if isinstance(found, dict) else {}


def metadata(found: Object) -> Object:
    """The metadata of an object."""
    return mapping(found.get("metadata"))


def labels(found: Object, kind: str = "labels") -> dict[str, str]:
    """The labels of an object, or its ``annotations``."""
    return {key: value for key, value in mapping(metadata(found).get(kind)).items() if isinstance(value, str)}


def name_of(found: Object) -> str:
    """The name of an object."""
    return text(metadata(found).get("name"))


def condition(found: Object, kind: str) -> Object:
    """A condition of an object's status; empty where it has none of that type."""
    return next((item for item in maps(at(found, "status", "conditions")) if item.get("type") == kind), {})


def templates(found: object) -> Iterator[Object]:
    """The pod templates of an object of any kind."""
    return (node for _, node in nodes(found) if maps(at(node, "spec", "containers")))
