"""Decides which placement annotations are trusted, because a user who may write pods can forge annotations.

A pod whose annotation is not trusted belongs to no job. It holds only its node and its devices. An Event and
the plugin's commands give the reason.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Final

from contract.placement import Placement, Placer
from placement import messages
from placement.decide.allocation import ClaimError, requested_devices
from placement.decide.topology import Topology
from placement.observe.inventory import Inventory
from placement.observe.model import Demand, DeviceRequest, JobKey, Pod, UnitSettings, intern
from placement.observe.selectors import NEURON_DRIVER

PLAN_ENTRY: Final = re.compile(r"(?<!\S)([0-9]{1,6})=(\S{1,63})(?!\S)", re.ASCII)


@dataclass(slots=True, eq=False)
class Member:
    """A pod with the facts that decisions trust: a member of its job, or a job of its own."""

    pod: Pod  # as it was read
    key: JobKey  # its job; for a pod that belongs to no job, the pod itself
    placement: Placement | None  # its placement annotation; None if it has none, or if it is not trusted
    demand: Demand  # its demand on a node, including its device claims
    has_claim: bool  # whether its claims have, or will get, Neuron devices of its node
    uses_devices: bool  # whether it requests or claims devices of a family
    pin: str | None  # the unit of its pin, or the unit that an unfinished admission plans for it; or None
    problem: str = ""  # why it cannot be placed, or why its annotation is not trusted; empty otherwise
    unit: str | None = None  # a worker's unit: the unit of its node, else of its pin; None if it has neither


def unexamined_member(pod: Pod, units: UnitSettings) -> Member:
    """Returns a pod that a bug affects, as if it had all devices that it requests and claims."""
    has_devices = pod.demand.uses(units.devices) or bool(pod.claims)
    return Member(
        pod, pod.key, pod.placement, pod.demand, has_claim=False, uses_devices=has_devices, pin=pod.pin
    )


def _distrust_reason(member: Member, topology: Topology, units: UnitSettings) -> str:
    """Returns why the placement annotation of a pod is not trusted; empty if it is trusted."""
    pod, placement = member.pod, member.pod.placement
    if placement is None:
        return ""
    kind = units.kinds.get(placement.unit)
    if kind is None or not kind.takes(placement.size):
        return messages.fault("units", placement.size, placement.unit[:80])
    if not (member.uses_devices or pod.claims) and placement.placer is Placer.WHOLE_JOB:
        return messages.fault("devices", kind.resource)
    node = topology.nodes.get(pod.node) if pod.node else None
    if node is not None and placement.unit not in node.labels:
        return messages.fault("unlabelled", node.name, placement.unit)
    return ""


class Examiner:
    """Decides which annotations of pods are trusted, from what the watches show.

    Args:
        bound: For this time after its admission, a pod with a node is assumed to have the devices that it
            claims, because the watch of claims may be behind the watch of pods. The plans of an admission are
            trusted for the same time.
        known_members: The reusable members of the last decision, by the pod's uid. A member is used again if
            its pod has not changed, and no pod has Neuron devices by claims.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - all inputs of the decision
        self,
        pods: Sequence[Pod],
        inventory: Inventory,
        topology: Topology,
        units: UnitSettings,
        now: datetime,
        bound: timedelta,
        known_members: Mapping[str, Member] | None = None,
    ) -> None:
        self._inventory, self._topology, self._units = inventory, topology, units
        self._now, self._bound = now, bound
        claims = inventory.claims.items()
        users = ((key[0], claim.users) for key, claim in claims if claim.has_neuron)
        self._claim_users = {(namespace, uid) for namespace, uids in users for uid in uids}
        self._planned_units = self._read_plans(pods)
        # Many pods have the same demand.
        self._uses_devices = cache(lambda demand: demand.uses(units.devices))
        self._known_members = {} if self._claim_users or known_members is None else known_members
        self.reusable_members: dict[str, Member] = {}  # by the pod's uid, for the next decision

    def member_of(self, pod: Pod) -> Member:
        """Returns a pod with the facts that decisions trust."""
        member = self._known_members.get(pod.uid)
        if member is None or member.pod is not pod:
            member = self._examine(pod)
        if not (pod.claims or self._claim_users):
            self.reusable_members[pod.uid] = member
        if self._planned_units and pod.gated and member.placement and member.pin is None:
            unit = self._planned_unit(pod)
            return replace(member, pin=unit, unit=unit) if unit else member
        return member

    def _examine(self, pod: Pod) -> Member:
        member = self.with_claims(pod)
        if pod.placement and (why := _distrust_reason(member, self._topology, self._units)):
            key = pod.namespace, f"/pod/{pod.name}"
            return replace(member, key=key, placement=None, pin=None, problem=why, unit=None)
        return member

    def with_claims(self, pod: Pod) -> Member:
        """Returns a pod with the devices that it claims or has, whether or not its annotation is trusted."""
        demand, problem = pod.demand, messages.fault(*pod.fault) if pod.fault else ""
        has_claim = (pod.namespace, pod.uid) in self._claim_users
        if pod.claims and not has_claim and (not pod.node or self._was_just_admitted(pod)):
            requests, why = self._claim_requests(pod)
            problem = problem or why
            # If the pod has a node, its claims list its devices on this node, or soon will.
            has_claim = bool(pod.node and requests)
            if requests and not has_claim:
                demand = intern(replace(demand, claims=requests))
        uses_devices = has_claim or self._uses_devices(demand)
        node = self._topology.nodes.get(pod.node) if pod.placement else None
        unit = (node.unit(pod.placement.unit) if node and pod.placement else None) or pod.pin
        return Member(pod, pod.key, pod.placement, demand, has_claim, uses_devices, pod.pin, problem, unit)

    def _was_just_admitted(self, pod: Pod) -> bool:
        return pod.admitted_at is not None and abs(self._now - pod.admitted_at) < self._bound

    def _claim_requests(self, pod: Pod) -> tuple[tuple[DeviceRequest, ...], str]:
        """Returns the requests of a pod's claims, and why they cannot be read: an empty text if they can."""
        try:
            return requested_devices(self._inventory, pod), ""
        except ClaimError as error:
            # An admitted pod must hold its unit even if its claims are gone, so it counts as using devices.
            all_devices = DeviceRequest(messages.ALL_CLAIMS, NEURON_DRIVER, 0)
            return ((all_devices,) if pod.admitted_at else ()), messages.fault(*error.args)

    def _read_plans(self, pods: Sequence[Pod]) -> dict[tuple[JobKey, int], tuple[str, datetime]]:
        """Returns the unit and time of recent plans by job and block, for blocks without admitted workers."""
        plans: dict[tuple[JobKey, int], tuple[str, datetime]] = {}
        for pod in pods:
            if pod.admitted_at is not None and pod.plan and not pod.deleting and self._was_just_admitted(pod):
                for block, unit in PLAN_ENTRY.findall(pod.plan):
                    plans[pod.key, int(block)] = unit, pod.admitted_at
        if plans:
            for pod in pods:
                if pod.placement and (pod.node or pod.admitted_at):
                    plans.pop((pod.key, pod.block), None)
        return plans

    def _planned_unit(self, pod: Pod) -> str | None:
        """Returns the planned unit of a pod; None without a plan, or if the pod is newer than the plan."""
        unit, since = self._planned_units.get((pod.key, pod.block), (None, self._now))
        return unit if pod.created <= since else None
