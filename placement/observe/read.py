"""Reads nodes and pods of the API server, and stores only the fields that decisions need.

Users and other programs write the labels and annotations of pods, so these can have any content. If a worker
cannot be read, or has too many conditions, annotations, labels, claims or gates (`placement.limits`),
`Pod.fault` has the reason, and the job of the worker waits.
For a pod without a placement annotation, only a few fields are stored, so that a large pod costs little.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from typing import Any, Final
from weakref import WeakValueDictionary

from common.quantities import MAX_SECONDS, amounts, requests
from common.times import duration, time_of
from contract import placement as contract
from contract.keys import DEVICES, GATE, JOB, LOOSE, ON_NODE_FAILURE, OPENED, TIME_LIMIT
from contract.placement import ContractError, Placement, Placer
from kube.api import Object
from placement import limits, messages
from placement.observe.model import (
    HIDDEN,
    MARKS,
    NAMESPACE,
    PORT,
    POSITIVE,
    Apart,
    Demand,
    EndedWorker,
    Expression,
    Fault,
    Node,
    Pod,
    Taint,
    Term,
    Toleration,
    intern,
)

ENDED_PHASES: Final = ("Succeeded", "Failed")
"""The phases of pods that no longer use their nodes."""

# The queries of two lists of pods: all pods that have not ended, and the ended pods with a job label.
LIVE_QUERY: Final = "fieldSelector=status.phase!%3DSucceeded%2Cstatus.phase!%3DFailed"
ENDED_QUERY: Final = f"labelSelector={JOB}&fieldSelector=status.phase!%3DPending%2Cstatus.phase!%3DRunning"

FAILURE_CHOICES: Final = ("move", "restart")
"""The values of the annotation `ON_NODE_FAILURE`, except ``wait``, which is the default."""

_EXPRESSION_KEYS: Final = ("matchExpressions", "matchFields")
"""The keys of a node selector term that have expressions."""

CORE_RESOURCES: Final = DEVICES | {"cpu", "memory", "ephemeral-storage"}
"""The only resources, except host ports, that are stored for a pod that requests too many resources."""

_apart_terms: WeakValueDictionary[tuple[Any, ...], Apart] = WeakValueDictionary()


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
    if status.get("phase") in ENDED_PHASES:
        return None
    gates = tuple(gate.get("name", "") for gate in spec.get("schedulingGates") or ())
    labels: Mapping[str, str] = metadata.get("labels") or {}
    placement, number, fault = None, 0, None
    try:
        placement, number = read_placement({"metadata": metadata, "spec": spec})
        fault = _limit_fault(spec, metadata, gates) if placement else None
    except ContractError as error:
        fault = "placement", str(error)
    claims = spec.get("resourceClaims") or () if placement else ()
    # A Pod without a placement annotation holds its nominated node, too: kube-scheduler frees it for the Pod.
    node = spec.get("nodeName") or (not placement and status.get("nominatedNodeName")) or ""
    annotations = metadata.get("annotations") or {}
    admitted_at, plan = _pin_time_and_plan(annotations, placement, spec)
    choice = annotations.get(ON_NODE_FAILURE)
    max_apart = limits.MOST_TEXT if placement else limits.MOST_APART_TEXT
    if len(gates) > limits.MOST_GATES:
        fault = "gates", len(gates)
    return Pod(
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        job=contract.job_id(metadata, placement.group if placement else ""),
        loose=LOOSE in labels,
        placement=placement,
        number=number,
        fault=fault,
        gates=gates[: limits.MOST_GATES],
        demand=read_demand(spec, status, with_conditions=bool(placement) and not fault),
        claims=tuple(_claims(claims[: limits.MOST_CLAIMS], status)),
        labels=labels if placement and not fault else _stored_labels(labels, has_node=bool(node)),
        # The anti-affinity of a pod with neither a node nor a placement annotation has no effect yet.
        apart=read_apart(spec, max_apart) if placement or node else (),
        node=node,
        admitted_at=admitted_at,
        plan=plan,
        started=_has_started(status),
        deleting=bool(metadata.get("deletionTimestamp")),
        priority=spec.get("priority") or 0,
        on_failure=choice if choice in FAILURE_CHOICES else "",
        limit=_time_limit(annotations, spec) if placement else None,
        created=time_of(metadata.get("creationTimestamp")) or datetime.fromtimestamp(0, UTC),
    )


def read_ended(raw: Object) -> EndedWorker | None:
    """Returns the job and number of a worker that has ended; None for other pods and for deleted pods."""
    metadata = raw.get("metadata") or {}
    if (raw.get("status") or {}).get("phase") not in ENDED_PHASES or metadata.get("deletionTimestamp"):
        return None
    try:
        placement, number = read_placement(raw)
    except ContractError:
        return None
    job = contract.job_id(metadata, placement.group) if placement else ""
    return EndedWorker((metadata.get("namespace", ""), job), number) if job else None


def read_placement(raw: Object) -> tuple[Placement | None, int]:
    """Returns the placement annotation and number of a pod; None and 0 without an annotation.

    Raises:
        ContractError: The annotation cannot be read, or whole-job admission needs a number and there is none.
    """
    placement = contract.read(raw.get("metadata") or {})
    if placement is None:
        return None, 0
    try:
        number = placement.number(raw)
    except ContractError:
        if placement.placer is Placer.WHOLE_JOB:
            raise
        number = None
    if number is None and placement.placer is Placer.WHOLE_JOB:
        raise ContractError(messages.NO_INDEX)
    # Without whole-job admission, the unit of a pod does not depend on its number.
    return placement, number or 0


def read_demand(spec: Object, status: Object | None = None, *, with_conditions: bool = True) -> Demand:
    """Returns the demand of a pod on a node; pods with equal demands share one object.

    Without ``with_conditions``, the demand has no node selector, no node affinity and no tolerations.
    """
    conditions_spec = spec if with_conditions else {}
    required = _required(conditions_spec, "nodeAffinity")
    terms = None if required is None else tuple(map(_term, required.get("nodeSelectorTerms") or ()))
    tolerations = tuple(
        Toleration(*(item.get(key) or "" for key in ("key", "operator", "value", "effect")))
        for item in conditions_spec.get("tolerations") or ()
    )
    resources = {name: amount for name, amount in requests(spec, status).items() if amount}
    if len(resources) > limits.MOST_RESOURCES:  # no node has this many resources
        resources = {name: amount for name, amount in resources.items() if name in CORE_RESOURCES}
    resources |= host_ports(spec)
    return intern(Demand(conditions_spec.get("nodeSelector") or {}, terms, tolerations, resources))


def read_apart(spec: Object, max_chars: int = limits.MOST_TEXT) -> tuple[Apart, ...]:
    """Returns the terms of a pod's required anti-affinity.

    If the terms have more than ``max_chars`` characters, each term is reduced to at most one label, and so
    may select further pods. If there are too many terms, each is replaced by a term that selects all pods.
    """
    terms = _required(spec, "podAntiAffinity") or ()
    if not terms:
        return ()
    if len(terms) > limits.MOST_APART:
        keys = sorted({str(term.get("topologyKey") or "")[: limits.MOST_TEXT] for term in terms})
        return tuple(apart_of(key, (), frozenset(), ()) for key in keys[: limits.MOST_TEXT])
    is_long = len(str(terms)) > max_chars
    return tuple(dict.fromkeys(_read_term(term, is_long=is_long) for term in terms))


def _read_term(term: Object, *, is_long: bool) -> Apart:
    labels, spaces = _selector(term.get("labelSelector")), _selector(term.get("namespaceSelector"))
    namespaces = frozenset(term.get("namespaces") or ())
    spaces = spaces and tuple(item for item in spaces if item.key == NAMESPACE)
    if is_long:
        positive = (Expression(item.key, "Exists", ()) for item in labels or () if item.operator in POSITIVE)
        labels = labels and tuple(positive)[:1]
        spaces = spaces and tuple(item for item in spaces if len(item.values) == 1)[:1]
        if len(namespaces) > 1:
            namespaces, spaces = frozenset(), ()
    return apart_of(term.get("topologyKey") or "", labels, namespaces, spaces)


def apart_of(*fields: Any) -> Apart:  # noqa: ANN401 - the fields of `Apart`
    """Returns the term with these fields. Pods share the object as long as one of them refers to it."""
    return _apart_terms.setdefault(fields, Apart(*fields))


def _selector(raw: Object | None) -> tuple[Expression, ...] | None:
    """Returns the expressions of a label selector; None without a selector."""
    if raw is None:
        return None
    equal = (Expression(key, "In", (value,)) for key, value in (raw.get("matchLabels") or {}).items())
    return (*equal, *_expressions(raw.get("matchExpressions")))


def _required(spec: Object, kind: str) -> Any:  # noqa: ANN401 - a list or a map, by kind
    affinity: Object = (spec.get("affinity") or {}).get(kind) or {}
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution")


def _limit_fault(spec: Object, metadata: Object, gates: tuple[str, ...]) -> Fault | None:
    """Returns the fault if conditions, annotations, labels or claims exceed a limit; otherwise None."""
    selector, tolerations = spec.get("nodeSelector") or {}, spec.get("tolerations") or ()
    terms = (_required(spec, "nodeAffinity") or {}).get("nodeSelectorTerms") or ()
    expressions = [item for term in terms for kind in _EXPRESSION_KEYS for item in term.get(kind) or ()]
    values = [value for item in expressions for value in item.get("values") or ()]
    parts = 4 * (len(selector) + len(terms) + len(expressions) + len(tolerations)) + len(values)
    keys = (item.get("key") or "" for item in expressions)
    texts = chain(selector, selector.values(), keys, values, *(item.values() for item in tolerations))
    length = sum(len(str(text)) for text in texts)
    if parts > limits.MOST_CONDITIONS or length > limits.MOST_TEXT:
        return "conditions", parts, length
    annotations = (metadata.get("annotations") or {}).items() if GATE in gates else ()
    length = sum(len(key.encode()) + len(value.encode()) for key, value in annotations)
    if length > limits.MOST_ANNOTATIONS:
        return "annotations", length
    length = sum(len(key) + len(value or "") for key, value in (metadata.get("labels") or {}).items())
    if length > limits.MOST_TEXT:
        return "labels", length
    claims = len(spec.get("resourceClaims") or ())
    return ("claims", claims) if claims > limits.MOST_CLAIMS else None


def host_ports(spec: Object) -> dict[str, int]:
    """Returns a pod's host ports as resources that each node has once. Host IP addresses are ignored."""
    init = spec.get("initContainers") or ()
    sidecars = [container for container in init if container.get("restartPolicy") == "Always"]
    resources = {
        f"{PORT} {port['hostPort']}/{port.get('protocol') or 'TCP'}": 1000
        for container in (*(spec.get("containers") or ()), *sidecars)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }
    return resources if len(resources) <= limits.MOST_PORTS else {PORT: 1000}  # one resource for all ports


