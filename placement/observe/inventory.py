"""Objects of ``resource.k8s.io/v1`` (Kubernetes 1.34, "Dynamic Resource Allocation"), as far as needed.

Device claims are users' objects: only needed fields are kept, with limited lengths. Templates are not read:
kube-controller-manager creates the claims of gated pods, too, and if it cannot (because of a quota, for
example) the pod could not start.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from contract.keys import DRIVER
from kube.api import Object
from placement.limits import MOST_COMPARED
from placement.observe.model import HARD, Conditions, Device, Fault
from placement.observe.selectors import condition, selected

API: Final = "/apis/resource.k8s.io/v1"

# Annotations of a claim: the name of the pod's entry for which it was created; and that the scheduler created
# it for a pod's requests.
_EXTENDED: Final = "resource.kubernetes.io/extended-resource-claim"

MOST_NAME: Final = 253  # most characters of a name or a uid, which have no limit elsewhere
_COMPARED: Final = ("string", "int", "bool")  # types that can be compared; versions are not compared


class Slice(NamedTuple):
    """Devices of one node, as its driver publishes them."""

    node: str
    pool: tuple[str, str]  # driver and pool
    generation: int  # the generation of the pool: slices of an older one are outdated
    slices: int  # the number of slices of the pool: the scheduler allocates nothing from an incomplete pool
    devices: tuple[Device, ...]


class DeviceClass(NamedTuple):
    """A device class."""

    conditions: Conditions  # the conditions for its devices
    resource: str  # the extended resource that it serves; empty for none
    created: str  # the creation time as the API server writes it
    fault: Fault | None  # why its selectors cannot be read


@dataclass(frozen=True, slots=True)
class Request:
    """A request for devices."""

    device_class: str
    conditions: Conditions  # conditions for each device, in addition to those of its class
    count: int  # the number of devices; 0 for all that match
    fault: Fault | None  # why its selectors cannot be compared with nodes


class Claim(NamedTuple):
    """A ResourceClaim."""

    requests: tuple[Request, ...]  # its requests; none once it has devices, or belongs to no pod
    fault: Fault | None  # why no requests are kept
    mode: int  # the node config in its parameters for the Neuron driver; 0 for none
    owner: str  # the uid of the pod for which it was created; empty for one that a user created
    devices: tuple[tuple[str, str, str], ...]  # driver, pool and name of each of its devices
    users: tuple[str, ...]  # the uids of the pods that may use them
    extended: bool  # whether the scheduler created it for a pod's requests, which are already counted

    @property
    def neuron(self) -> bool:
        """Whether it has devices of the Neuron driver."""
        return any(driver == DRIVER for driver, _, _ in self.devices)


@dataclass(frozen=True)
class Inventory:
    """All objects for device claims, each by namespace, which may be empty, and name."""

    slices: Mapping[tuple[str, str], Slice] = field(default_factory=dict)
    classes: Mapping[tuple[str, str], DeviceClass] = field(default_factory=dict)
    claims: Mapping[tuple[str, str], Claim] = field(default_factory=dict)
    # Why a copy may be stale: then the users of devices are not known, so that no node offers any.
    lost: str = field(default="", kw_only=True)


def key_of(driver: str, pool: str, name: str) -> str:
    """Returns the key of a device, which is also the resource by which it counts as used."""
    return f"device {driver}/{pool}/{name}"


def read_slice(raw: Object) -> Slice | None:
    """Returns the devices of a node; None for those of no single node, which are left to the scheduler."""
    spec = raw.get("spec") or {}
    if not spec.get("nodeName"):
        return None
    driver, pool = spec.get("driver", ""), spec.get("pool") or {}
    name = pool.get("name", "")
    devices = tuple(
        Device(
            key_of(driver, name, device.get("name", "")),
            _attributes(device, driver),
            # Tolerations of such taints are left to the scheduler.
            tainted=any(taint.get("effect") in HARD for taint in device.get("taints") or ()),
        )
        for device in spec.get("devices") or ()
    )
    whole = pool.get("generation", 0), pool.get("resourceSliceCount", 1)
    return Slice(spec["nodeName"], (driver, name), *whole, devices)


def read_class(raw: Object) -> DeviceClass:
    """Returns a device class."""
    spec = raw.get("spec") or {}
    conditions, fault = selected(spec.get("selectors") or ())
    created = (raw.get("metadata") or {}).get("creationTimestamp") or ""
    return DeviceClass(conditions, spec.get("extendedResourceName") or "", created, fault)


def read_claim(raw: Object) -> Claim:
    """Returns a claim."""
    metadata, status = raw.get("metadata") or {}, raw.get("status") or {}
    annotations = metadata.get("annotations") or {}
    owners = (item for item in metadata.get("ownerReferences") or () if item.get("kind") == "Pod")
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    owner = next((item.get("uid", "")[:MOST_NAME] for item in owners), "")
    devices = (raw.get("spec") or {}).get("devices") or {}
    requests = tuple(_requests(devices)) if owner and not results else ()
    count = sum(1 + len(request.conditions) for request in requests)
    many = count > MOST_COMPARED
    return Claim(
        requests=() if many else requests,
        fault=("requests", count) if many else None,
        mode=_mode(devices),
        owner=owner,
        devices=tuple(
            (item.get("driver", ""), item.get("pool", ""), item.get("device", ""))
            for item in results
            if not item.get("adminAccess")  # admin access takes nothing from others
        ),
        users=tuple(
            item.get("uid", "") for item in status.get("reservedFor") or () if item.get("resource") == "pods"
        ),
        extended=_EXTENDED in annotations,
    )


READERS: Final[Mapping[str, Callable[[Object], Any]]] = {
    f"{API}/resourceslices": read_slice,
    f"{API}/deviceclasses": read_class,
    f"{API}/resourceclaims": read_claim,
}
"""The paths of the collections, in the order of `Inventory`'s fields, and the functions that read objects."""


def _mode(devices: Object) -> int:
    opaque = (item.get("opaque") or {} for item in devices.get("config") or ())
    # Any JSON value: only the driver knows the type of its parameters.
    parameters = [item.get("parameters") for item in opaque if item.get("driver") == DRIVER]
    modes = (values.get("ultraserverMode") for values in reversed(parameters) if isinstance(values, dict))
    return next((mode for mode in modes if type(mode) is int), 0)


def _requests(devices: Object) -> Iterator[Request]:
    for request in devices.get("requests") or ():
        exactly, unsaid = request.get("exactly"), ("choices", request.get("name"))
        if not isinstance(exactly, dict):
            for choice in request.get("firstAvailable") or ():
                conditions, _ = selected(choice.get("selectors") or ())
                yield Request(choice.get("deviceClassName", ""), conditions, 1, unsaid)
        elif not exactly.get("adminAccess"):
            count = 0 if exactly.get("allocationMode") == "All" else exactly.get("count", 1)
            conditions, fault = selected(exactly.get("selectors") or ())
            yield Request(exactly.get("deviceClassName", ""), conditions, count, fault)


def _attributes(device: Object, driver: str) -> Conditions:
    """Returns the attributes of a device, by domain and name; one without a domain is the driver's."""
    conditions = {
        condition(name if "/" in name else f"{driver}/{name}", value)
        for name, typed in (device.get("attributes") or {}).items()
        for kind, value in typed.items()
        if kind in _COMPARED
    }
    return frozenset({("driver", driver), *conditions})
