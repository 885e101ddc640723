"""Devices for device claims: which devices nodes offer, pods request, and claims already have."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple

from contract.placement import Placer
from placement import messages
from placement.observe.inventory import Inventory, Slice, key_of
from placement.observe.model import Device, DeviceRequest, JobKey, Node, Pod, are_neuron

CLAIMED: Final = "claimed devices"
"""A resource of this program: devices that pods on a node claim, and that are not allocated to them yet."""

MOST_DEVICE_REQUESTS: Final = 8
"""Maximum number of requests for Neuron devices in all claims of a pod."""


class Allocation(NamedTuple):
    """Devices of a node that are allocated to a claim."""

    claim: JobKey  # the namespace, and ``/claim/NAME`` in place of a job label
    node: str
    # By resource, in thousandths. For a claim that the scheduler created for extended resources, the amounts
    # that its pods request in their specs are subtracted, because the usage of the pods includes them.
    amounts: Mapping[str, int]
    is_orphaned: bool  # whether the devices are Neuron devices that no existing pod uses


class ClaimError(Exception):
    """The claims of a pod cannot be compared with nodes. The arguments form a `Fault`."""


def unmet_request(
    requests: Sequence[DeviceRequest], devices: Sequence[Device], used: Mapping[str, int]
) -> DeviceRequest | None:
    """Returns a request of a pod for which a node has too few free devices; None if it has enough for all.

    Requests with more conditions come first, and get the devices that suit the fewest requests. A
    request for all devices is met only if devices meet its conditions, and all these devices are free.
    """
    chosen = {device.key for device in devices if device.tainted}
    suiting = {
        conditions: [device.key for device in devices if conditions <= device.attributes]
        for conditions in {request.conditions for request in requests}
    }
    request_counts = Counter(chain.from_iterable(suiting.values()))
    for request in sorted(requests, key=lambda request: -len(request.conditions)):
        suitable = suiting[request.conditions]
        free = [key for key in suitable if key not in used and key not in chosen]
        count = request.count or max(len(suitable), 1)
        if len(free) - used.get(CLAIMED, 0) // 1000 < count:
            return request
        if len(suiting) > 1:
            free.sort(key=request_counts.__getitem__)
        chosen.update(free[:count])
    return None


def with_devices(inventory: Inventory, nodes: Mapping[str, Node]) -> Mapping[str, Node]:
    """Returns the nodes with their devices and extended resources; unchanged if the inventory is stale."""
    if inventory.stale_reason:
        return nodes
    by_node: defaultdict[str, list[Device]] = defaultdict(list)
    # If several classes have the same extendedResourceName, the newest is used; if they are equally old, the
    # first by name (API reference).
    by_age = sorted(sorted(inventory.classes.items(), reverse=True), key=lambda item: item[1].created)
    newest = {entry.resource: entry for _, entry in by_age if entry.resource}
    classes = [entry for entry in newest.values() if not entry.fault]
    for node, device in _devices(inventory.slices.values()):
        resources = {entry.resource for entry in classes if entry.conditions <= device.attributes}
        is_offered = resources and not device.tainted
        by_node[node].append(replace(device, resources=tuple(resources)) if is_offered else device)
    return {**nodes, **{name: _with_devices(nodes[name], by_node[name]) for name in by_node if name in nodes}}


def _devices(slices: Iterable[Slice]) -> Iterator[tuple[str, Device]]:
    """Yields the devices of each pool whose newest generation is complete, each with the name of its node."""
    pools: defaultdict[tuple[str, str], defaultdict[int, list[Slice]]]
    pools = defaultdict(lambda: defaultdict(list))
    for part in slices:
        pools[part.pool][part.generation].append(part)
    for generations in pools.values():
        newest = generations[max(generations)]
        if all(part.slice_count == len(newest) for part in newest):
            yield from ((part.node, device) for part in newest for device in part.devices)


def _with_devices(node: Node, devices: list[Device]) -> Node:
    counts = Counter(resource for device in devices for resource in device.resources)
    # If the kubelet reports an amount of the resource, a device plugin serves it, and that amount is used.
    from_plugins = {name: amount for name, amount in node.allocatable.items() if amount}
    return replace(
        node,
        devices=tuple(sorted(devices, key=lambda device: device.key)),
        allocatable={name: 1000 * count for name, count in counts.items()} | from_plugins,
    )


def allocations(inventory: Inventory, nodes: Mapping[str, Node], pods: Iterable[Pod]) -> Iterator[Allocation]:
    """Yields for each claim and node the devices of the node that are allocated to the claim."""
    if not inventory.claims:
        return
    devices = {device.key: (name, device) for name, node in nodes.items() for device in node.devices}
    by_uid = {pod.uid: pod for pod in pods}
    for (namespace, name), claim in inventory.claims.items():
        by_node: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for driver, pool, device_name in claim.devices:
            key = key_of(driver, pool, device_name)
            # If the slice of the device is gone, the pool's name is used: it is usually the name of the node.
            node, device = devices.get(key, (pool, None))
            by_node[node].update(dict.fromkeys((key, *(device.resources if device else ())), 1000))
        users = [by_uid[uid] for uid in claim.users if uid in by_uid]
        requested = Counter[str]()
        for pod in users if claim.extended else ():
            requested.update(pod.demand.requests)
        claim_key, is_orphaned = (namespace, f"/claim/{name}"), claim.has_neuron and not users
        for node, amounts in by_node.items():
            yield Allocation(claim_key, node, amounts - requested, is_orphaned)


def requested_devices(inventory: Inventory, pod: Pod) -> tuple[DeviceRequest, ...]:
    """Returns the requests for Neuron devices in the claims that were created for a pod.

    Raises:
        ClaimError: The claims cannot be compared with nodes.
    """
    if inventory.stale_reason and pod.gated:
        raise ClaimError("stale", inventory.stale_reason)
    requests = tuple(chain.from_iterable(_requests_of(inventory, pod, *entry) for entry in pod.claims))
    if len(requests) > MOST_DEVICE_REQUESTS:
        raise ClaimError("many", len(requests), MOST_DEVICE_REQUESTS)
    return requests


def _requests_of(inventory: Inventory, pod: Pod, template: str, name: str) -> Iterator[DeviceRequest]:
    """Yields the requests for Neuron devices in one claim of a pod; the scheduler handles other devices."""
    template_name, claim = messages.template(template), inventory.claims.get((pod.namespace, name))
    if not template:
        raise ClaimError("shared", name)
    if claim is None or claim.owner != pod.uid:
        raise ClaimError("uncreated", template_name)
    if claim.fault:
        raise ClaimError("nested", template_name, claim.fault)
    placement = pod.placement
    if placement and placement.placer is Placer.WHOLE_JOB and claim.mode not in (0, placement.size):
        raise ClaimError("mode", template_name, claim.mode, placement.size)
    for request in claim.requests:
        device_class = inventory.classes.get(("", request.device_class))
        if device_class is None:
            raise ClaimError("class", template_name, request.device_class)
        conditions = device_class.conditions | request.conditions
        if are_neuron(conditions):
            if device_class.fault:
                raise ClaimError("nested", messages.device_class(request.device_class), device_class.fault)
            if request.fault:
                raise ClaimError("nested", template_name, request.fault)
            yield DeviceRequest(template_name, conditions, request.count)
