"""Claimed devices: what nodes offer in ResourceSlices, what pods claim, and what is taken.

Objects of ``resource.k8s.io/v1`` (Kubernetes 1.34, "Dynamic Resource Allocation"). The scheduler allocates;
here is only seen what it will be able to. Of selectors (CEL) conjunctions of comparisons with one value are
understood, as in all templates of AWS's document "AWS Neuron Dynamic Resource Allocation"; a pod whose
selectors say more waits, with a `problem` that quotes them. Claims are tenants' objects: of each as much is
kept as is needed, and of bounded length. Templates are not looked at: kube-controller-manager makes claims of
gated pods, too, and where it may not (by a quota, say) the pod could not start.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple

from contract.keys import DRIVER
from contract.place import Placer
from kube.api import Object
from placement.observe.model import HARD, Ask, Conditions, Device, Node, Pod, Taken, are_neuron
from placement.observe.read import claiming

API: Final = "/apis/resource.k8s.io/v1"
MOST_COMPARED: Final = 32
"""Requests of one claim, and comparisons in their selectors, together: claims are tenants', and many."""

MOST_ASKS: Final = 8
"""Requests for Neuron devices in all claims of a pod."""

MOST_NAME: Final = 253
"""Characters of a name, or a uid, that are kept: what a claim says of its pod has no bound elsewhere."""

_COMPARED: Final = ("string", "int", "bool")
"""Types of attributes; a version is not a string to the scheduler."""

POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a claim that was made for a pod: the name of the pod's entry."""

_EXTENDED: Final = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a claim that the scheduler made for requests: the pod's own requests count already."""

# As long as domain, name and value of an attribute may be (resource/v1/types.go in k8s.io/api).
_COMPARISON: Final = re.compile(
    r"""device\.(?:
        (?P<driver>driver)
        | attributes\[(?P<q>['"])(?P<domain>[\w.-]{1,63})(?P=q)\]
          (?:\.(?P<name>\w{1,32}) | \[(?P<r>['"])(?P<key>[\w.-]{1,32})(?P=r)\])
    )\s*==\s*
    (?:(?P<s>['"])(?P<text>[^'"\\]{0,64})(?P=s) | (?P<number>-?[0-9]{1,18}) | (?P<truth>true|false))""",
    re.VERBOSE | re.ASCII,
)

_OURS: Final = frozenset({("driver", DRIVER)})


class _UnreadableError(ValueError):
    """A claim that cannot be compared with nodes; the message says why."""


class Slice(NamedTuple):
    """Devices of one node, as its driver publishes them.

    Attributes:
        pool: Driver and pool.
        generation: Of the pool: slices of an older one are out of date.
        slices: How many slices the pool has: the scheduler gives nothing of one that is not all there.
    """

    node: str
    pool: tuple[str, str]
    generation: int
    slices: int
    devices: tuple[Device, ...]


class DeviceClass(NamedTuple):
    """A device class.

    Attributes:
        conditions: What its devices are.
        resource: The extended resource that it serves; empty for none.
        created: When, as the API server writes it.
        problem: Why its selectors cannot be read.
    """

    conditions: Conditions
    resource: str
    created: str
    problem: str


@dataclass(frozen=True, slots=True)
class Request:
    """A request for devices.

    Attributes:
        conditions: What each device is, beside what its class says.
        count: How many; 0 for all that suit.
        problem: Why its selectors cannot be compared with nodes.
    """

    device_class: str
    conditions: Conditions
    count: int
    problem: str


class Claim(NamedTuple):
    """A ResourceClaim.

    Attributes:
        requests: What it asks for; none once it has devices, or is nobody's.
        problem: Why none of these are kept.
        mode: The node config that it asks the Neuron driver for; 0 for none.
        owner: The uid of the pod that it was made for; empty for one that somebody made by hand.
        entry: The name of that pod's entry.
        devices: Driver, pool and name of each device that it has.
        users: The uids of the pods that may use them.
        extended: Whether the scheduler made it for a pod's requests.
    """

    requests: tuple[Request, ...]
    problem: str
    mode: int
    owner: str
    entry: str
    devices: tuple[tuple[str, str, str], ...]
    users: tuple[str, ...]
    extended: bool

    @property
    def neuron(self) -> bool:
        """Whether it has devices of the Neuron driver."""
        return any(driver == DRIVER for driver, _, _ in self.devices)


