"""``$(a.b)``: the closed set of names that a fragment may quote. There is no expression language."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from webhook.objects.tree import Json, nodes

ABSENT: Final = object()
"""The value of a placeholder for a map that the job does not have."""

PATTERN: Final = re.compile(r"(\$?)\$\(([a-z][A-Za-z0-9]*\.[A-Za-z0-9][A-Za-z0-9_-]*)\)")
"""A placeholder, or with a second dollar the text of one.

Shell substitutions do not look like one unless they run a command with a dot in its name.
"""

JOB: Final[dict[str, str]] = {
    "job.name": "name of the job; only for rules that match named jobs",
    "job.namespace": "namespace of the job",
    "job.id": "value of the job label: unique in the cluster, at most 63 characters",
    "job.workers": "number of workers",
    "job.nodes": "number of nodes the job takes: its workers, and the launcher where it runs ranks",
    "job.instanceType": "the instance type that the job chose, or the first of the table",
    "job.peers": "labels of the job's own pods that take nodes, and of no others in its namespace; a map",
    "job.groupLabels": "a list of the label that tells apart an object's units; its key goes without one",
    "job.place": "how the pods of a template are placed: the value of the annotation for it",
    "shape.name": "name of the shape",
    "shape.nodeConfig": "node config of the shape: 4, 2 or 1",
    "shape.topologyKey": "topology key of the shape; only for rules whose shapes all have one",
}
"""Placeholders that any rule may quote, and what they stand for; text where nothing else is said."""

CANDIDATES: Final = frozenset(
    {
        "job.id",
        "job.instanceType",
        "job.peers",
        "job.groupLabels",
        "job.place",
        *(name for name in JOB if name.startswith("shape.")),
    }
)
"""Of those, what only a candidate has."""

ROLE: Final[dict[str, str]] = {
    "image": "image of the first container of the role's template",
    "container": "name of the first container of the role's template",
    "instanceType": "the first instance type of the table that the role's templates do not exclude",
}
"""For every role of a workload, as in ``$(ROLE.image)``; all are text."""

ROLE_MAPS: Final[dict[str, str]] = {
    "securityContext": "securityContext of the first container of the role's template",
    "resources": "resources of the first container of the role's template",
}
"""As ``ROLE``, but a map: it stands alone, and its key goes where the job has none."""

PLACE: Final[dict[str, str]] = {
    "place.unit": "the node label whose value the nodes of a unit share",
    "place.block": "which block of consecutive pods of its job the Pod belongs to, where it has several",
}
"""For rules about Pods; what they say about their place. All are text."""

DEVICES: Final[dict[str, str]] = {
    "devices.instanceType": "the instance types that the pod may get",
    "devices.asked": "the number of devices that a container asks for",
    "devices.accepted": "the numbers that one of the types accepts",
    "devices.place": "where the container asks for them",
}
"""For rules that match ``unsupportedCount``; all are text."""

SCRIPTS: Final = ("script.wait", "script.init")
"""The text of ``webhook/initscript``; until 0.2.0 each of the two containers had a text of its own."""


class UnknownPlaceholderError(LookupError):
    """A placeholder for which this job has nothing to put in."""


def names(node: Json) -> Iterator[str]:
    """Every placeholder in a tree, in order of appearance, repetitions too."""
    texts = (text for _, text in nodes(node) if isinstance(text, str))
    return (found[2] for text in texts for found in PATTERN.finditer(text) if not found[1])


def render(node: Json, values: Mapping[str, Json], *, partial: bool = False) -> Json:
    """The tree with every placeholder replaced.

    Args:
        node: a tree of maps, lists and texts.
        values: what to put in, by name.
        partial: leave alone what there is no value for, and what is escaped.

    Raises:
        UnknownPlaceholderError: for a name that is not among the values.
    """
    if isinstance(node, str):
        return _text(node, values, partial) if "$(" in node else node
    if isinstance(node, dict):
        filled = ((key, render(value, values, partial=partial)) for key, value in node.items())
        return {key: value for key, value in filled if value is not ABSENT}
    if isinstance(node, list):
        return [render(value, values, partial=partial) for value in node]
    return node


def _text(text: str, values: Mapping[str, Json], partial: bool) -> Json:  # noqa: FBT001
    literals, quoted = _parts(text)
    filled = [_value(escape, name, values, partial) for escape, name in quoted]
    if len(filled) == 1 and not any(literals):
        return filled[0]  # a placeholder that stands alone may be a map
    return literals[0] + "".join(
        f"{value}{literal}" for value, literal in zip(filled, literals[1:], strict=True)
    )


@lru_cache(maxsize=4096)
def _parts(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    """What a text says between its placeholders, and these; a table's texts are few and always the same."""
    parts = PATTERN.split(text)
    return parts[::3], list(zip(parts[1::3], parts[2::3], strict=True))


def _value(escape: str, name: str, values: Mapping[str, Json], partial: bool) -> Json:  # noqa: FBT001
    if not escape and name in values:
        return values[name]
    if partial or escape:
        return f"{escape if partial else ''}$({name})"
    raise UnknownPlaceholderError(name)
