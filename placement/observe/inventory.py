"""Reads objects of ``resource.k8s.io/v1`` (Kubernetes 1.34, "Dynamic Resource Allocation").

Users could write very large device claims. So only the fields that decisions need are stored, and the number
of requests is limited. ResourceClaimTemplates are not read: kube-controller-manager creates the claims even
while a pod is gated, so the claims can be read. If the controller cannot create them, for example because of
a quota, nothing is lost: the pod could not start in any case.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from contract.keys import DRIVER
from kube.api import Object
from placement.limits import MOST_COMPARED
from placement.observe.model import HARD_EFFECTS, Conditions, Device, Fault
from placement.observe.selectors import condition, parse_selectors

API_PATH: Final = "/apis/resource.k8s.io/v1"

# The annotation of a claim that the scheduler created for a pod's requests of extended resources.
_EXTENDED: Final = "resource.kubernetes.io/extended-resource-claim"

_MAX_NAME_LENGTH: Final = 253  # maximum characters of a name or a uid
_COMPARED: Final = ("string", "int", "bool")  # the types of attributes that are compared


class Slice(NamedTuple):
    """A ResourceSlice of one node: devices that a driver publishes."""

    node: str
    pool: tuple[str, str]  # the names of the driver and the pool
    generation: int  # the generation of the pool: slices of an older generation are outdated
    slice_count: int  # the number of slices of the pool; nothing is allocated from an incomplete pool
    devices: tuple[Device, ...]


class DeviceClass(NamedTuple):
    """A DeviceClass."""

    conditions: Conditions  # the conditions that its devices meet
    resource: str  # the extended resource that it serves; empty if it serves none
    created: str  # the creation time as the API server writes it
    fault: Fault | None  # why its selectors cannot be read; None if they can


@dataclass(frozen=True, slots=True)
class Request:
    """A request for devices in a ResourceClaim."""

    device_class: str
    conditions: Conditions  # conditions that each device must meet, in addition to the class's conditions
    count: int  # the number of devices; 0 for all devices that meet the conditions
    fault: Fault | None  # why it cannot be read: a selector, or ``firstAvailable``; None if it can


class Claim(NamedTuple):
    """A ResourceClaim."""

    requests: tuple[Request, ...]  # empty if there is a fault or no owner, or if devices are allocated
    fault: Fault | None  # the fault that its requests are too long to be stored; or None
    mode: int  # the node config in its parameters for the Neuron driver; 0 if they have none
    owner: str  # the uid of the pod for which it was created; empty if a user created it
    devices: tuple[tuple[str, str, str], ...]  # driver, pool, name of devices allocated without adminAccess
    users: tuple[str, ...]  # the uids of the pods that may use these devices
    extended: bool  # whether the scheduler created it for a pod's requests of extended resources

    @property
    def has_neuron(self) -> bool:
        """Whether devices of the Neuron driver are allocated to it."""
        return any(driver == DRIVER for driver, _, _ in self.devices)


@dataclass(frozen=True)
class Inventory:
    """All objects for device claims, by namespace (empty for cluster-scoped objects) and name."""

    slices: Mapping[tuple[str, str], Slice] = field(default_factory=dict)
    classes: Mapping[tuple[str, str], DeviceClass] = field(default_factory=dict)
    claims: Mapping[tuple[str, str], Claim] = field(default_factory=dict)
    # Why one of these maps may be out of date; empty if all are current. While it is not empty, no node
    # offers devices for claims.
    stale_reason: str = field(default="", kw_only=True)


def key_of(driver: str, pool: str, name: str) -> str:
    """Returns the key of a device. An allocated device is counted as used under this key, like a resource."""
    return f"device {driver}/{pool}/{name}"


def read_slice(raw: Object) -> Slice | None:
    """Returns a slice; None for slices without a node name, which only the scheduler handles."""
    spec = raw.get("spec") or {}
    if not spec.get("nodeName"):
        return None
    driver, pool = spec.get("driver", ""), spec.get("pool") or {}
    name = pool.get("name", "")
    devices = tuple(
        Device(
            key_of(driver, name, device.get("name", "")),
            _attributes(device, driver),
            # This program ignores tolerations of device taints; only the scheduler handles them.
            tainted=any(taint.get("effect") in HARD_EFFECTS for taint in device.get("taints") or ()),
        )
        for device in spec.get("devices") or ()
    )
    generation, slice_count = pool.get("generation", 0), pool.get("resourceSliceCount", 1)
    return Slice(spec["nodeName"], (driver, name), generation, slice_count, devices)


def read_class(raw: Object) -> DeviceClass:
    """Returns a DeviceClass."""
    spec = raw.get("spec") or {}
    conditions, fault = parse_selectors(spec.get("selectors") or ())
    created = (raw.get("metadata") or {}).get("creationTimestamp") or ""
    return DeviceClass(conditions, spec.get("extendedResourceName") or "", created, fault)


def read_claim(raw: Object) -> Claim:
    """Returns a ResourceClaim."""
    metadata, status = raw.get("metadata") or {}, raw.get("status") or {}
    annotations = metadata.get("annotations") or {}
    owners = (item for item in metadata.get("ownerReferences") or () if item.get("kind") == "Pod")
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    owner = next((item.get("uid", "")[:_MAX_NAME_LENGTH] for item in owners), "")
    devices = (raw.get("spec") or {}).get("devices") or {}
    requests = tuple(_requests(devices)) if owner and not results else ()
    size = sum(1 + len(request.conditions) for request in requests)
    is_too_long = size > MOST_COMPARED
    return Claim(
        requests=() if is_too_long else requests,
        fault=("requests", size) if is_too_long else None,
        mode=_node_config(devices),
        owner=owner,
        devices=tuple(
            (item.get("driver", ""), item.get("pool", ""), item.get("device", ""))
            for item in results
            if not item.get("adminAccess")  # with admin access, a device stays free for other pods
        ),
        users=tuple(
            item.get("uid", "") for item in status.get("reservedFor") or () if item.get("resource") == "pods"
        ),
        extended=_EXTENDED in annotations,
    )


READERS: Final[Mapping[str, Callable[[Object], Any]]] = {
    f"{API_PATH}/resourceslices": read_slice,
    f"{API_PATH}/deviceclasses": read_class,
    f"{API_PATH}/resourceclaims": read_claim,
}
"""The path of each collection, in the order of `Inventory`'s fields, with its reader."""