def read_slice(found: Object) -> Slice | None:
    """The devices of a node; None for those of no single node, which are left to the scheduler."""
    spec = found.get("spec") or {}
    if not spec.get("nodeName"):
        return None
    driver, pool = spec.get("driver", ""), spec.get("pool") or {}
    name = pool.get("name", "")
    devices = tuple(
        Device(
            _key(driver, name, device.get("name", "")),
            _attributes(device, driver),
            # What tolerates it is left to the scheduler.
            tainted=any(taint.get("effect") in HARD for taint in device.get("taints") or ()),
        )
        for device in spec.get("devices") or ()
    )
    whole = pool.get("generation", 0), pool.get("resourceSliceCount", 1)
    return Slice(spec["nodeName"], (driver, name), *whole, devices)


def read_class(found: Object) -> DeviceClass:
    """A device class."""
    spec = found.get("spec") or {}
    conditions, problem = _selected(spec.get("selectors") or ())
    created = (found.get("metadata") or {}).get("creationTimestamp") or ""
    return DeviceClass(conditions, spec.get("extendedResourceName") or "", created, problem)


def read_claim(found: Object) -> Claim:
    """A claim."""
    metadata, status = found.get("metadata") or {}, found.get("status") or {}
    annotations = metadata.get("annotations") or {}
    owners = (item for item in metadata.get("ownerReferences") or () if item.get("kind") == "Pod")
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    owner = next((item.get("uid", "")[:MOST_NAME] for item in owners), "")
    asked = (found.get("spec") or {}).get("devices") or {}
    requests, problem = _requests(asked) if owner and not results else ((), "")
    return Claim(
        requests=requests,
        problem=problem,
        mode=_mode(asked),
        owner=owner,
        entry=annotations.get(POD_CLAIM, "")[:MOST_NAME],
        devices=tuple(
            (item.get("driver", ""), item.get("pool", ""), item.get("device", ""))
            for item in results
            if not item.get("adminAccess")  # which takes nothing from others
        ),
        users=tuple(
            item.get("uid", "") for item in status.get("reservedFor") or () if item.get("resource") == "pods"
        ),
        extended=_EXTENDED in annotations,
    )


def _mode(devices: Object) -> int:
    opaque = (item.get("opaque") or {} for item in devices.get("config") or ())
    told = [one.get("parameters") for one in opaque if one.get("driver") == DRIVER]  # whatever it takes
    modes = (said.get("ultraserverMode") for said in reversed(told) if isinstance(said, dict))
    return next((mode for mode in modes if type(mode) is int), 0)


def _requests(devices: Object) -> tuple[tuple[Request, ...], str]:
    requests = tuple(chain.from_iterable(map(_request, devices.get("requests") or ())))
    count = sum(1 + len(one.conditions) for one in requests)
    if count > MOST_COMPARED:
        return (), f"it has {count} requests and comparisons: at most {MOST_COMPARED} are looked at"
    return requests, ""


def _request(found: Object) -> Iterator[Request]:
    exactly, choices = found.get("exactly"), found.get("firstAvailable")
    if not isinstance(exactly, dict):
        said = f"its request {found.get('name')} has firstAvailable: say exactly"
        for choice in choices or ():
            conditions, _ = _selected(choice.get("selectors") or ())
            yield Request(choice.get("deviceClassName", ""), conditions, 1, said)
    elif not exactly.get("adminAccess"):
        count = 0 if exactly.get("allocationMode") == "All" else exactly.get("count", 1)
        conditions, problem = _selected(exactly.get("selectors") or ())
        yield Request(exactly.get("deviceClassName", ""), conditions, count, problem)


def _attributes(device: Object, driver: str) -> Conditions:
    """The attributes of a device, by domain and name; one without a domain is the driver's."""
    return frozenset(
        {("driver", driver)}
        | {
            _condition(name if "/" in name else f"{driver}/{name}", value)
            for name, said in (device.get("attributes") or {}).items()
            for kind, value in said.items()
            if kind in _COMPARED
        }
    )


def _condition(key: str, value: str | int | bool) -> tuple[str, str | int | bool]:  # noqa: FBT001 - a value
    """A condition by which no truth value is a number, as it is to Python."""
    return (f"{key}?" if isinstance(value, bool) else key), value


