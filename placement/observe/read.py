"""Nodes and pods as the API server has them, made into what a decision needs.

Labels and annotations of pods are what people and other programs write: anything may stand there. What
cannot be read, or would cost too much, becomes the pod's `fault`, and its job waits. Of a pod
that takes no node for a job only who it is and what it takes is kept: it may be as large as it likes.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from typing import Any, Final
from weakref import WeakValueDictionary

from common.quantities import amounts, requests
from common.times import MOST_SECONDS, duration, time_of
from contract import place as contract
from contract.keys import DEVICES, GATE, JOB, LOOSE, OPENED, TIME_LIMIT
from contract.place import ContractError, Place, Placer
from kube.api import Object
from placement.observe.model import (
    HIDDEN,
    MARKS,
    NAMESPACE,
    PORT,
    POSITIVE,
    Apart,
    Demand,
    Ended,
    Expression,
    Fault,
    Node,
    Pod,
    Taint,
    Term,
    Toleration,
    demand_of,
)

ENDED: Final = ("Succeeded", "Failed")
"""Phases of pods that hold nothing any more."""

# The queries of lists of pods: for those that have not ended, and for those of jobs that have.
LIVE: Final = "fieldSelector=status.phase!%3DSucceeded%2Cstatus.phase!%3DFailed"
OVER: Final = f"labelSelector={JOB}&fieldSelector=status.phase!%3DPending%2Cstatus.phase!%3DRunning"

# Of one pod. Its conditions are compared with every node, and kept: 10,000 Pods of 200 parts take 150 MB.
MOST_CONDITIONS: Final = 200  # parts of them: a value is one, all others are four
MOST_TEXT: Final = 4096  # characters of these together, of its labels, and of its anti-affinity
MOST_APART: Final = 16  # terms of anti-affinity; the guard accepts no more from anybody
MOST_APART_TEXT: Final = 1024  # characters of these, without a place: bound ones are kept, whosever they are
MOST_LABELS: Final = 32  # of one without a place, and as many characters: of more only the `MARKS` are kept
MOST_ANNOTATIONS: Final = 240_000  # bytes, while it waits: of 262,144 a plan takes up to 18,300
MOST_RESOURCES: Final = 32  # names of resources that it asks for
MOST_PORTS: Final = 16  # host ports
MOST_CLAIMS: Final = 8  # entries of its `resourceClaims`
MOST_GATES: Final = 16

_KINDS: Final = ("matchExpressions", "matchFields")
"""Of expressions in a node selector term."""

CORE: Final = DEVICES | {"cpu", "memory", "ephemeral-storage"}
"""Resources that are kept of a pod that asks for more than any node has."""

_aparts: WeakValueDictionary[tuple[Any, ...], Apart] = WeakValueDictionary()


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
    gates = tuple(gate.get("name", "") for gate in spec.get("schedulingGates") or ())
    labels: Mapping[str, str] = metadata.get("labels") or {}
    place, number, fault = None, 0, None
    try:
        place, number = read_place({"metadata": metadata, "spec": spec})
        fault = _excess(spec, metadata, gates) if place else None
    except ContractError as error:
        fault = "place", str(error)
    claims = spec.get("resourceClaims") or () if place else ()
    # kube-scheduler keeps a node for a Pod that it preempts others for.
    node = spec.get("nodeName") or (not place and status.get("nominatedNodeName")) or ""
    opened, plan = _opened(metadata, place, spec)
    if len(gates) > MOST_GATES:
        fault = "gates", len(gates)
    return Pod(
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        job=contract.job(metadata, place.group if place else ""),
        loose=LOOSE in labels,
        place=place,
        number=number,
        fault=fault,
        gates=gates[:MOST_GATES],
        demand=read_demand(spec, status, conditions=bool(place) and not fault),
        claims=tuple(_entries(claims[:MOST_CLAIMS], status)),
        labels=labels if place and not fault else _kept(labels, there=bool(node)),
        # One without a place or a node keeps nobody off yet.
        apart=read_apart(spec, MOST_TEXT if place else MOST_APART_TEXT) if place or node else (),
        node=node,
        opened=opened,
        plan=plan,
        started=_started(status),
        deleting=bool(metadata.get("deletionTimestamp")),
        priority=spec.get("priority") or 0,
        limit=_limit(metadata, spec) if place else None,
        created=time_of(metadata.get("creationTimestamp")) or datetime.fromtimestamp(0, UTC),
    )


def read_ended(found: Object) -> Ended | None:
    """Which worker of which job has ended; None for what is not such a worker, or is being deleted."""
    metadata = found.get("metadata") or {}
    if (found.get("status") or {}).get("phase") not in ENDED or metadata.get("deletionTimestamp"):
        return None
    try:
        place, number = read_place(found)
    except ContractError:
        return None
    job = contract.job(metadata, place.group) if place else ""
    return Ended((metadata.get("namespace", ""), job), number) if job else None


def read_place(found: Object) -> tuple[Place | None, int]:
    """What admission says about a pod, and its number; None for one that takes no node for a job.

    Raises:
        ContractError: It cannot be read.
    """
    place = contract.read(found.get("metadata") or {})
    if place is None:
        return None, 0
    try:
        number = place.number(found)
    except ContractError:
        if place.placer is Placer.WHOLE_JOB:
            raise
        number = None
    if number is None and place.placer is Placer.WHOLE_JOB:
        raise ContractError("its place says no index: placement needs the number of each pod")
    return place, number or 0  # others stay off the unit that it is in, whichever number it has


def read_demand(spec: Object, status: Object | None = None, *, conditions: bool = True) -> Demand:
    """What a pod asks of a node; the same object for every pod that asks for the same.

    Without ``conditions`` its node selector, node affinity and tolerations are not kept.
    """
    said = spec if conditions else {}
    required = _required(said, "nodeAffinity")
    terms = None if required is None else tuple(map(_term, required.get("nodeSelectorTerms") or ()))
    tolerations = tuple(
        Toleration(*(item.get(key) or "" for key in ("key", "operator", "value", "effect")))
        for item in said.get("tolerations") or ()
    )
    asked = {name: amount for name, amount in requests(spec, status).items() if amount}
    if len(asked) > MOST_RESOURCES:  # no node has so many
        asked = {name: amount for name, amount in asked.items() if name in CORE}
    asked |= ports(spec)
    return demand_of(said.get("nodeSelector") or {}, terms, tolerations, asked)


def read_apart(spec: Object, most: int = MOST_TEXT) -> tuple[Apart, ...]:
    """The terms of a pod's required anti-affinity.

    Longer ones than so many characters are about all pods that have one of the labels they select by, in no
    more namespaces. Of a pod that has more than are looked at, each is about all pods.
    """
    terms = _required(spec, "podAntiAffinity") or ()
    if not terms:
        return ()
    if len(terms) > MOST_APART:
        keys = sorted({str(term.get("topologyKey") or "")[:MOST_TEXT] for term in terms})
        return tuple(_apart(key, (), frozenset(), ()) for key in keys[:MOST_TEXT])
    long = len(str(terms)) > most
    return tuple(dict.fromkeys(_read_term(term, long=long) for term in terms))


def _read_term(term: Object, *, long: bool) -> Apart:
    labels, spaces = _selector(term.get("labelSelector")), _selector(term.get("namespaceSelector"))
    names = frozenset(term.get("namespaces") or ())
    spaces = spaces and tuple(item for item in spaces if item.key == NAMESPACE)
    if long:
        positive = (Expression(item.key, "Exists", ()) for item in labels or () if item.operator in POSITIVE)
        labels = labels and tuple(positive)[:1]
        spaces = spaces and tuple(item for item in spaces if len(item.values) == 1)[:1]
        if len(names) > 1:
            names, spaces = frozenset(), ()
    return _apart(term.get("topologyKey") or "", labels, names, spaces)


def _apart(*said: Any) -> Apart:  # noqa: ANN401 - as the fields of one
    return _aparts.setdefault(said, Apart(*said))


def _selector(found: Object | None) -> tuple[Expression, ...] | None:
    """A label selector; None where there is none, which selects nothing."""
    if found is None:
        return None
    equal = (Expression(key, "In", (value,)) for key, value in (found.get("matchLabels") or {}).items())
    return (*equal, *_expressions(found.get("matchExpressions")))


def _required(spec: Object, kind: str) -> Any:  # noqa: ANN401 - a list or a map, by kind
    affinity: Object = (spec.get("affinity") or {}).get(kind) or {}
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution")


def _excess(spec: Object, metadata: Object, gates: tuple[str, ...]) -> Fault | None:
    """What of a worker costs too much to find a node for, or leaves no room for its unit."""
    selector, tolerations = spec.get("nodeSelector") or {}, spec.get("tolerations") or ()
    terms = (_required(spec, "nodeAffinity") or {}).get("nodeSelectorTerms") or ()
    expressions = [item for term in terms for kind in _KINDS for item in term.get(kind) or ()]
    values = [value for item in expressions for value in item.get("values") or ()]
    count = 4 * (len(selector) + len(terms) + len(expressions) + len(tolerations)) + len(values)
    keys = (item.get("key") or "" for item in expressions)
    texts = chain(selector, selector.values(), keys, values, *(item.values() for item in tolerations))
    length = sum(len(str(text)) for text in texts)
    if count > MOST_CONDITIONS or length > MOST_TEXT:
        return "conditions", count, length
    annotations = (metadata.get("annotations") or {}).items() if GATE in gates else ()
    length = sum(len(key.encode()) + len(value.encode()) for key, value in annotations)
    if length > MOST_ANNOTATIONS:
        return "annotations", length
    length = sum(len(key) + len(value or "") for key, value in (metadata.get("labels") or {}).items())
    if length > MOST_TEXT:
        return "labels", length
    claims = len(spec.get("resourceClaims") or ())
    return ("claims", claims) if claims > MOST_CLAIMS else None


def ports(spec: Object) -> dict[str, int]:
    """The host ports that a pod takes, as resources of which a node has one each; addresses do not count."""
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    found = {
        f"{PORT} {port['hostPort']}/{port.get('protocol') or 'TCP'}": 1000
        for container in (*(spec.get("containers") or ()), *sidecars)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }
    return found if len(found) <= MOST_PORTS else {PORT: 1000}


def _kept(labels: Mapping[str, str], *, there: bool) -> Mapping[str, str]:
    """The labels by which a job may keep off a pod: of one that is on a node all, where they are few."""
    few = len(labels) <= MOST_LABELS and sum(map(len, map(str, labels.items()))) <= MOST_APART_TEXT
    if there and few:
        return _equal(tuple(labels.items()))
    marks = {key: value for key, value in labels.items() if key in MARKS}
    return marks | {HIDDEN: ""} if there and not few else marks


@lru_cache(maxsize=1024)
def _equal(labels: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Labels that many pods have are one object."""
    return dict(labels)


