"""Devices for device claims: those that nodes offer, that pods request, and that are already in use."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple

from contract.place import Placer
from placement import messages
from placement.observe.inventory import Inventory, Slice, key_of
from placement.observe.model import Ask, Device, JobKey, Node, Pod, are_neuron

CLAIMED: Final = "claimed devices"
"""A resource of this program: the devices of a node that claims will get but the scheduler has not chosen."""

MOST_ASKS: Final = 8
"""The highest number of requests for Neuron devices in all claims of a pod."""


class Taken(NamedTuple):
    """Devices of a node that are allocated to a claim."""

    claim: JobKey  # the namespace, and ``claim/NAME`` in place of the name of a job
    node: str
    used: Mapping[str, int]  # thousandths by resource, without the requests of the claim's pods
    stranger: bool  # whether they are Neuron devices that no existing pod uses


class ClaimError(Exception):
    """The claims of a pod cannot be compared with nodes. The arguments are those of a `Fault`."""


def unmet(asks: Sequence[Ask], devices: Sequence[Device], used: Mapping[str, int]) -> Ask | None:
    """Returns a request of a pod for which a node has too few devices left; None if it has enough for all.

    The request with the most conditions is first, and takes the devices that suit the fewest requests. A
    request for all devices of the node is met only if none of them is in use.
    """
    taken_keys = {device.key for device in devices if device.tainted}
    suiting = {
        kind: [device.key for device in devices if kind <= device.attributes]
        for kind in {ask.conditions for ask in asks}
    }
    wanted = Counter(chain.from_iterable(suiting.values()))
    for ask in sorted(asks, key=lambda ask: -len(ask.conditions)):
        suitable = suiting[ask.conditions]
        free = [key for key in suitable if key not in used and key not in taken_keys]
        count = ask.count or max(len(suitable), 1)
        if len(free) - used.get(CLAIMED, 0) // 1000 < count:
            return ask
        if len(suiting) > 1:
            free.sort(key=wanted.__getitem__)
        taken_keys.update(free[:count])
    return None


def offered(inventory: Inventory, nodes: Mapping[str, Node]) -> Mapping[str, Node]:
    """Returns the nodes with their devices, and with the extended resources that the devices serve."""
    if inventory.lost:
        return nodes
    by_node: defaultdict[str, list[Device]] = defaultdict(list)
    # If several classes have the same extendedResourceName, the newest is used. If these are equally old, the
    # first by name does (API reference).
    ordered = sorted(sorted(inventory.classes.items(), reverse=True), key=lambda item: item[1].created)
    newest = {kind.resource: kind for _, kind in ordered if kind.resource}
    serving = [kind for kind in newest.values() if not kind.fault]
    for node, device in _devices(inventory.slices.values()):
        resources = {kind.resource for kind in serving if kind.conditions <= device.attributes}
        serves = resources and not device.tainted
        by_node[node].append(replace(device, resources=tuple(resources)) if serves else device)
    return {**nodes, **{name: _offering(nodes[name], by_node[name]) for name in by_node if name in nodes}}


def _devices(slices: Iterable[Slice]) -> Iterator[tuple[str, Device]]:
    """Yields the devices of each pool whose newest generation is complete, each with the name of its node."""
    pools: defaultdict[tuple[str, str], defaultdict[int, list[Slice]]]
    pools = defaultdict(lambda: defaultdict(list))
    for piece in slices:
        pools[piece.pool][piece.generation].append(piece)
    for generations in pools.values():
        newest = generations[max(generations)]
        if all(piece.slices == len(newest) for piece in newest):
            yield from ((piece.node, device) for piece in newest for device in piece.devices)


def _offering(node: Node, devices: list[Device]) -> Node:
    counts = Counter(resource for device in devices for resource in device.resources)
    # A resource that the kubelet itself counts comes from a device plugin, and that amount is right.
    own = {name: amount for name, amount in node.allocatable.items() if amount}
    return replace(
        node,
        devices=tuple(sorted(devices, key=lambda device: device.key)),
        allocatable={name: 1000 * count for name, count in counts.items()} | own,
    )


def taken(inventory: Inventory, nodes: Mapping[str, Node], pods: Iterable[Pod]) -> Iterator[Taken]:
    """Yields for each claim and node the devices of the node that are allocated to the claim."""
    if not inventory.claims:
        return
    devices = {device.key: (name, device) for name, node in nodes.items() for device in node.devices}
    by_uid = {pod.uid: pod for pod in pods}
    for (namespace, name), claim in inventory.claims.items():
        by_node: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for driver, pool, device_name in claim.devices:
            key = key_of(driver, pool, device_name)
            # If its slice is gone, the node is unknown. Its name is usually that of the pool.
            node, device = devices.get(key, (pool, None))
            by_node[node].update(dict.fromkeys((key, *(device.resources if device else ())), 1000))
        users = [by_uid[uid] for uid in claim.users if uid in by_uid]
        counted = Counter[str]()
        for pod in users if claim.extended else ():
            counted.update(pod.demand.requests)
        for node, used in by_node.items():
            yield Taken((namespace, f"claim/{name}"), node, used - counted, claim.neuron and not users)


def requested_devices(inventory: Inventory, pod: Pod) -> tuple[Ask, ...]:
    """Returns the requests for Neuron devices in the claims that were created for a pod.

    Raises:
        ClaimError: The claims cannot be compared with nodes.
    """
    if inventory.lost and pod.gated:
        raise ClaimError("lost", inventory.lost)
    asks = tuple(chain.from_iterable(_asked(inventory, pod, *entry) for entry in pod.claims))
    if len(asks) > MOST_ASKS:
        raise ClaimError("asks", len(asks), MOST_ASKS)
    return asks


def _asked(inventory: Inventory, pod: Pod, template: str, name: str) -> Iterator[Ask]:
    """Yields the requests for Neuron devices in one claim of a pod; the scheduler handles other devices."""
    what, claim = messages.template(template), inventory.claims.get((pod.namespace, name))
    if not template:
        raise ClaimError("shared", name)
    if claim is None or claim.owner != pod.uid:
        raise ClaimError("unmade", what)
    if claim.fault:
        raise ClaimError("of", what, claim.fault)
    if claim.mode and pod.place and pod.place.placer is Placer.WHOLE_JOB and claim.mode != pod.place.size:
        raise ClaimError("mode", what, claim.mode, pod.place.size)
    for request in claim.requests:
        kind = inventory.classes.get(("", request.device_class))
        if kind is None:
            raise ClaimError("class", what, request.device_class)
        conditions = kind.conditions | request.conditions
        if are_neuron(conditions):
            if kind.fault:
                raise ClaimError("of", messages.device_class(request.device_class), kind.fault)
            if request.fault:
                raise ClaimError("of", what, request.fault)
            yield Ask(what, conditions, request.count)
