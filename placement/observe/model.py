"""The inputs of a decision: nodes and pods, reduced to the fields that decisions use.

The kind of a job has no effect: the webhook writes everything that the program needs into the pod templates
of the job (`contract.keys`). A pod without a placement annotation, such as a launcher, is admitted together
with the job's workers, and the scheduler chooses its node.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Final, NamedTuple, Self
from weakref import WeakValueDictionary

from contract import keys
from contract.placement import Placement
from placement import messages

# The name of the program's Deployment and Lease, and of the component in its Events.
COMPONENT: Final = "ultraserver-placement"
# The label that every namespace has, with the namespace's name as its value.
NAMESPACE: Final = "kubernetes.io/metadata.name"
# A host port is stored as a resource whose name is this text and the port. A pod with more host ports than
# `MOST_PORTS` has one resource with only this text as its name: no later pod with host ports gets its node.
PORT: Final = "host port"
# Labels by which the table's anti-affinity selects pods; they are stored for every pod.
MARKS: Final = frozenset(
    {keys.JOB, keys.BLOCK, keys.LOOSE, keys.TRAINING + "job-role", keys.TRAINING + "job-name"}
)
# The label that stands for labels that are not stored. No real label has an empty name.
HIDDEN: Final = ""
# Operators of selectors that select only objects that have the label.
POSITIVE: Final = ("In", "Exists")
# The effects of taints that keep pods off a node.
HARD_EFFECTS: Final = ("NoSchedule", "NoExecute")


class UnitKind(NamedTuple):
    """The properties of the units that a node label forms."""

    nodes: int  # the number of nodes of a unit
    most: int = 0  # the maximum number of nodes of a unit for one job; 0 if a job gets the whole unit
    shared: bool = False  # whether several jobs may share a unit
    resource: str = keys.NEURON  # the resource that jobs request on the nodes of a unit

    @property
    def max_nodes(self) -> int:
        """The maximum number of nodes of a unit that a job can have."""
        return self.most or self.nodes

    @property
    def is_divisible(self) -> bool:
        """Whether a job may have fewer nodes than the unit has."""
        return self.most > 0

    def takes(self, size: int) -> bool:
        """Returns whether a block of ``size`` workers can have a unit of this kind."""
        return 1 <= size <= self.most if self.most else size == self.nodes

    def exclusive_nodes(self, size: int) -> int:
        """Returns how many nodes a block needs for itself; 1 if it can share its nodes with other blocks."""
        if self.shared:
            return 1
        return max(size, 2) if self.most else size


UNKNOWN_KIND: Final = UnitKind(0)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A number of whole units that jobs of a team's namespaces use, or that are kept free for these jobs."""

    namespaces: tuple[str, ...]  # the team's namespaces, as globs
    unit: str  # the units' node label
    count: int  # the number of units
    preempts: bool = False  # whether jobs of these namespaces may preempt jobs of lower priority

    @property
    def team(self) -> str:
        """The namespaces as a text for people."""
        return ", ".join(self.namespaces)

    def includes(self, namespace: str) -> bool:
        """Returns whether the guarantee applies to jobs of a namespace."""
        return any(fnmatchcase(namespace, glob) for glob in self.namespaces)


