"""The inputs of a decision: nodes and pods, with only the fields that matter.

The program knows no kinds of job: everything that it needs is on the pods (`contract.keys`), because
admission writes it into the job's pod templates. A pod without a placement annotation, such as a launcher,
is admitted together with the job's workers, and the scheduler chooses its node.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated, Any, Final, NamedTuple, Self
from weakref import WeakValueDictionary

from contract import keys
from contract.place import Place
from placement import messages

# The name of the program: of its Lease, of its Deployment, and in its Events.
COMPONENT: Final = "ultraserver-placement"
# The label that every namespace has, with its name.
NAMESPACE: Final = "kubernetes.io/metadata.name"
# The name of a resource begins with this for each host port; without a port, it is for too many of them.
PORT: Final = "host port"
# Labels by which the table's anti-affinity selects pods; they are stored for every pod.
MARKS: Final = frozenset(
    {keys.JOB, keys.BLOCK, keys.LOOSE, keys.TRAINING + "job-role", keys.TRAINING + "job-name"}
)
# In place of labels that are not stored; no label has an empty name.
HIDDEN: Final = ""
# Operators that hold only for pods with the label.
POSITIVE: Final = ("In", "Exists")
# The effects of taints that keep pods off a node.
HARD: Final = ("NoSchedule", "NoExecute")


class Kind(NamedTuple):
    """The kind of units that a node label forms."""

    nodes: int  # number of nodes of a unit
    most: int = 0  # maximum number of nodes of a unit that a job may have; 0: a job has the whole unit
    shared: bool = False  # whether several jobs may share a unit
    resource: str = keys.NEURON  # the resource by which jobs request its nodes

    @property
    def usable(self) -> int:
        """The number of nodes of a unit that a job can have."""
        return self.most or self.nodes

    @property
    def divides(self) -> bool:
        """Whether a job may have fewer nodes of a unit than there are."""
        return self.most > 0

    def takes(self, size: int) -> bool:
        """Returns whether a number of workers of a job may share a unit."""
        return 1 <= size <= self.most if self.most else size == self.nodes

    def needed(self, size: int) -> int:
        """Returns the size with which a block holds its nodes: 1 if others may share them, more if not."""
        if self.shared:
            return 1
        return max(size, 2) if self.most else size


UNKNOWN: Final = Kind(0)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """Whole units that jobs of a team's namespaces always get."""

    namespaces: tuple[str, ...]  # the team's namespaces, as globs
    unit: str  # the units' node label
    count: int
    preempts: bool = False  # whether their jobs may end jobs of lower priority

    @property
    def team(self) -> str:
        """The namespaces, as they are shown."""
        return ", ".join(self.namespaces)

    def includes(self, namespace: str) -> bool:
        """Returns whether it is for jobs of a namespace."""
        return any(fnmatchcase(namespace, glob) for glob in self.namespaces)


