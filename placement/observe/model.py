"""What a decision is made from: nodes and pods, with only what matters of them.

The program knows no kind of job; all that it needs is on the pods (`contract.keys`), put there through the
job's pod templates. A pod without a place, such as a launcher, is opened when its job's workers are, and goes
where the scheduler likes.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final, NamedTuple, Self
from weakref import WeakValueDictionary

from contract import keys
from contract.place import Place

# The program: its Lease, its Deployment, and what its Events come from.
COMPONENT: Final = "ultraserver-placement"
# The label of each namespace that says its name.
NAMESPACE: Final = "kubernetes.io/metadata.name"
# A resource of this name stands for very many host ports, one whose name begins so for one of them.
PORT: Final = "host port"
# Labels by which the table's anti-affinity selects pods: of every pod they are kept.
MARKS: Final = frozenset(
    {keys.JOB, keys.BLOCK, keys.LOOSE, keys.TRAINING + "job-role", keys.TRAINING + "job-name"}
)
# In place of labels that are not kept: no label is called so.
HIDDEN: Final = ""
# Operators that hold of pods which have the label.
POSITIVE: Final = ("In", "Exists")
# The effects of taints that keep pods off a node.
HARD: Final = ("NoSchedule", "NoExecute")


class Kind(NamedTuple):
    """Units by a node label."""

    nodes: int  # that a unit has
    most: int = 0  # of these a job can have, if it is not all; then any number up to it
    shared: bool = False  # whether several jobs may be on one

    @property
    def usable(self) -> int:
        """How many nodes of a unit a job can have."""
        return self.most or self.nodes

    def takes(self, size: int) -> bool:
        """Whether so many workers of a job may share a unit."""
        return 1 <= size <= self.most if self.most else size == self.nodes


@dataclass(frozen=True)
class Units:
    """Which nodes form units, by node label, and the resources by which jobs request nodes."""

    kinds: Mapping[str, Kind]
    devices: frozenset[str] = keys.DEVICES

    def __or__(self, other: Self) -> Self:
        """Both; of two kinds by one label the other's."""
        return type(self)({**self.kinds, **other.kinds}, self.devices | other.devices)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of several nodes, those of the largest units first."""
        sizes = {key: kind.nodes for key, kind in self.kinds.items() if kind.nodes > 1}
        return tuple(sorted(sizes, key=lambda key: (-sizes[key], key)))


# Those of the packaged table.
UNITS: Final = Units({keys.SERVER_4: Kind(4), keys.SERVER_2: Kind(2), keys.HOSTNAME: Kind(1)})
# What a family says that is not for the cluster; a bare off is false to YAML.
OFF: Final = ("off", False)
# Namespace and job label of a job; a pod without the label is a job of its own, called ``pod/NAME``.
JobKey = tuple[str, str]
# What cannot be read or looked at: a key of `placement.decide.problems.TEXTS`, and what that names.
Fault = tuple[str, *tuple[object, ...]]
# Attributes of devices, by domain and name, and ``driver``; each with its value.
Conditions = frozenset[tuple[str, str | int | bool]]


class Ended(NamedTuple):
    """A worker that has ended: its job, and its number in it."""

    job: JobKey
    number: int


def units_of(families: Iterable[Mapping[str, Any]]) -> Units:
    """The units of families as a rule table has them, and those of the packaged table.

    Raises:
        ValueError: A family cannot be read.
    """
    on = [family for family in families if family.get("mode") not in OFF]
    try:
        kinds = {key: kind for family in on for key, kind in _kinds(family)}
        return UNITS | Units(kinds, frozenset(name for family in on for name in family.get("wholeNode", ())))
    except (AttributeError, LookupError, TypeError) as error:
        raise ValueError(f"a family of the rule table is invalid: {type(error).__name__}: {error}") from error


def _kinds(family: Mapping[str, Any]) -> Iterator[tuple[str, Kind]]:
    """The units of a family; several jobs may be on one if no shape keeps others off it."""
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
        yield unit["label"], Kind(unit["nodes"], 0 if fixed else usable, shared and not fixed)


def is_pod(job: JobKey) -> bool:
    """Whether this is a pod without a job label, or a claim without a pod: no label value has a slash."""
    return job[1].startswith(("pod/", "claim/"))


class Taint(NamedTuple):
    """A taint of a node; fields as in the API."""

    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    """A toleration of a pod; fields as in the API, empty where not given."""

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
    """A node selector term: all of its expressions have to hold."""

    labels: tuple[Expression, ...] = ()
    fields: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Apart:
    """A term of a pod's required anti-affinity. Whoever reads pods makes equal ones the same."""

    key: str  # the node label by whose value nodes are near each other
    labels: tuple[Expression, ...] | None  # what it selects pods by; None where it selects none
    namespaces: frozenset[str] = frozenset()  # of these pods, by name; empty where only `spaces` says
    # The same by labels of namespaces, as far as it is by their names; None where only `namespaces` says.
    spaces: tuple[Expression, ...] | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """A device that pods have by claims."""

    key: str  # its name among all, and that of the resource by which it counts as used
    attributes: Conditions  # what it is: attributes with their values, and its driver
    resources: tuple[str, ...] = ()  # extended resources that it serves, too
    tainted: bool = False  # whether nobody gets it


