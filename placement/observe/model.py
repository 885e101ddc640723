"""What a decision is made from: nodes and pods, with only what matters of them.

The program knows no kind of job; all that it needs is on the pods (`contract.keys`), put there through the
job's pod templates. A pod without a place, such as a launcher, is opened when its job's workers are, and goes
where the scheduler likes.

What the program itself writes, in this order, so that a crash between any two writes leaves a state from
which the next leader finishes the same opening:

1. into the job's first worker its pin (a node selector: the unit's server id, or for node config 1 the
   node's host name) and, in the same patch, the annotation `OPENED` with the time and the plan: the unit of
   every other block (of so many as fit, see `placement.decide.plan.MOST_PLANNED`);
2. when that is stored, the removal of the gate from every pod of the job, and in the same patch the pin of
   the workers that have none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from contract.keys import (
    BLOCK,
    DEVICES,
    DRIVER,
    GATE,
    HOSTNAME,
    JOB,
    LOOSE,
    NO_NODE,
    NO_SERVER,
    NODE_IDS,
    SERVER_2,
    SERVER_4,
    TRAINING,
)
from contract.place import Place

COMPONENT: Final = "ultraserver-placement"
"""The program: its Lease, its Deployment, and what its Events come from."""

NAMESPACE: Final = "kubernetes.io/metadata.name"
"""The label of each namespace that says its name."""

PORT: Final = "host port"
"""A resource of this name stands for very many host ports, one whose name begins so for one of them."""

MARKS: Final = frozenset({JOB, BLOCK, LOOSE, TRAINING + "job-role", TRAINING + "job-name"})
"""Labels by which the table's anti-affinity selects pods; of a pod of no job only these are kept."""

HARD: Final = ("NoSchedule", "NoExecute")
"""The effects of taints that keep pods off a node."""

SIZES: Final = {SERVER_4: 4, SERVER_2: 2}
"""Nodes of a whole unit, for the labels that nest: whoever takes a node of the smaller breaks the larger."""

Units = frozenset[tuple[str, int]]
"""The kinds of unit: which node labels make them, and of how many nodes."""

UNITS: Final = frozenset(SIZES.items()) | {(HOSTNAME, 1)}
"""Those of the packaged table."""

JobKey = tuple[str, str]
"""Namespace and job label of a job; a pod without the label is a job of its own, called ``pod/NAME``."""


Fault = tuple[str, *tuple[object, ...]]
"""What cannot be read or looked at: a key of `placement.decide.problems.TEXTS`, and what that names."""

Conditions = frozenset[tuple[str, str | int | bool]]
"""Attributes of devices, by domain and name, and ``driver``; each with its value."""


class Ended(NamedTuple):
    """A worker that has ended: its job, and its number in it."""

    job: JobKey
    number: int


def units_of(shapes: Iterable[Mapping[str, object]]) -> Units:
    """The kinds of unit of shapes as a rule table has them, and those of the packaged table."""
    said = ((row.get("topologyKey"), row.get("nodeConfig")) for row in shapes)
    return UNITS | {(key, size) for key, size in said if isinstance(key, str) and isinstance(size, int)}


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
    """A term of a pod's required anti-affinity. Whoever reads pods makes equal ones the same.

    Attributes:
        key: The node label by whose value nodes are near each other.
        labels: What it selects pods by; None where it selects none.
        namespaces: Of these pods, by name; empty where only `spaces` says.
        spaces: The same by labels of namespaces, as far as it is by their names; None where only
            `namespaces` says.
    """

    key: str
    labels: tuple[Expression, ...] | None
    namespaces: frozenset[str] = frozenset()
    spaces: tuple[Expression, ...] | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """A device that pods have by claims.

    Attributes:
        key: Its name among all, and that of the resource by which it counts as used.
        attributes: What it is: attributes with their values, and its driver.
        resources: Extended resources that it serves, too.
        tainted: Whether nobody gets it.
    """

    key: str
    attributes: Conditions
    resources: tuple[str, ...] = ()
    tainted: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """Devices of its node that a pod claims.

    Attributes:
        name: Of what the claim is made from, for people.
        conditions: What each of them is.
        count: How many; 0 for all there are.
    """

    name: str
    conditions: Conditions
    count: int