def _selected(selectors: Iterable[Object]) -> tuple[Conditions, str]:
    """The conditions of selectors; of such as are not understood the driver, if they name it, and why."""
    texts = [(selector.get("cel") or {}).get("expression") or "" for selector in selectors]
    try:
        return frozenset().union(*map(_compared, texts)), ""
    except _UnreadableError as error:
        return (_OURS if any(DRIVER in text for text in texts) else frozenset()), str(error)


@lru_cache(maxsize=256)
def _compared(expression: str) -> Conditions:
    """The comparisons that all hold in a CEL expression.

    Raises:
        _UnreadableError: It says more.
    """
    found: set[tuple[str, str | int | bool]] = set()
    for part in expression.split("&&", MOST_COMPARED):
        said = _COMPARISON.fullmatch(part.strip(" \n\t()"))
        if said is None:
            raise _UnreadableError(
                f"its selector {expression[:120]!r} is not understood: only comparisons with == are, "
                f"and && between them, up to {MOST_COMPARED}"
            )
        key = "driver" if said["driver"] else f"{said['domain']}/{said['name'] or said['key']}"
        number, truth = said["number"], said["truth"]
        found.add(
            _condition(key, int(number) if number else truth == "true" if truth else said["text"] or "")
        )
    return frozenset(found)


