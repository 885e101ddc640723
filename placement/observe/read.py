"""Reads nodes and pods of the API server, and keeps only what a decision needs.

Users and other programs write labels and annotations of pods, so these can have any content. If they cannot
be read, or would cost too much, the reason becomes the pod's `fault`, and its job waits. For a pod that
takes no node for a job, only its identity and its resources are stored, so that a large pod costs nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from typing import Any, Final
from weakref import WeakValueDictionary

from common.quantities import MAX_SECONDS, amounts, requests
from common.times import duration, time_of
from contract import place as contract
from contract.keys import DEVICES, GATE, JOB, LOOSE, ON_NODE_FAILURE, OPENED, TIME_LIMIT
from contract.place import ContractError, Place, Placer
from kube.api import Object
from placement import messages
from placement.limits import (
    MOST_ANNOTATIONS,
    MOST_APART,
    MOST_APART_TEXT,
    MOST_CLAIMS,
    MOST_CONDITIONS,
    MOST_GATES,
    MOST_LABELS,
    MOST_PORTS,
    MOST_RESOURCES,
    MOST_TEXT,
)
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
    shared,
)

ENDED: Final = ("Succeeded", "Failed")
"""Phases of pods that no longer hold anything."""

# The queries of two lists of pods: those that have not ended, and those of jobs that have ended.
LIVE: Final = "fieldSelector=status.phase!%3DSucceeded%2Cstatus.phase!%3DFailed"
OVER: Final = f"labelSelector={JOB}&fieldSelector=status.phase!%3DPending%2Cstatus.phase!%3DRunning"

CHOICES: Final = ("move", "restart")
"""What a job's author can choose for the failure of a node, instead of waiting."""

_KINDS: Final = ("matchExpressions", "matchFields")
"""The keys with expressions in a node selector term."""

CORE: Final = DEVICES | {"cpu", "memory", "ephemeral-storage"}
"""Resources that are stored for a pod that requests more resources than any node has."""

_aparts: WeakValueDictionary[tuple[Any, ...], Apart] = WeakValueDictionary()


def read_node(raw: Object) -> Node:
    """Returns a node."""
    metadata, spec, status = (raw.get(part) or {} for part in ("metadata", "spec", "status"))
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


def read_pod(raw: Object) -> Pod | None:
    """Returns a pod; None if it has ended."""
    metadata, spec, status = (raw.get(part) or {} for part in ("metadata", "spec", "status"))
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
    # The node that kube-scheduler keeps free for this Pod, after it has preempted others.
    node = spec.get("nodeName") or (not place and status.get("nominatedNodeName")) or ""
    annotations = metadata.get("annotations") or {}
    opened, plan = _opened(annotations, place, spec)
    choice = annotations.get(ON_NODE_FAILURE)
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
        # Without a node and an annotation, the anti-affinity of a pod has no effect yet.
        apart=read_apart(spec, MOST_TEXT if place else MOST_APART_TEXT) if place or node else (),
        node=node,
        opened=opened,
        plan=plan,
        started=_started(status),
        deleting=bool(metadata.get("deletionTimestamp")),
        priority=spec.get("priority") or 0,
        on_failure=choice if choice in CHOICES else "",
        limit=_limit(annotations, spec) if place else None,
        created=time_of(metadata.get("creationTimestamp")) or datetime.fromtimestamp(0, UTC),
    )


def read_ended(raw: Object) -> Ended | None:
    """Returns the job and number of a worker that has ended; None for other pods and deleted ones."""
    metadata = raw.get("metadata") or {}
    if (raw.get("status") or {}).get("phase") not in ENDED or metadata.get("deletionTimestamp"):
        return None
    try:
        place, number = read_place(raw)
    except ContractError:
        return None
    job = contract.job(metadata, place.group) if place else ""
    return Ended((metadata.get("namespace", ""), job), number) if job else None


def read_place(raw: Object) -> tuple[Place | None, int]:
    """Returns the placement annotation and number of a pod; None and 0 if it takes no node of a job.

    Raises:
        ContractError: The annotation cannot be read.
    """
    place = contract.read(raw.get("metadata") or {})
    if place is None:
        return None, 0
    try:
        number = place.number(raw)
    except ContractError:
        if place.placer is Placer.WHOLE_JOB:
            raise
        number = None
    if number is None and place.placer is Placer.WHOLE_JOB:
        raise ContractError(messages.NO_INDEX)
    return place, number or 0  # without whole-job admission, the number does not change which unit it holds


def read_demand(spec: Object, status: Object | None = None, *, conditions: bool = True) -> Demand:
    """Returns the demand of a pod on a node; pods with equal demands share one object.

    Without ``conditions``, its node selector, node affinity and tolerations are not stored.
    """
    selecting = spec if conditions else {}
    required = _required(selecting, "nodeAffinity")
    terms = None if required is None else tuple(map(_term, required.get("nodeSelectorTerms") or ()))
    tolerations = tuple(
        Toleration(*(item.get(key) or "" for key in ("key", "operator", "value", "effect")))
        for item in selecting.get("tolerations") or ()
    )
    resources = {name: amount for name, amount in requests(spec, status).items() if amount}
    if len(resources) > MOST_RESOURCES:  # no node has this many resources
        resources = {name: amount for name, amount in resources.items() if name in CORE}
    resources |= ports(spec)
    return shared(Demand(selecting.get("nodeSelector") or {}, terms, tolerations, resources))