def _entries(claims: Iterable[Object], status: Object) -> Iterator[tuple[str, str]]:
    """The template and the claim of each entry: of a template the one that was made, as the status says."""
    made = {
        each.get("name"): each.get("resourceClaimName") for each in status.get("resourceClaimStatuses") or ()
    }
    for entry in claims:
        template, own = entry.get("resourceClaimTemplateName") or "", entry.get("resourceClaimName")
        yield template, (made.get(entry.get("name")) if template else own) or ""


def _term(found: Object) -> Term:
    return Term(*(_expressions(found.get(kind)) for kind in _KINDS))


def _expressions(found: Iterable[Object] | None) -> tuple[Expression, ...]:
    return tuple(
        Expression(item.get("key", ""), item.get("operator", ""), tuple(item.get("values") or ()))
        for item in found or ()
    )


def _opened(metadata: Object, place: Place | None, spec: Object) -> tuple[datetime | None, str]:
    """When the program pinned a pod, and the plan.

    It writes pin and note in one patch: one without the other is not its. Nor is anything on a pod that
    others place.
    """
    if (
        place is None
        or place.placer is not Placer.WHOLE_JOB
        or place.unit not in (spec.get("nodeSelector") or {})
    ):
        return None, ""
    said, _, plan = str((metadata.get("annotations") or {}).get(OPENED, "")).partition(" ")
    return time_of(said), plan


def _limit(metadata: Object, spec: Object) -> timedelta | None:
    """How long a pod runs at most, as the annotation says, or its deadline."""
    if limit := duration((metadata.get("annotations") or {}).get(TIME_LIMIT)):
        return limit
    seconds = spec.get("activeDeadlineSeconds")
    return timedelta(seconds=seconds) if isinstance(seconds, int) and 0 < seconds < MOST_SECONDS else None


def _started(status: Object) -> bool:
    """Whether a container runs or ran: phase Pending lasts through image pulls and init containers."""
    if status.get("phase") == "Running":
        return True
    kinds = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    containers = (item for kind in kinds for item in status.get(kind) or ())
    states = (item.get(when) or {} for item in containers for when in ("state", "lastState"))
    return any("running" in state or "terminated" in state for state in states)