@dataclass(frozen=True)
class UnitSettings:
    """The kinds of units by node label, the device resources that jobs request, and the guarantees."""

    kinds: Mapping[str, UnitKind]
    devices: frozenset[str] = keys.DEVICES
    guarantees: tuple[Guarantee, ...] = ()

    def __or__(self, other: Self) -> Self:
        """Returns the union. ``other`` replaces the guarantees, and the kind of each label that both have."""
        kinds = {**self.kinds, **other.kinds}
        return type(self)(kinds, self.devices | other.devices, other.guarantees)

    def kind_of_placement(self, placement: Placement) -> UnitKind:
        """Returns the kind of a job's units; for an unknown label, a unit has as many nodes as a block."""
        return self.kinds.get(placement.unit, UnitKind(placement.size))

    def kind_of_label(self, key: str) -> UnitKind:
        """Returns the kind of the units of a label; for an unknown label, a kind without nodes."""
        return self.kinds.get(key, UNKNOWN_KIND)

    def preempts(self, namespace: str) -> bool:
        """Returns whether jobs of a namespace may preempt jobs of lower priority."""
        # For each label, the first row that includes the namespace applies.
        first_rows = {row.unit: row for row in reversed(self.guarantees) if row.includes(namespace)}
        return any(row.preempts for row in first_rows.values())

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of units that have several nodes, the label of the largest units first."""
        sizes = {key: kind.nodes for key, kind in self.kinds.items() if kind.nodes > 1}
        return tuple(sorted(sizes, key=lambda key: (-sizes[key], key)))


# The units of the packaged table.
UNITS: Final = UnitSettings(
    {keys.SERVER_4: UnitKind(4), keys.SERVER_2: UnitKind(2), keys.HOSTNAME: UnitKind(1)}
)


# The maximum count of a guarantee: more units than a cluster has.
MOST_GUARANTEED: Final = 100_000
# The modes of a family that is switched off. YAML reads `off` without quotes as false.
OFF_MODES: Final = ("off", False)
# The namespace and the `Pod.job` of a job. A pod without a job label is a job of its own, with ``/pod/NAME``
# in place of `Pod.job`. A claim that holds a node has ``/claim/NAME`` there.
JobKey = tuple[str, str]
# For each node that has holders: the holders, each with the number of nodes that it needs for itself.
Holders = Mapping[str, Mapping[JobKey, int]]
# Why an object cannot be read or compared: a key of `placement.messages.FAULTS`, and the values for the text.
Fault = tuple[str | int, ...]
# Attributes of devices with their values. The key is a domain and a name, or ``driver``.
Conditions = frozenset[tuple[str, str | int | bool]]


class EndedWorker(NamedTuple):
    """A worker that has ended: its job, and its number in the job."""

    job: JobKey
    number: int


def units_of(
    families: Iterable[Mapping[str, Any]], guarantees: Iterable[Mapping[str, Any]] = ()
) -> UnitSettings:
    """Returns the units that a rule table and the packaged table define.

    Raises:
        ValueError: A family or a guarantee cannot be read.
    """
    enabled_families = [family for family in families if family.get("mode") not in OFF_MODES]
    try:
        kinds = {key: kind for family in enabled_families for key, kind in _kinds(family)}
        devices = frozenset(name for family in enabled_families for name in family.get("wholeNode", ()))
        return UNITS | UnitSettings(kinds, devices, tuple(map(_guarantee, guarantees)))
    except (AttributeError, LookupError, TypeError) as error:
        raise ValueError(messages.invalid_row(type(error).__name__, error)) from error


def _guarantee(row: Mapping[str, Any]) -> Guarantee:
    globs, unit, count = row["namespaces"], row["unit"], row["count"]
    globs = (globs,) if isinstance(globs, str) else tuple(globs)
    if not (isinstance(unit, str) and all(isinstance(glob, str) for glob in globs)):
        raise TypeError(messages.not_texts(globs, unit))
    if type(count) is not int or not 0 <= count <= MOST_GUARANTEED:
        raise TypeError(messages.invalid_count(count, MOST_GUARANTEED))
    return Guarantee(globs, unit, count, row.get("preempts") == "lower")


def _kinds(family: Mapping[str, Any]) -> Iterator[tuple[str, UnitKind]]:
    """Yields the label and the kind of each unit of a family.

    Several jobs may share a divisible unit that has shapes, if none of these shapes keeps other jobs off it.
    """
    units = sorted(family.get("units") or (), key=lambda unit: unit["nodes"])
    rows = defaultdict[str, list[tuple[int, Mapping[str, Any]]]](list)
    for shape in family.get("shapes") or ():
        size = int(str(shape.get("nodeConfig", 1)).rpartition(" ")[2])
        unit = next((unit for unit in units if unit.get("usable", unit["nodes"]) >= size > 1), None)
        if unit:
            rows[unit["label"]].append((size, shape))
    for unit in units:
        shapes = rows[unit["label"]]
        nodes, usable = unit["nodes"], unit.get("usable", unit["nodes"])
        is_fixed = usable == nodes and all(size == shape["nodeConfig"] == usable for size, shape in shapes)
        is_shared = bool(shapes) and all(shape.get("apart", "none") == "none" for _, shape in shapes)
        resource = next(iter(family.get("wholeNode") or ()), keys.NEURON)
        most = 0 if is_fixed else usable
        yield unit["label"], UnitKind(nodes, most, is_shared and not is_fixed, resource)


def is_jobless(job: JobKey) -> bool:
    """Returns whether a key belongs to a pod that is in no job, or to a claim, and not to a job."""
    return job[1].startswith("/")


class Taint(NamedTuple):
    """A taint of a node, with the fields of the API."""

    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    """A toleration of a pod, with the fields of the API; a missing field is empty."""

    key: str
    operator: str
    value: str
    effect: str


class Expression(NamedTuple):
    """A requirement of a selector on one label or field, with the fields of the API."""

    key: str
    operator: str
    values: tuple[str, ...]


class Term(NamedTuple):
    """A node selector term: a node must meet all its expressions."""

    labels: tuple[Expression, ...] = ()
    fields: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Apart:
    """A term of a pod's required anti-affinity. `placement.observe.read` uses one object for equal terms."""

    key: str  # the topology key, a node label: the pod avoids nodes with the value of a selected pod's node
    labels: tuple[Expression, ...] | None  # the label selector; None if the term selects no pods
    # The namespaces of the pods that the term selects. Without `namespaces` and `spaces`, the term selects
    # pods in the namespace of the pod that has the term.
    namespaces: frozenset[str] = frozenset()
    # The selector of further namespaces, reduced to conditions on their names; None without a selector.
    spaces: tuple[Expression, ...] | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """A device that pods can claim."""

    key: str  # its unique name; also the name of a resource by which the program counts it as used
    attributes: Conditions  # its attributes with their values, and its driver
    resources: tuple[str, ...] = ()  # the extended resources that it also serves
    tainted: bool = False  # whether it has a taint that keeps pods off it; tolerations are ignored


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A request of a pod's device claim for devices of one node."""

    name: str  # the claim's template, or another text for messages
    conditions: Conditions  # the conditions that each device must meet
    count: int  # the number of devices; 0 for all devices that meet the conditions