def are_neuron(conditions: Iterable[tuple[str, str | int | bool]]) -> bool:
    """Whether devices that meet all conditions are the Neuron driver's: by its name, or by its attributes."""
    drivers = [value for key, value in conditions if key == "driver"]
    return DRIVER in drivers if drivers else any(key.startswith(f"{DRIVER}/") for key, _ in conditions)


@dataclass(frozen=True, slots=True)
class Node:
    """A node.

    Attributes:
        labels: All of them: selectors may name any.
        allocatable: What its pods can have, in thousandths, by resource.
        devices: What they can claim.
    """

    name: str
    labels: Mapping[str, str]
    ready: bool = True
    cordoned: bool = False
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, int] = field(default_factory=dict)
    devices: tuple[Device, ...] = ()

    @property
    def driven(self) -> bool:
        """Whether it has devices of the Neuron DRA driver."""
        return any(("driver", DRIVER) in device.attributes for device in self.devices)

    def unit(self, key: str) -> str | None:
        """The value of a topology label; None where the node is in no unit that works."""
        value = self.labels.get(key)
        if not value or value == NO_SERVER or self.labels.get(NODE_IDS.get(key, "")) == NO_NODE:
            return None
        return value


@dataclass(frozen=True, eq=False)
class Demand:
    """What a pod asks of a node. Compared by identity: `demand_of` makes equal ones the same.

    Attributes:
        selector: Its node selector.
        terms: Its required node affinity, one of which has to hold; None where it has none.
        requests: What it takes of a node, in thousandths, by resource; ``pods`` not counted.
        claims: The devices that it claims of its node.
    """

    selector: Mapping[str, str] = field(default_factory=dict)
    terms: tuple[Term, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    requests: Mapping[str, int] = field(default_factory=dict)
    claims: tuple[Ask, ...] = ()

    @cached_property
    def neuron(self) -> bool:
        """Whether it takes Neuron devices or cores."""
        asked = any(self.requests.get(name) for name in DEVICES)
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
    known = _demands.get(key)
    if known is None:
        known = _demands[key] = Demand(selector, terms, tolerations, requests, claims)
    return known


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that has not ended, as it was read. It says what whoever could write it claims (`Member`).

    Attributes:
        job: Its job label, empty where it has none.
        loose: Whether jobs are kept off the whole UltraServer that it is on.
        place: What admission says about it; None where it takes no node for a job.
        number: Its number among the pods of the job that take nodes, from 0.
        fault: Why the annotations that should say so cannot be read, or a node not be sought.
        claims: Of a worker, what it claims: the name of each entry, its template, or its claim.
        labels: Of a worker without a `fault` all that it has, of others the `MARKS`.
        apart: The pods that it keeps off its own node, its UltraServer or more.
        node: The node that it is bound to; empty where it is not.
        opened: When the program pinned it; None where it did not.
        plan: The units that were decided on with its own, by block, as `placement.act.write` writes them.
        started: Whether any of its containers ever ran: such a pod is never touched.
        gated: Whether it waits for the program.
        key: Its job, or for one without a job itself.
        pin: The unit that the program pinned it to; None where it did not.
    """

    namespace: str
    name: str
    uid: str
    job: str = ""
    loose: bool = False
    place: Place | None = None
    number: int = 0
    fault: Fault | None = None
    gates: tuple[str, ...] = ()
    demand: Demand = field(default_factory=Demand)
    claims: tuple[tuple[str, str, str], ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict, compare=False)
    apart: tuple[Apart, ...] = ()
    node: str = ""
    opened: datetime | None = None
    plan: str = ""
    started: bool = False
    deleting: bool = False
    priority: int = 0
    created: datetime = datetime.min  # noqa: DTZ901 - replaced by every reader; sorts first
    gated: bool = field(init=False, compare=False)
    key: JobKey = field(init=False, compare=False)
    pin: str | None = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """See once what is asked for in every decision."""
        object.__setattr__(self, "gated", GATE in self.gates)
        pin = self.demand.selector.get(self.place.unit) if self.opened and self.place else None
        object.__setattr__(self, "pin", pin)
        object.__setattr__(self, "key", (self.namespace, self.job or f"pod/{self.name}"))

    @property
    def block(self) -> int:
        """The number of the job's unit that it belongs to: consecutive pods share one."""
        return self.number // self.place.size if self.place else 0