@dataclass(frozen=True)
class Inventory:
    """All that is there of claims, each by namespace, which may be empty, and name.

    Attributes:
        lost: Why one of them may be old: who has devices is not known then, so that nothing offers any.
    """

    slices: Mapping[tuple[str, str], Slice] = field(default_factory=dict)
    classes: Mapping[tuple[str, str], DeviceClass] = field(default_factory=dict)
    claims: Mapping[tuple[str, str], Claim] = field(default_factory=dict)
    lost: str = field(default="", kw_only=True)

    def nodes(self, nodes: Mapping[str, Node]) -> Mapping[str, Node]:
        """The nodes with their devices, and with the extended resources that these serve."""
        if self.lost:
            return nodes
        found: defaultdict[str, list[Device]] = defaultdict(list)
        # Of classes with one extendedResourceName the newest counts, then the first by name (API reference).
        ordered = sorted(sorted(self.classes.items(), reverse=True), key=lambda item: item[1].created)
        newest = {kind.resource: kind for _, kind in ordered if kind.resource}
        serving = [kind for kind in newest.values() if not kind.problem]
        for node, device in self._devices():
            served = {kind.resource for kind in serving if kind.conditions <= device.attributes}
            serves = served and not device.tainted
            found[node].append(replace(device, resources=tuple(served)) if serves else device)
        return {**nodes, **{name: _offering(nodes[name], found[name]) for name in found if name in nodes}}

    def taken(self, nodes: Mapping[str, Node], pods: Iterable[Pod]) -> Iterator[Taken]:
        """Who has which devices of nodes."""
        if not self.claims:
            return
        there = {device.key: (name, device) for name, node in nodes.items() for device in node.devices}
        known = {pod.uid: pod for pod in pods}
        for (namespace, name), claim in self.claims.items():
            by_node: defaultdict[str, Counter[str]] = defaultdict(Counter)
            for driver, pool, called in claim.devices:
                key = _key(driver, pool, called)
                node, device = there.get(key, (pool, None))  # a slice that has gone leaves the pool's name
                by_node[node].update(dict.fromkeys((key, *(device.resources if device else ())), 1000))
            users = [known[uid] for uid in claim.users if uid in known]
            counted = Counter[str]()
            for pod in users if claim.extended else ():
                counted.update(pod.demand.requests)
            for node, used in by_node.items():
                stranger = claim.neuron and not users
                yield Taken((namespace, f"claim/{name}"), node, used - counted, stranger)

    def pods(self, pods: Iterable[Pod], now: datetime, bound: timedelta) -> list[Pod]:
        """The pods, which are as they were read, with what they claim and have.

        For so long after it was opened a pod counts as having what it claims: the watch that shows its node
        may be ahead of the one that shows its devices. After that only devices count.
        """
        claims = self.claims.items()
        having = {(there, uid) for (there, _), claim in claims if claim.neuron for uid in claim.users}
        found = []
        for pod in pods:
            if (pod.namespace, pod.uid) in having:
                found.append(replace(pod, claimed=True))
            elif pod.claims and (not pod.node or (pod.opened and abs(now - pod.opened) < bound)):
                found.append(self._asking(pod))
            else:
                found.append(pod)
        return found

    @cached_property
    def by_entry(self) -> Mapping[tuple[str, str, str], Claim]:
        """Claims by namespace, uid of the pod that each was made for, and name of the pod's entry.

        Of the pod's own namespace: an owner is whatever the author of a claim says.
        """
        claims = self.claims.items()
        return {(there, claim.owner, claim.entry): claim for (there, _), claim in claims if claim.owner}

    def _asking(self, pod: Pod) -> Pod:
        """A pod with what its claims ask for."""
        try:
            asks = tuple(self._asks(pod))
            many = f"{len(asks)} requests for Neuron devices: at most {MOST_ASKS} are compared"
            problem = f"its claims have {many}; use counts" if len(asks) > MOST_ASKS else ""
        except _UnreadableError as error:
            problem = str(error)
        if problem:
            pod = replace(pod, problem=pod.problem or problem)
            # Once it was opened it has what it was pinned to, whatever has become of its claims.
            asks = (Ask("its claims", _OURS, 0),) if pod.opened else ()
        # What it takes of a node that it is on stands in its claims, or comes to stand there.
        return replace(pod, claimed=True) if pod.node and asks else claiming(pod, asks)

    def _asks(self, pod: Pod) -> Iterator[Ask]:
        """What the claims that were made for a pod ask for of Neuron devices."""
        if self.lost and pod.gated:
            raise _UnreadableError(f"claims cannot be followed: {self.lost}")
        for entry, template, name in pod.claims:
            if name:
                raise _UnreadableError(
                    f"claim {name} is one for all pods that name it: use a resourceClaimTemplateName, "
                    "so that each has its own"
                )
            what = f"ResourceClaimTemplate {template}"
            made = self.by_entry.get((pod.namespace, pod.uid, entry))
            if made is None:
                raise _UnreadableError(f"no claim was created from {what} yet: its Events say why")
            if made.problem:
                raise _UnreadableError(f"{what}: {made.problem}")
            if made.mode and pod.place and pod.place.placer is Placer.GATE and made.mode != pod.place.size:
                raise _UnreadableError(
                    f"{what} has ultraserverMode {made.mode}, and the job has node config {pod.place.size}: "
                    "use one of the same"
                )
            yield from chain.from_iterable(self._asked(what, one) for one in made.requests)

    def _asked(self, what: str, one: Request) -> Iterator[Ask]:
        """What a request asks for; nothing where that is of a network, say: it is left to the scheduler."""
        kind = self.classes.get(("", one.device_class))
        if kind is None:
            raise _UnreadableError(f"{what}: there is no DeviceClass {one.device_class}")
        wanted = kind.conditions | one.conditions
        if are_neuron(wanted):
            if kind.problem:
                raise _UnreadableError(f"DeviceClass {one.device_class}: {kind.problem}")
            if one.problem:
                raise _UnreadableError(f"{what}: {one.problem}")
            yield Ask(what, wanted, one.count)

    def _devices(self) -> Iterator[tuple[str, Device]]:
        """Node and device, of each pool whose newest generation is all there."""
        pools: defaultdict[tuple[str, str], defaultdict[int, list[Slice]]]
        pools = defaultdict(lambda: defaultdict(list))
        for one in self.slices.values():
            pools[one.pool][one.generation].append(one)
        for generations in pools.values():
            slices = generations[max(generations)]
            if all(one.slices == len(slices) for one in slices):
                yield from ((one.node, device) for one in slices for device in one.devices)


def _offering(node: Node, devices: list[Device]) -> Node:
    served = Counter(resource for device in devices for resource in device.resources)
    # A node whose kubelet counts a resource itself has it from a device plugin.
    own = {name: amount for name, amount in node.allocatable.items() if amount}
    return replace(
        node,
        devices=tuple(sorted(devices, key=lambda device: device.key)),
        allocatable={name: 1000 * count for name, count in served.items()} | own,
    )


READERS: Final[Mapping[str, Callable[[Object], Any]]] = {
    f"{API}/resourceslices": read_slice,
    f"{API}/deviceclasses": read_class,
    f"{API}/resourceclaims": read_claim,
}
"""Where the collections are, in the order of `Inventory`'s fields, and what is kept of their objects."""


def _key(driver: str, pool: str, name: str) -> str:
    return f"device {driver}/{pool}/{name}"
