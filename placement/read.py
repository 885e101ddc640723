"""Nodes and pods as the API server has them, made into what a decision needs.

Labels and annotations of pods are what people and other programs write: anything may stand there. What
cannot be read, or would cost too much, becomes the pod's `problem`, in words, and its job waits.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from placement.model import (
    HOSTNAME,
    INDEX,
    JOB,
    NODE_CONFIG,
    OPENED,
    TOPOLOGY_KEY,
    WORKERS,
    Demand,
    Expression,
    Node,
    Place,
    Pod,
    Taint,
    Term,
    Toleration,
)
from placement.quantities import amounts, requests

Object = dict[str, Any]

ENDED: Final = ("Succeeded", "Failed")
"""Phases of pods that hold nothing any more."""

LIVE: Final = "fieldSelector=status.phase!%3DSucceeded%2Cstatus.phase!%3DFailed"
"""The query of a list of pods for those that have not ended."""

MOST_CONDITIONS: Final = 200
"""Parts of node affinity and tolerations of one worker; each is compared with every node."""

MOST_WORKERS: Final = 100_000
"""More than any cluster has nodes; a number beyond it is a mistake."""

_KINDS: Final = ("matchExpressions", "matchFields")
"""Of expressions in a node selector term."""

_NUMBER: Final = re.compile(r"[0-9]{1,6}", re.ASCII)
_LAST_NUMBER: Final = re.compile(r"-([0-9]{1,6})$", re.ASCII)


class ContractError(ValueError):
    """The annotations of a pod that takes a node cannot be read; the message says which and why."""


def read_node(found: Object) -> Node:
    """A node."""
    metadata, spec, status = (found.get(part) or {} for part in ("metadata", "spec", "status"))
    conditions = status.get("conditions") or ()
    return Node(
        name=metadata.get("name", ""),
        labels=metadata.get("labels") or {},
        ready=any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions),
        cordoned=bool(spec.get("unschedulable")),
        taints=tuple(
            Taint(item.get("key", ""), item.get("value") or "", item.get("effect", ""))
            for item in spec.get("taints") or ()
        ),
        allocatable=amounts(status.get("allocatable")),
    )


def read_pod(found: Object) -> Pod | None:
    """A pod; None for one that has ended."""
    metadata, spec, status = (found.get(part) or {} for part in ("metadata", "spec", "status"))
    if status.get("phase") in ENDED:
        return None
    place, problem = None, ""
    try:
        place = read_place(metadata)
        problem = _excess(spec) if place else ""
    except ContractError as error:
        problem = str(error)
    return Pod(
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        version=metadata.get("resourceVersion", ""),
        job=(metadata.get("labels") or {}).get(JOB) or (metadata.get("annotations") or {}).get(JOB, ""),
        place=place,
        problem=problem,
        gates=tuple(gate.get("name", "") for gate in spec.get("schedulingGates") or ()),
        demand=read_demand(spec),
        node=spec.get("nodeName") or "",
        opened=_opened(metadata, place, spec),
        started=_started(status),
        deleting=bool(metadata.get("deletionTimestamp")),
        priority=spec.get("priority") or 0,
        created=_time(metadata.get("creationTimestamp")) or datetime.fromtimestamp(0, UTC),
    )


def read_place(metadata: Object) -> Place | None:
    """What the table's annotations say about a pod; None for one that takes no node for a job.

    Raises:
        ContractError: They cannot be read.
    """
    said = metadata.get("annotations") or {}
    if WORKERS not in said:
        return None
    workers, size = (_count(said, key) for key in (WORKERS, NODE_CONFIG))
    key = HOSTNAME if size == 1 else said.get(TOPOLOGY_KEY, "")
    if not key:
        raise ContractError(f"annotation {TOPOLOGY_KEY} is missing: node config {size} needs it")
    return Place(_index(metadata, said.get(INDEX, "")), workers, size, key)


def read_demand(spec: Object) -> Demand:
    """What a pod asks of a node; the same object for every pod that asks for the same."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return _demand(
        tuple(sorted((spec.get("nodeSelector") or {}).items())),
        None if required is None else tuple(_term(term) for term in required.get("nodeSelectorTerms") or ()),
        tuple(
            Toleration(*(item.get(key) or "" for key in ("key", "operator", "value", "effect")))
            for item in spec.get("tolerations") or ()
        ),
        tuple(sorted(requests(spec).items())),
    )


@lru_cache(maxsize=16384)
def _demand(
    selector: tuple[tuple[str, str], ...],
    terms: tuple[Term, ...] | None,
    tolerations: tuple[Toleration, ...],
    asked: tuple[tuple[str, int], ...],
) -> Demand:
    return Demand(dict(selector), terms, tolerations, dict(asked))


def _excess(spec: Object) -> str:
    """Why a worker costs too much to find a node for; empty where it does not."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or ()
    expressions = [item for term in terms for kind in _KINDS for item in term.get(kind) or ()]
    values = sum(len(item.get("values") or ()) for item in expressions)
    count = len(terms) + len(expressions) + values + len(spec.get("tolerations") or ())
    if count <= MOST_CONDITIONS:
        return ""
    return f"its node affinity and tolerations have {count} parts: at most {MOST_CONDITIONS} are compared"


def _term(found: Object) -> Term:
    return Term(
        *(
            tuple(
                Expression(item.get("key", ""), item.get("operator", ""), tuple(item.get("values") or ()))
                for item in found.get(kind) or ()
            )
            for kind in _KINDS
        )
    )


def _count(said: Object, key: str) -> int:
    text = said.get(key)
    if text is None:
        raise ContractError(f"annotation {key} is missing")
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= MOST_WORKERS:
        raise ContractError(f"annotation {key} is {text[:40]!r}: it must be a whole number from 1")
    return int(text)


def _index(metadata: Object, where: str) -> int:
    if where == "name":
        found = _LAST_NUMBER.search(metadata.get("name", ""))
        if not found:
            raise ContractError("there is no number at the end of the pod's name")
        return int(found[1])
    kind, _, key = where.partition("/")
    if kind != "labels" or not key:
        raise ContractError(f"annotation {INDEX} is {where[:80]!r}: it must be 'name' or 'labels/KEY'")
    text = (metadata.get("labels") or {}).get(key)
    if text is None or not _NUMBER.fullmatch(text):
        raise ContractError(f"label {key[:80]} is {text!r}: it must be the pod's number, from 0")
    return int(text)


def _opened(metadata: Object, place: Place | None, spec: Object) -> datetime | None:
    """When the program pinned a pod. It writes both in one patch: one without the other is not its."""
    if place is None or place.key not in (spec.get("nodeSelector") or {}):
        return None
    return _time((metadata.get("annotations") or {}).get(OPENED))


def _started(status: Object) -> bool:
    """Whether a container runs or ran: phase Pending lasts through image pulls and init containers."""
    if status.get("phase") == "Running":
        return True
    kinds = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    states = (
        [item.get("state") or {}, item.get("lastState") or {}]
        for kind in kinds
        for item in status.get(kind) or ()
    )
    return any("running" in state or "terminated" in state for pair in states for state in pair)


def _time(text: str | None) -> datetime | None:
    """A time as the API server writes it; None for anything else."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
