"""The smallest case that still fails in the same way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.bench.fuzz.check import BrokenError, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.fuzz.cases import Case

TRIES = 3000


def failure(case: Case) -> str:
    """Why a case fails; empty where it does not."""
    try:
        check(case, counted=True)
    except BrokenError as error:
        return str(error)
    return ""


def shrunk(case: Case, tries: int = TRIES) -> Case:
    """A case with as little in it as fails for a reason of the same first words."""
    wanted, going = _kind(failure(case)), True
    while going and tries > 0:
        going = False
        for smaller in _smaller(case.obj):
            tries -= 1
            candidate = replace(case, obj=smaller)
            if isinstance(smaller, dict) and _kind(failure(candidate)) == wanted:
                case, going = candidate, True
                break
            if tries <= 0:
                break
    return case


def _kind(reason: str) -> str:
    return " ".join(reason.split()[:2])


def _smaller(node: Any) -> Iterator[Any]:
    """A tree with one part less, larger parts first."""
    if isinstance(node, dict):
        for key in node:
            yield {other: value for other, value in node.items() if other != key}
        for key, value in node.items():
            yield from ({**node, key: less} for less in _smaller(value))
    elif isinstance(node, list):
        if len(node) > 3:
            yield node[: len(node) // 2]
            yield node[len(node) // 2 :]
        for at in range(len(node)):
            yield [*node[:at], *node[at + 1 :]]
        for at, value in enumerate(node):
            yield from ([*node[:at], less, *node[at + 1 :]] for less in _smaller(value))
    elif isinstance(node, str) and len(node) > 1 and not node.startswith("{"):
        yield node[: len(node) // 2]