def _node_config(devices: Object) -> int:
    opaque = (item.get("opaque") or {} for item in devices.get("config") or ())
    # Parameters can be any JSON value: only the driver knows their type.
    parameters = [item.get("parameters") for item in opaque if item.get("driver") == DRIVER]
    configs = (values.get("ultraserverMode") for values in reversed(parameters) if isinstance(values, dict))
    return next((node_config for node_config in configs if type(node_config) is int), 0)


def _requests(devices: Object) -> Iterator[Request]:
    for request in devices.get("requests") or ():
        request_spec, fault_of_choices = request.get("exactly"), ("choices", request.get("name"))
        if not isinstance(request_spec, dict):
            for choice in request.get("firstAvailable") or ():
                conditions, _ = parse_selectors(choice.get("selectors") or ())
                yield Request(choice.get("deviceClassName", ""), conditions, 1, fault_of_choices)
        elif not request_spec.get("adminAccess"):
            count = 0 if request_spec.get("allocationMode") == "All" else request_spec.get("count", 1)
            conditions, fault = parse_selectors(request_spec.get("selectors") or ())
            yield Request(request_spec.get("deviceClassName", ""), conditions, count, fault)


def _attributes(device: Object, driver: str) -> Conditions:
    """Returns a device's driver and attributes. If an attribute has no domain, the driver is its domain."""
    conditions = {
        condition(name if "/" in name else f"{driver}/{name}", value)
        for name, values in (device.get("attributes") or {}).items()
        for kind, value in values.items()
        if kind in _COMPARED
    }
    return frozenset({("driver", driver), *conditions})