@dataclass(frozen=True, slots=True)
class Ask:
    """Devices of its node that a pod claims."""

    name: str  # of what the claim is made from, for people
    conditions: Conditions  # what each of them is
    count: int  # how many; 0 for all there are


def are_neuron(conditions: Iterable[tuple[str, str | int | bool]]) -> bool:
    """Whether devices that meet all conditions are the Neuron driver's: by its name, or by its attributes."""
    drivers = [value for key, value in conditions if key == "driver"]
    return (
        keys.DRIVER in drivers if drivers else any(key.startswith(f"{keys.DRIVER}/") for key, _ in conditions)
    )


@dataclass(frozen=True, slots=True)
class Node:
    """A node."""

    name: str
    labels: Mapping[str, str]  # all of them: selectors may name any
    ready: bool = True
    cordoned: bool = False
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, int] = field(default_factory=dict)  # to its pods, in thousandths, by resource
    devices: tuple[Device, ...] = ()  # what they can claim

    @property
    def driven(self) -> bool:
        """Whether it has devices of the Neuron DRA driver."""
        return any(("driver", keys.DRIVER) in device.attributes for device in self.devices)

    def unit(self, key: str) -> str | None:
        """The value of a topology label; None where the node is in no unit that works."""
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
    """What a pod asks of a node. Compared by identity: `demand_of` makes equal ones the same."""

    selector: Mapping[str, str] = field(default_factory=dict)
    terms: tuple[Term, ...] | None = None  # of required node affinity, one has to hold; None for no affinity
    tolerations: tuple[Toleration, ...] = ()
    requests: Mapping[str, int] = field(default_factory=dict)  # in thousandths; ``pods`` not counted
    claims: tuple[Ask, ...] = ()

    def uses(self, devices: Iterable[str]) -> bool:
        """Whether it takes some of these devices, or claims some."""
        asked = any(map(self.requests.get, devices))
        return asked or any(are_neuron(ask.conditions) for ask in self.claims)

    @cached_property
    def parts(self) -> int:
        """How many conditions it compares with every node, or what costs as much."""
        terms = self.terms or ()
        expressions = [item for term in terms for item in (*term.labels, *term.fields)]
        values = sum(len(item.values) for item in expressions)
        claimed = sum(len(ask.conditions) for ask in self.claims)
        claimed += 4 * len(self.claims) ** 2  # measured: of eight asks each is met beside seven others
        return len(self.selector) + len(self.tolerations) + len(terms) + len(expressions) + values + claimed


_demands: WeakValueDictionary[tuple[object, ...], Demand] = WeakValueDictionary()


def demand_of(
    selector: Mapping[str, str],
    terms: tuple[Term, ...] | None,
    tolerations: tuple[Toleration, ...],
    requests: Mapping[str, int],
    claims: tuple[Ask, ...] = (),
) -> Demand:
    """A demand; of equal ones the same, for as long as a pod has it."""
    key = (tuple(sorted(selector.items())), terms, tolerations, tuple(sorted(requests.items())), claims)
    return _demands.setdefault(key, Demand(selector, terms, tolerations, requests, claims))


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that has not ended, as it was read. It says what its writers claim (`Member`)."""

    namespace: str
    name: str
    uid: str
    job: str = ""  # its job label
    loose: bool = False  # whether jobs are kept off the whole UltraServer that it is on
    place: Place | None = None  # what admission says about it; None where it takes no node for a job
    number: int = 0  # its number among the pods of the job that take nodes
    fault: Fault | None = None  # why that cannot be read, or a node not be sought
    gates: tuple[str, ...] = ()
    demand: Demand = field(default_factory=Demand)
    claims: tuple[tuple[str, str], ...] = ()  # of a worker: the template and the claim of each entry
    # All that it has of a worker without a fault, and of a pod that has a node and few; else the `MARKS`.
    labels: Mapping[str, str] = field(default_factory=dict, compare=False)
    apart: tuple[Apart, ...] = ()  # the pods that it keeps off its own node, its UltraServer or more
    node: str = ""  # that it is bound to
    opened: datetime | None = None  # when the program pinned it
    plan: str = ""  # the units that were decided on with its own, by block, as `placement.act.write` has them
    started: bool = False  # whether any of its containers ever ran: such a pod is never touched
    deleting: bool = False
    priority: int = 0
    created: datetime = datetime.min  # noqa: DTZ901 - replaced by every reader; sorts first
    gated: bool = field(init=False, compare=False)  # whether it waits for the program
    key: JobKey = field(init=False, compare=False)  # its job, or for one without a job itself
    pin: str | None = field(init=False, compare=False)  # the unit that the program pinned it to

    def __post_init__(self) -> None:
        """See once what is asked for in every decision."""
        object.__setattr__(self, "gated", keys.GATE in self.gates)
        pin = self.demand.selector.get(self.place.unit) if self.opened and self.place else None
        object.__setattr__(self, "pin", pin)
        object.__setattr__(self, "key", (self.namespace, self.job or f"pod/{self.name}"))

    @property
    def block(self) -> int:
        """The number of the job's unit that it belongs to: consecutive pods share one."""
        return self.number // self.place.size if self.place else 0
