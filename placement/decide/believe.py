"""Decides which placement annotations are trusted: anyone who can write a pod can write its annotation.

A pod whose annotation is not believed holds only what it really has: its node and its devices. It is part of
no job, and the commands show why.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Final

from contract.place import Place, Placer
from placement import messages
from placement.decide.allocation import ClaimError, requested_devices
from placement.decide.topology import Topology
from placement.observe.inventory import Inventory
from placement.observe.model import Ask, Demand, JobKey, Pod, Units, is_pod, shared
from placement.observe.selectors import OURS

PLANNED: Final = re.compile(r"(?<!\S)([0-9]{1,6})=(\S{1,63})(?!\S)", re.ASCII)


@dataclass(slots=True, eq=False)
class Member:
    """A pod with the facts that the decision accepts: a member of its job, or a job of its own."""

    pod: Pod  # as it was read
    key: JobKey  # its job; for a pod that belongs to no job, the pod itself
    place: Place | None  # where it takes a node for a job; None where it does not, or is not believed
    demand: Demand  # what it asks of a node, with what it claims
    claimed: bool  # whether claims give it Neuron devices of its node
    neuron: bool  # whether it requests or claims devices of a family
    pin: str | None  # the unit of its pin, or the one that an unfinished admission plans for it
    problem: str  # why it cannot be placed, or is not believed; else empty
    unit: str | None = (
        None  # for a worker, the unit of its node, whose label may change; else that of its pin
    )
    alone: bool = field(init=False)  # whether it is a job of its own

    def __post_init__(self) -> None:
        """Computes what each decision asks."""
        self.alone = is_pod(self.key)

    @property
    def block(self) -> int:
        """The number of the job's unit that it belongs to: consecutive pods share one."""
        return self.pod.number // self.place.size if self.place else 0


def unjudged(pod: Pod, units: Units) -> Member:
    """Returns a pod that cannot be examined. It is treated as if it had everything that it names."""
    neuron = pod.demand.uses(units.devices) or bool(pod.claims)
    return Member(pod, pod.key, pod.place, pod.demand, claimed=False, neuron=neuron, pin=pod.pin, problem="")


def _doubt(pod: Pod, topology: Topology, units: Units, *, neuron: bool) -> str:
    """Returns why a worker's placement annotation is not believed; empty if it is."""
    place = pod.place
    if place is None:
        return ""
    kind = units.kinds.get(place.unit)
    if kind is None or not kind.takes(place.size):
        return messages.fault("units", place.size, place.unit[:80])
    if not (neuron or pod.claims) and place.placer is Placer.WHOLE_JOB:
        return messages.fault("devices", kind.resource)
    node = topology.nodes.get(pod.node) if pod.node else None
    if node is not None and place.unit not in node.labels:
        return messages.fault("unlabelled", node.name, place.unit)
    return ""


class Belief:
    """Decides which annotations of pods are trusted, from what the watches show.

    Args:
        bound: The time after its admission for which a pod counts as having the devices that it claims: the
            watch of pods may be ahead of the watch of claims. After that, only allocated devices are used.
        known: The members of the last decision, by the uids of pods, if units were the same, and nodes for
            those that have one. A pod without claims that has not changed is the same member.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - all inputs of the decision
        self,
        pods: Sequence[Pod],
        inventory: Inventory,
        topology: Topology,
        units: Units,
        now: datetime,
        bound: timedelta,
        known: Mapping[str, Member] | None = None,
    ) -> None:
        self._inventory, self._topology, self._units = inventory, topology, units
        self._now, self._bound = now, bound
        claims = inventory.claims.items()
        self._having = {(there, uid) for (there, _), claim in claims if claim.neuron for uid in claim.users}
        self._planned = self._plans(pods)
        self._uses = cache(lambda demand: demand.uses(units.devices))  # many pods have one demand
        self._known = {} if self._having or known is None else known
        self.members: dict[str, Member] = {}

    def of(self, pod: Pod) -> Member:
        """Returns a pod with those facts that are believed."""
        member = self._known.get(pod.uid)
        if member is None or member.pod is not pod:
            member = self._judged(pod)
        if not (pod.claims or self._having):
            self.members[pod.uid] = member
        if self._planned and pod.gated and member.place and member.pin is None and (unit := self._due(pod)):
            return replace(member, pin=unit, unit=unit)
        return member

    def _judged(self, pod: Pod) -> Member:
        member = self.claiming(pod)
        if pod.place and (why := _doubt(pod, self._topology, self._units, neuron=member.neuron)):
            key = pod.namespace, f"pod/{pod.name}"
            return replace(member, key=key, place=None, pin=None, problem=why, unit=None)
        return member

    def claiming(self, pod: Pod) -> Member:
        """Returns a pod with the devices that it claims and has; its annotation need not be believed."""
        demand, problem = pod.demand, messages.fault(*pod.fault) if pod.fault else ""
        claimed = (pod.namespace, pod.uid) in self._having
        if pod.claims and not claimed and (not pod.node or self._is_new(pod)):
            asks, why = self._asks(pod)
            problem = problem or why
            # If it has a node, its claims list the devices that it takes there, or will list them.
            claimed = bool(pod.node and asks)
            if asks and not claimed:
                demand = shared(replace(demand, claims=asks))
        uses = claimed or self._uses(demand)
        node = self._topology.nodes.get(pod.node) if pod.place else None
        unit = (node.unit(pod.place.unit) if node and pod.place else None) or pod.pin
        return Member(pod, pod.key, pod.place, demand, claimed, uses, pod.pin, problem, unit)

    def _is_new(self, pod: Pod) -> bool:
        return pod.opened is not None and abs(self._now - pod.opened) < self._bound

    def _asks(self, pod: Pod) -> tuple[tuple[Ask, ...], str]:
        """Returns the requests of a pod's claims, and the reason if they cannot be determined."""
        try:
            return requested_devices(self._inventory, pod), ""
        except ClaimError as error:
            # After its admission it holds the unit to which it is pinned, even if its claims are gone.
            return ((Ask(messages.ALL_CLAIMS, OURS, 0),) if pod.opened else ()), messages.fault(*error.args)

    def _plans(self, pods: Sequence[Pod]) -> dict[tuple[JobKey, int], tuple[str, datetime]]:
        """Returns the units, and the times, that unfinished admissions plan for blocks without pods."""
        plans: dict[tuple[JobKey, int], tuple[str, datetime]] = {}
        for pod in pods:
            if pod.opened is not None and pod.plan and not pod.deleting and self._is_new(pod):
                for block, unit in PLANNED.findall(pod.plan):
                    plans[pod.key, int(block)] = unit, pod.opened
        if plans:
            for pod in pods:
                if pod.place and (pod.node or pod.opened):
                    plans.pop((pod.key, pod.block), None)
        return plans

    def _due(self, pod: Pod) -> str | None:
        """Returns the planned unit of a pod that existed then; a recreated pod may need another unit."""
        unit, since = self._planned.get((pod.key, pod.block), (None, self._now))
        return unit if pod.created <= since else None