def are_neuron(conditions: Iterable[tuple[str, str | int | bool]]) -> bool:
    """Returns whether devices that meet all conditions are devices of the Neuron driver."""
    drivers = [value for key, value in conditions if key == "driver"]
    return (
        keys.DRIVER in drivers if drivers else any(key.startswith(f"{keys.DRIVER}/") for key, _ in conditions)
    )


@dataclass(frozen=True, slots=True)
class Node:
    """A node."""

    name: str
    labels: Mapping[str, str]  # all labels, because a selector may name any label
    ready: bool = True
    cordoned: bool = False
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, int] = field(default_factory=dict)  # amounts in thousandths, by resource
    devices: tuple[Device, ...] = ()  # the devices that pods can claim

    @property
    def has_driver(self) -> bool:
        """Whether the node has devices of the Neuron DRA driver."""
        return any(("driver", keys.DRIVER) in device.attributes for device in self.devices)

    def unit(self, key: str) -> str | None:
        """Returns the value of a topology label; None if the node is in no working unit."""
        value = self.labels.get(key)
        if not value or value == keys.NO_SERVER:
            return None
        return None if self.labels.get(keys.NODE_IDS.get(key, "")) == keys.NO_NODE else value


@dataclass(frozen=True, eq=False)
class Demand:
    """What a pod demands from its node. `intern` returns one object for equal demands."""

    selector: Mapping[str, str] = field(default_factory=dict)
    terms: tuple[Term, ...] | None = None  # required node affinity, or None: a node must meet one term
    tolerations: tuple[Toleration, ...] = ()
    requests: Mapping[str, int] = field(default_factory=dict)  # by resource, in thousandths, without ``pods``
    claims: tuple[DeviceRequest, ...] = ()  # from its device claims; `placement.decide.members` adds them

    def uses(self, devices: frozenset[str]) -> bool:
        """Returns whether the pod requests one of these resources or claims Neuron devices."""
        if not devices.isdisjoint(self.requests) and any(map(self.requests.get, devices)):
            return True
        return bool(self.claims) and any(are_neuron(request.conditions) for request in self.claims)

    @cached_property
    def cost(self) -> int:
        """The cost of a comparison with a node, as a number of conditions."""
        terms = self.terms or ()
        expressions = [item for term in terms for item in (*term.labels, *term.fields)]
        values = sum(len(item.values) for item in expressions)
        claims = sum(len(request.conditions) for request in self.claims)
        # Each request is compared with all other requests; the factor was measured.
        claims += 4 * len(self.claims) ** 2
        return len(self.selector) + len(self.tolerations) + len(terms) + len(expressions) + values + claims