def read_apart(spec: Object, most: int = MOST_TEXT) -> tuple[Apart, ...]:
    """Returns the terms of a pod's required anti-affinity.

    If they have more than ``most`` characters, each counts as selecting all pods with one of its labels, in
    the same namespaces or more. If there are too many terms, each counts as selecting all pods.
    """
    terms = _required(spec, "podAntiAffinity") or ()
    if not terms:
        return ()
    if len(terms) > MOST_APART:
        keys = sorted({str(term.get("topologyKey") or "")[:MOST_TEXT] for term in terms})
        return tuple(apart_of(key, (), frozenset(), ()) for key in keys[:MOST_TEXT])
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
    return apart_of(term.get("topologyKey") or "", labels, names, spaces)


def apart_of(*fields: Any) -> Apart:  # noqa: ANN401 - the fields of `Apart`
    """Returns a term; equal terms are one object, for as long as a pod has it."""
    return _aparts.setdefault(fields, Apart(*fields))


def _selector(raw: Object | None) -> tuple[Expression, ...] | None:
    """Returns a label selector; None if there is none, which selects nothing."""
    if raw is None:
        return None
    equal = (Expression(key, "In", (value,)) for key, value in (raw.get("matchLabels") or {}).items())
    return (*equal, *_expressions(raw.get("matchExpressions")))


def _required(spec: Object, kind: str) -> Any:  # noqa: ANN401 - a list or a map, by kind
    affinity: Object = (spec.get("affinity") or {}).get(kind) or {}
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution")


def _excess(spec: Object, metadata: Object, gates: tuple[str, ...]) -> Fault | None:
    """Returns what makes a worker too expensive to compare with nodes, or leaves no room for its pin."""
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
    """Returns the host ports of a pod, as resources of which a node has one each; addresses are ignored."""
    init = spec.get("initContainers") or ()
    sidecars = [container for container in init if container.get("restartPolicy") == "Always"]
    resources = {
        f"{PORT} {port['hostPort']}/{port.get('protocol') or 'TCP'}": 1000
        for container in (*(spec.get("containers") or ()), *sidecars)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }
    return resources if len(resources) <= MOST_PORTS else {PORT: 1000}


def _kept(labels: Mapping[str, str], *, there: bool) -> Mapping[str, str]:
    """Returns the labels by which anti-affinity may select a pod: all, if it has a node and few labels."""
    few = len(labels) <= MOST_LABELS and sum(map(len, map(str, labels.items()))) <= MOST_APART_TEXT
    if there and few:
        return _equal(tuple(labels.items()))
    marks = {key: value for key, value in labels.items() if key in MARKS}
    return marks | {HIDDEN: ""} if there and not few else marks


@lru_cache(maxsize=1024)
def _equal(labels: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Returns labels as a map; pods with equal labels share one object."""
    return dict(labels)


def _entries(claims: Iterable[Object], status: Object) -> Iterator[tuple[str, str]]:
    """Yields the template and the claim of each entry; the status names the claim of a template."""
    statuses = status.get("resourceClaimStatuses") or ()
    created = {item.get("name"): item.get("resourceClaimName") for item in statuses}
    for entry in claims:
        template, own = entry.get("resourceClaimTemplateName") or "", entry.get("resourceClaimName")
        yield template, (created.get(entry.get("name")) if template else own) or ""


def _term(raw: Object) -> Term:
    return Term(*(_expressions(raw.get(kind)) for kind in _KINDS))


def _expressions(items: Iterable[Object] | None) -> tuple[Expression, ...]:
    return tuple(
        Expression(item.get("key", ""), item.get("operator", ""), tuple(item.get("values") or ()))
        for item in items or ()
    )


def _opened(annotations: Object, place: Place | None, spec: Object) -> tuple[datetime | None, str]:
    """Returns when the program pinned a pod, and the plan.

    The program writes pin and note in one patch, so one without the other is not from it. Nor is a note on a
    pod that another placer places.
    """
    if (
        place is None
        or place.placer is not Placer.WHOLE_JOB
        or place.unit not in (spec.get("nodeSelector") or {})
    ):
        return None, ""
    time, _, plan = str(annotations.get(OPENED, "")).partition(" ")
    return time_of(time), plan


def _limit(annotations: Object, spec: Object) -> timedelta | None:
    """Returns the maximum run time of a pod: that of the annotation or, without one, its deadline."""
    if limit := duration(annotations.get(TIME_LIMIT)):
        return limit
    seconds = spec.get("activeDeadlineSeconds")
    return timedelta(seconds=seconds) if isinstance(seconds, int) and 0 < seconds < MAX_SECONDS else None


def _started(status: Object) -> bool:
    """Returns whether a container runs or ran: the phase stays Pending during image pulls, for example."""
    if status.get("phase") == "Running":
        return True
    kinds = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    containers = (item for kind in kinds for item in status.get(kind) or ())
    states = (item.get(when) or {} for item in containers for when in ("state", "lastState"))
    return any("running" in state or "terminated" in state for state in states)
