"""Objects of ``resource.k8s.io/v1`` (Kubernetes 1.34, "Dynamic Resource Allocation"), as far as they matter.

Claims are tenants' objects: of each as much is kept as is needed, and of bounded length. Templates are not
looked at: kube-controller-manager makes claims of gated pods, too, and where it may not (by a quota, say) the
pod could not start.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from contract.keys import DRIVER
from kube.api import Object
from placement.observe.model import HARD, Conditions, Device, Fault
from placement.observe.selectors import MOST_COMPARED, condition, selected

API: Final = "/apis/resource.k8s.io/v1"

# Annotations of a claim: the name of the pod's entry for which it was made; and that the scheduler made it
# for what a pod requests.
_EXTENDED: Final = "resource.kubernetes.io/extended-resource-claim"

MOST_NAME: Final = 253  # characters of a name, or a uid, that are kept: they have no bound elsewhere
_COMPARED: Final = ("string", "int", "bool")  # types of attributes; a version is no string to the scheduler


class Slice(NamedTuple):
    """Devices of one node, as its driver publishes them."""

    node: str
    pool: tuple[str, str]  # driver and pool
    generation: int  # of the pool: slices of an older one are out of date
    slices: int  # that the pool has: the scheduler gives nothing of one that is not all there
    devices: tuple[Device, ...]


class DeviceClass(NamedTuple):
    """A device class."""

    conditions: Conditions  # what its devices are
    resource: str  # the extended resource that it serves; empty for none
    created: str  # as the API server writes it
    fault: Fault | None  # why its selectors cannot be read


@dataclass(frozen=True, slots=True)
class Request:
    """A request for devices."""

    device_class: str
    conditions: Conditions  # what each device is, beside what its class says
    count: int  # 0 for all that suit
    fault: Fault | None  # why its selectors cannot be compared with nodes


class Claim(NamedTuple):
    """A ResourceClaim."""

    requests: tuple[Request, ...]  # what it asks for; none once it has devices, or is nobody's
    fault: Fault | None  # why none of these are kept
    mode: int  # the node config that it asks the Neuron driver for; 0 for none
    owner: str  # the uid of the pod that it was made for; empty for one that somebody made by hand
    devices: tuple[tuple[str, str, str], ...]  # driver, pool and name of each that it has
    users: tuple[str, ...]  # the uids of the pods that may use them
    extended: bool  # whether the scheduler made it for a pod's requests, which count already

    @property
    def neuron(self) -> bool:
        """Whether it has devices of the Neuron driver."""
        return any(driver == DRIVER for driver, _, _ in self.devices)


@dataclass(frozen=True)
class Inventory:
    """All that is there of claims, each by namespace, which may be empty, and name."""

    slices: Mapping[tuple[str, str], Slice] = field(default_factory=dict)
    classes: Mapping[tuple[str, str], DeviceClass] = field(default_factory=dict)
    claims: Mapping[tuple[str, str], Claim] = field(default_factory=dict)
    # Why one of them may be old: who has devices is not known then, so that nothing offers any.
    lost: str = field(default="", kw_only=True)


def key_of(driver: str, pool: str, name: str) -> str:
    """The key of a device, and the resource by which it counts as used."""
    return f"device {driver}/{pool}/{name}"


def read_slice(found: Object) -> Slice | None:
    """The devices of a node; None for those of no single node, which are left to the scheduler."""
    spec = found.get("spec") or {}
    if not spec.get("nodeName"):
        return None
    driver, pool = spec.get("driver", ""), spec.get("pool") or {}
    name = pool.get("name", "")
    devices = tuple(
        Device(
            key_of(driver, name, device.get("name", "")),
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
    conditions, fault = selected(spec.get("selectors") or ())
    created = (found.get("metadata") or {}).get("creationTimestamp") or ""
    return DeviceClass(conditions, spec.get("extendedResourceName") or "", created, fault)


def read_claim(found: Object) -> Claim:
    """A claim."""
    metadata, status = found.get("metadata") or {}, found.get("status") or {}
    annotations = metadata.get("annotations") or {}
    owners = (item for item in metadata.get("ownerReferences") or () if item.get("kind") == "Pod")
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    owner = next((item.get("uid", "")[:MOST_NAME] for item in owners), "")
    asked = (found.get("spec") or {}).get("devices") or {}
    requests = tuple(_requests(asked)) if owner and not results else ()
    count = sum(1 + len(one.conditions) for one in requests)
    many = count > MOST_COMPARED
    return Claim(
        requests=() if many else requests,
        fault=("requests", count) if many else None,
        mode=_mode(asked),
        owner=owner,
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


READERS: Final[Mapping[str, Callable[[Object], Any]]] = {
    f"{API}/resourceslices": read_slice,
    f"{API}/deviceclasses": read_class,
    f"{API}/resourceclaims": read_claim,
}
"""Where the collections are, in the order of `Inventory`'s fields, and what is kept of their objects."""


def _mode(devices: Object) -> int:
    opaque = (item.get("opaque") or {} for item in devices.get("config") or ())
    told = [one.get("parameters") for one in opaque if one.get("driver") == DRIVER]  # whatever it takes
    modes = (said.get("ultraserverMode") for said in reversed(told) if isinstance(said, dict))
    return next((mode for mode in modes if type(mode) is int), 0)


def _requests(devices: Object) -> Iterator[Request]:
    for found in devices.get("requests") or ():
        exactly, unsaid = found.get("exactly"), ("choices", found.get("name"))
        if not isinstance(exactly, dict):
            for choice in found.get("firstAvailable") or ():
                conditions, _ = selected(choice.get("selectors") or ())
                yield Request(choice.get("deviceClassName", ""), conditions, 1, unsaid)
        elif not exactly.get("adminAccess"):
            count = 0 if exactly.get("allocationMode") == "All" else exactly.get("count", 1)
            conditions, fault = selected(exactly.get("selectors") or ())
            yield Request(exactly.get("deviceClassName", ""), conditions, count, fault)


def _attributes(device: Object, driver: str) -> Conditions:
    """The attributes of a device, by domain and name; one without a domain is the driver's."""
    known = {
        condition(name if "/" in name else f"{driver}/{name}", value)
        for name, said in (device.get("attributes") or {}).items()
        for kind, value in said.items()
        if kind in _COMPARED
    }
    return frozenset({("driver", driver), *known})
