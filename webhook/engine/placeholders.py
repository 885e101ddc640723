"""``$(a.b)``: the closed set of names that a fragment may quote. There is no expression language."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from webhook.engine.tree import Json

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
    "job.instanceType": "the instance type that the job chose, or the first of the table",
    "shape.name": "name of the shape",
    "shape.nodeConfig": "node config of the shape: 4, 2 or 1",
    "shape.topologyKey": "topology key of the shape; only for rules whose shapes all have one",
}
"""Placeholders that any rule may quote, and what they stand for. All are text."""

ROLE: Final[dict[str, str]] = {
    "image": "image of the first container of the role's template",
    "container": "name of the first container of the role's template",
}
"""For every role of a workload, ``$(ROLE.image)`` and ``$(ROLE.container)``."""

ROLE_MAPS: Final[dict[str, str]] = {
    "securityContext": "securityContext of the first container of the role's template",
}
"""As ``ROLE``, but a map: it stands alone, and its key goes where the job has none."""

SCRIPTS: Final = ("script.wait", "script.init")
"""The text of the scripts in ``webhook/initscript``."""


class UnknownPlaceholderError(LookupError):
    """A placeholder for which this job has nothing to put in."""


def names(node: Json) -> Iterator[str]:
    """Every placeholder in a tree, in order of appearance, repetitions too."""
    if isinstance(node, str):
        yield from (found[2] for found in PATTERN.finditer(node) if not found[1])
    elif isinstance(node, dict):
        for value in node.values():
            yield from names(value)
    elif isinstance(node, list):
        for value in node:
            yield from names(value)


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
    alone = PATTERN.fullmatch(text)
    if alone and not alone[1] and not isinstance(values.get(alone[2], text), str):
        return values[alone[2]]

    def replacement(found: re.Match[str]) -> str:
        if found[1]:
            return found[0] if partial else found[0][1:]
        if found[2] not in values:
            if partial:
                return found[0]
            raise UnknownPlaceholderError(found[2])
        return str(values[found[2]])

    return PATTERN.sub(replacement, text)