@dataclass(frozen=True)
class Units:
    """Which nodes form units, by node label, the resources by which jobs request nodes, and guarantees."""

    kinds: Mapping[str, Kind]
    devices: frozenset[str] = keys.DEVICES
    guarantees: tuple[Guarantee, ...] = ()

    def __or__(self, other: Self) -> Self:
        """Returns the union, with the other's guarantees, and with its kind for a label that both have."""
        kinds = {**self.kinds, **other.kinds}
        return type(self)(kinds, self.devices | other.devices, other.guarantees)

    def kind(self, place: Place) -> Kind:
        """Returns the kind of the units of a job; of an unknown label, units as large as its blocks."""
        return self.kinds.get(place.unit, Kind(place.size))

    def of(self, key: str) -> Kind:
        """Returns the kind of the units of a label; for an unknown label, a kind without nodes."""
        return self.kinds.get(key, UNKNOWN)

    def preempts(self, namespace: str) -> bool:
        """Returns whether jobs of a namespace may end jobs of lower priority."""
        # For each label, the first row applies.
        rows = {row.unit: row for row in reversed(self.guarantees) if row.includes(namespace)}
        return any(row.preempts for row in rows.values())

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of units of several nodes, those of the largest units first."""
        sizes = {key: kind.nodes for key, kind in self.kinds.items() if kind.nodes > 1}
        return tuple(sorted(sizes, key=lambda key: (-sizes[key], key)))


# The units of the packaged table.
UNITS: Final = Units({keys.SERVER_4: Kind(4), keys.SERVER_2: Kind(2), keys.HOSTNAME: Kind(1)})


class _Values:
    """Describes `Fault` to pydantic, which reads snapshots: it does not know the unpacked tuple."""

    def __get_pydantic_core_schema__(self, _source: object, schema_of: Callable[[object], Any]) -> Any:  # noqa: ANN401 - pydantic's
        return schema_of(tuple[str | int, ...])


# More units than a cluster has.
MOST_GUARANTEED: Final = 100_000
# The modes of a family that is switched off; YAML reads a bare off as false.
OFF: Final = ("off", False)
# Namespace and job label of a job; a pod without the label counts as a job with the name ``pod/NAME``.
JobKey = tuple[str, str]
# For each node with holders: the jobs, and the size of the unit that each needs for itself.
Holders = Mapping[str, Mapping[JobKey, int]]
# Why something cannot be read or compared: a key of `placement.messages.FAULTS`, and the values for its text.
Fault = Annotated[tuple[str, *tuple[object, ...]], _Values()]
# Attributes of devices, by domain and name, and ``driver``; each with its value.
Conditions = frozenset[tuple[str, str | int | bool]]


class Ended(NamedTuple):
    """A worker that has ended: its job, and its number in it."""

    job: JobKey
    number: int


def units_of(families: Iterable[Mapping[str, Any]], guarantees: Iterable[Mapping[str, Any]] = ()) -> Units:
    """Returns the units of families and guarantees of a rule table, and those of the packaged table.

    Raises:
        ValueError: A family or a guarantee cannot be read.
    """
    on = [family for family in families if family.get("mode") not in OFF]
    try:
        kinds = {key: kind for family in on for key, kind in _kinds(family)}
        devices = frozenset(name for family in on for name in family.get("wholeNode", ()))
        return UNITS | Units(kinds, devices, tuple(map(_guarantee, guarantees)))
    except (AttributeError, LookupError, TypeError) as error:
        raise ValueError(messages.invalid_row(error)) from error


def _guarantee(row: Mapping[str, Any]) -> Guarantee:
    globs, unit, count = row["namespaces"], row["unit"], row["count"]
    globs = (globs,) if isinstance(globs, str) else tuple(globs)
    if not (isinstance(unit, str) and all(isinstance(glob, str) for glob in globs)):
        raise TypeError(messages.not_texts(globs, unit))
    if type(count) is not int or not 0 <= count <= MOST_GUARANTEED:
        raise TypeError(messages.invalid_count(count, MOST_GUARANTEED))
    return Guarantee(globs, unit, count, row.get("preempts") == "lower")


def _kinds(family: Mapping[str, Any]) -> Iterator[tuple[str, Kind]]:
    """Yields the units of a family; several jobs may share one if no shape keeps other jobs off it."""
    units = sorted(family.get("units") or (), key=lambda unit: unit["nodes"])
    rows = defaultdict[str, list[tuple[int, Mapping[str, Any]]]](list)
    for shape in family.get("shapes") or ():
        most = int(str(shape.get("nodeConfig", 1)).rpartition(" ")[2])
        unit = next((unit for unit in units if unit.get("usable", unit["nodes"]) >= most > 1), None)
        if unit:
            rows[unit["label"]].append((most, shape))
    for unit in units:
        of = rows[unit["label"]]
        usable = unit.get("usable", unit["nodes"])
        fixed = usable == unit["nodes"] and all(most == shape["nodeConfig"] == usable for most, shape in of)
        shared = bool(of) and all(shape.get("apart", "none") == "none" for _, shape in of)
        resource = next(iter(family.get("wholeNode") or ()), keys.NEURON)
        yield unit["label"], Kind(unit["nodes"], 0 if fixed else usable, shared and not fixed, resource)


def is_pod(job: JobKey) -> bool:
    """Returns whether a key is that of a pod without a job label, or of a claim: no label has a slash."""
    return job[1].startswith(("pod/", "claim/"))


class Taint(NamedTuple):
    """A taint of a node; fields as in the API."""

    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    """A toleration of a pod; fields as in the API, empty if missing."""

    key: str
    operator: str
    value: str
    effect: str


class Expression(NamedTuple):
    """A requirement on one label (or field) of a node; fields as in the API."""

    key: str
    operator: str
    values: tuple[str, ...]


class Term(NamedTuple):
    """A node selector term: all of its expressions must hold."""

    labels: tuple[Expression, ...] = ()
    fields: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Apart:
    """A term of a pod's required anti-affinity. `placement.observe.read` uses one object for equal terms."""

    key: str  # the topology key: the pod keeps off nodes with the same value of this label
    labels: tuple[Expression, ...] | None  # the label selector; None if the term selects no pods
    # The namespaces of these pods; empty if only `spaces` selects them.
    namespaces: frozenset[str] = frozenset()
    # The namespace selector, reduced to conditions on names; None if only `namespaces` selects them.
    spaces: tuple[Expression, ...] | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """A device that pods can claim."""

    key: str  # its unique name, which is also the resource by which it counts as used
    attributes: Conditions  # its attributes with their values, and its driver
    resources: tuple[str, ...] = ()  # the extended resources that it also serves
    tainted: bool = False  # whether no pod gets it


@dataclass(frozen=True, slots=True)
class Ask:
    """A request of a pod's claim for devices of its node."""

    name: str  # the name of the claim's template, for messages
    conditions: Conditions  # the conditions that each device must meet
    count: int  # the number of devices; 0 for all


def are_neuron(conditions: Iterable[tuple[str, str | int | bool]]) -> bool:
    """Returns whether devices that meet all conditions are the Neuron driver's, by name or attributes."""
    drivers = [value for key, value in conditions if key == "driver"]
    return (
        keys.DRIVER in drivers if drivers else any(key.startswith(f"{keys.DRIVER}/") for key, _ in conditions)
    )