def _stored_labels(labels: Mapping[str, str], *, has_node: bool) -> Mapping[str, str]:
    """Returns all labels if few, else `MARKS` and `HIDDEN`. A pod without a node always has only `MARKS`."""
    texts = map(str, labels.items())
    are_few = len(labels) <= limits.MOST_LABELS and sum(map(len, texts)) <= limits.MOST_APART_TEXT
    if has_node and are_few:
        return _shared_labels(tuple(labels.items()))
    marked_labels = {key: value for key, value in labels.items() if key in MARKS}
    return marked_labels | {HIDDEN: ""} if has_node and not are_few else marked_labels


@lru_cache(maxsize=1024)
def _shared_labels(labels: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Returns labels as a map. Pods with equal labels share one map."""
    return dict(labels)


def _claims(claims: Iterable[Object], status: Object) -> Iterator[tuple[str, str]]:
    """Yields the template and the claim of each entry of ``resourceClaims``. A missing name is empty."""
    statuses = status.get("resourceClaimStatuses") or ()
    claims_by_entry = {item.get("name"): item.get("resourceClaimName") for item in statuses}
    for entry in claims:
        template, claim_name = entry.get("resourceClaimTemplateName") or "", entry.get("resourceClaimName")
        yield template, (claims_by_entry.get(entry.get("name")) if template else claim_name) or ""


def _term(raw: Object) -> Term:
    return Term(*(_expressions(raw.get(kind)) for kind in _EXPRESSION_KEYS))


def _expressions(items: Iterable[Object] | None) -> tuple[Expression, ...]:
    return tuple(
        Expression(item.get("key", ""), item.get("operator", ""), tuple(item.get("values") or ()))
        for item in items or ()
    )


def _pin_time_and_plan(
    annotations: Object, placement: Placement | None, spec: Object
) -> tuple[datetime | None, str]:
    """Returns the pin time (or None) and the plan of a pod, from the annotation `OPENED`.

    The program writes the pin and the annotation in one patch. So if a pod has no pin, or is not placed by
    whole-job admission, the annotation is not from the program.
    """
    selector = spec.get("nodeSelector") or {}
    if placement is None or placement.placer is not Placer.WHOLE_JOB or placement.unit not in selector:
        return None, ""
    time, _, plan = str(annotations.get(OPENED, "")).partition(" ")
    return time_of(time), plan


def _time_limit(annotations: Object, spec: Object) -> timedelta | None:
    """Returns a pod's maximum run time from its annotation, else its deadline; None if neither is valid."""
    if limit := duration(annotations.get(TIME_LIMIT)):
        return limit
    seconds = spec.get("activeDeadlineSeconds")
    return timedelta(seconds=seconds) if isinstance(seconds, int) and 0 < seconds < MAX_SECONDS else None


def _has_started(status: Object) -> bool:
    """Returns whether a container runs or ran. The phase may be Pending although an init container ran."""
    if status.get("phase") == "Running":
        return True
    status_lists = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    containers = (item for kind in status_lists for item in status.get(kind) or ())
    states = (item.get(key) or {} for item in containers for key in ("state", "lastState"))
    return any("running" in state or "terminated" in state for state in states)