_demands: WeakValueDictionary[tuple[object, ...], Demand] = WeakValueDictionary()


def intern(demand: Demand) -> Demand:
    """Returns the one object for all demands that equal this demand. It exists while a pod refers to it."""
    selector, requests = (tuple(sorted(part.items())) for part in (demand.selector, demand.requests))
    key = selector, demand.terms, demand.tolerations, requests, demand.claims
    return _demands.setdefault(key, demand)


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that has not ended, as it was read. `placement.decide.members.Member` has the trusted facts."""

    namespace: str
    name: str
    uid: str
    job: str = ""  # its job label, with its group in a LeaderWorkerSet; empty if it has no valid job label
    loose: bool = False  # whether it has the label of loose pods, which keeps jobs off its UltraServer
    placement: Placement | None = None  # its placement annotation; None if it is missing or cannot be read
    number: int = 0  # its number among the workers of the job
    fault: Fault | None = None  # why its fields cannot be read or compared with nodes; None if they can
    gates: tuple[str, ...] = ()
    demand: Demand = field(default_factory=Demand)
    claims: tuple[tuple[str, str], ...] = ()  # by ``resourceClaims`` entry of a worker: template, claim
    # For a worker without a fault, and for a pod that has a node and few labels: all labels. For other pods:
    # only the `MARKS`, with `HIDDEN` if the pod has a node.
    labels: Mapping[str, str] = field(default_factory=dict, compare=False)
    apart: tuple[Apart, ...] = ()  # its required anti-affinity
    node: str = ""  # its node (without a placement annotation, it may be nominated only); or empty
    admitted_at: datetime | None = None  # when the program pinned it; None if it has not
    plan: str = ""  # the planned units of other blocks, as `placement.act.write.opened_value` writes them
    started: bool = False  # whether any container ever ran
    deleting: bool = False
    priority: int = 0
    on_failure: str = ""  # what to do if a node of the job fails: "move" or "restart"; if empty, wait
    limit: timedelta | None = None  # its maximum run time, from its annotation or deadline; or None
    created: datetime = datetime.min  # noqa: DTZ901 - every reader replaces it
    gated: bool = field(init=False, compare=False)  # whether it waits for the program
    key: JobKey = field(init=False, compare=False)  # its job; for a pod without a job, the pod itself
    pin: str | None = field(init=False, compare=False)  # the unit to which it was pinned; or None

    def __post_init__(self) -> None:
        """Computes once what every decision needs."""
        object.__setattr__(self, "gated", keys.GATE in self.gates)
        pin = self.demand.selector.get(self.placement.unit) if self.admitted_at and self.placement else None
        object.__setattr__(self, "pin", pin)
        object.__setattr__(self, "key", (self.namespace, self.job or f"/pod/{self.name}"))

    @property
    def block(self) -> int:
        """The number of the block to which the pod belongs: pods with consecutive numbers share a block."""
        return self.number // self.placement.size if self.placement else 0