@dataclass(frozen=True, slots=True)
class Node:
    """A node."""

    name: str
    labels: Mapping[str, str]  # all labels, because selectors may name any
    ready: bool = True
    cordoned: bool = False
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, int] = field(default_factory=dict)  # amounts in thousandths, by resource
    devices: tuple[Device, ...] = ()  # the devices that pods can claim

    @property
    def driven(self) -> bool:
        """Whether it has devices of the Neuron DRA driver."""
        return any(("driver", keys.DRIVER) in device.attributes for device in self.devices)

    def unit(self, key: str) -> str | None:
        """Returns the value of a topology label; None if the node is in no working unit."""
        value = self.labels.get(key)
        if (
            not value
            or value == keys.NO_SERVER
            or self.labels.get(keys.NODE_IDS.get(key, "")) == keys.NO_NODE
        ):
            return None
        return value


@dataclass(frozen=True, eq=False)
class Demand:
    """The demand of a pod on a node. `shared` returns one object for equal demands."""

    selector: Mapping[str, str] = field(default_factory=dict)
    terms: tuple[Term, ...] | None = None  # required node affinity: one term must hold; None for no affinity
    tolerations: tuple[Toleration, ...] = ()
    requests: Mapping[str, int] = field(default_factory=dict)  # in thousandths; ``pods`` not counted
    claims: tuple[Ask, ...] = ()

    def uses(self, devices: frozenset[str]) -> bool:
        """Returns whether it requests some of these devices, or claims Neuron devices."""
        if not devices.isdisjoint(self.requests) and any(map(self.requests.get, devices)):
            return True
        return bool(self.claims) and any(are_neuron(ask.conditions) for ask in self.claims)

    @cached_property
    def parts(self) -> int:
        """The cost of comparing it with a node, as a number of conditions."""
        terms = self.terms or ()
        expressions = [item for term in terms for item in (*term.labels, *term.fields)]
        values = sum(len(item.values) for item in expressions)
        claimed = sum(len(ask.conditions) for ask in self.claims)
        # Measured: each of eight requests is compared with the seven others.
        claimed += 4 * len(self.claims) ** 2
        return len(self.selector) + len(self.tolerations) + len(terms) + len(expressions) + values + claimed


_demands: WeakValueDictionary[tuple[object, ...], Demand] = WeakValueDictionary()


def shared(demand: Demand) -> Demand:
    """Returns a demand; equal demands are one object, for as long as a pod has it."""
    selector, requests = (tuple(sorted(part.items())) for part in (demand.selector, demand.requests))
    key = selector, demand.terms, demand.tolerations, requests, demand.claims
    return _demands.setdefault(key, demand)


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that has not ended, as it was read; `Member` has the facts that are believed."""

    namespace: str
    name: str
    uid: str
    job: str = ""  # its job label
    loose: bool = False  # whether it keeps jobs off its whole UltraServer
    place: Place | None = None  # its placement annotation; None if it takes no node for a job
    number: int = 0  # its number among the pods of the job that take nodes
    fault: Fault | None = None  # why the annotation cannot be read, or the pod cannot be compared with nodes
    gates: tuple[str, ...] = ()
    demand: Demand = field(default_factory=Demand)
    claims: tuple[tuple[str, str], ...] = ()  # for a worker: the template and the claim of each entry
    # All labels of a worker without a fault, and of a pod with a node and few labels; otherwise only the
    # `MARKS`.
    labels: Mapping[str, str] = field(default_factory=dict, compare=False)
    apart: tuple[Apart, ...] = ()  # its required anti-affinity
    node: str = ""  # the node to which it is bound
    opened: datetime | None = None  # when the program pinned it
    plan: str = ""  # the units of further blocks, in the form of `placement.act.write`
    started: bool = False  # whether any container ever ran; such a pod is deleted only if a node is lost
    deleting: bool = False
    priority: int = 0
    on_failure: str = ""  # what its author wants if a node fails: "move" or "restart"; empty to wait
    limit: timedelta | None = None  # its maximum run time, by annotation or deadline
    created: datetime = datetime.min  # noqa: DTZ901 - replaced by every reader; sorts first
    gated: bool = field(init=False, compare=False)  # whether it waits for the program
    key: JobKey = field(init=False, compare=False)  # its job; for a pod without a job, the pod itself
    pin: str | None = field(init=False, compare=False)  # the unit to which the program pinned it

    def __post_init__(self) -> None:
        """Computes once what every decision needs."""
        object.__setattr__(self, "gated", keys.GATE in self.gates)
        pin = self.demand.selector.get(self.place.unit) if self.opened and self.place else None
        object.__setattr__(self, "pin", pin)
        object.__setattr__(self, "key", (self.namespace, self.job or f"pod/{self.name}"))

    @property
    def block(self) -> int:
        """The number of the job's unit that it belongs to: consecutive pods share one."""
        return self.number // self.place.size if self.place else 0
