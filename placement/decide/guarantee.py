"""Guarantees: a number of whole units that the jobs of a team's namespaces can always get.

A unit that only jobs of the team use meets a part of the guarantee. The units that are still missing are
owed to the team. Jobs of other namespaces, and jobs beyond the guarantee of their own team, get a free unit
only if enough units stay free for all teams to which units are owed. No job is evicted for a guarantee: a
new guarantee is met when jobs end.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, NamedTuple

from contract.placement import Placement
from placement import messages
from placement.decide.fit import Cause
from placement.decide.jobs import Job
from placement.decide.topology import Topology, Unit
from placement.observe.model import Demand, Guarantee, Holders, JobKey, Node, UnitSettings

UnitParts = Mapping[tuple[str, str], Mapping[tuple[JobKey, int], Any]]
"""For each shared unit, by label and id, the blocks that have a part of it (`Cluster.parts`)."""


class Use(NamedTuple):
    """The use of a guarantee by its team."""

    guarantee: Guarantee
    nodes: frozenset[str]  # names of the nodes of up to `guarantee.count` units that only the team uses
    owed: int  # the number of guaranteed units, minus the healthy units that the team uses


class UnitCounts(NamedTuple):
    """The use of the units of one node label. A unit is free if it has no holder and enough usable nodes."""

    free_nodes: Mapping[str, str]  # for each node of a free unit, the unit's id
    free_count: int  # the number of free units
    uses: tuple[Use, ...]  # the use of each guarantee


@dataclass
class Allowance:
    """The units of one node label that the guarantees of other teams leave to a job."""

    # For each node of a unit that another team uses within its guarantee, that guarantee.
    closed_nodes: Mapping[str, Guarantee]
    free_nodes: Mapping[str, str]  # for each node of a free unit, the unit's id
    spare_count: int  # the number of free units that the job may take
    team_names: str  # the other teams to which units are owed, for messages; empty if there are none
    # The ids of the free units that the job has chosen so far, or that are reserved for other jobs.
    chosen_units: set[str]
    # The nodes that the team of the job uses within its guarantee, if the job must stay within the guarantee;
    # otherwise None.
    own_nodes: frozenset[str] | None = None

    def permits(self, unit: Unit) -> bool:
        """Returns whether the job may take this unit in addition to its chosen units."""
        if not self.closed_nodes.keys().isdisjoint(unit.names):
            return False
        if self.own_nodes is not None and unit.names - self.own_nodes - self.free_nodes.keys():
            return False
        added = {self.free_nodes[name] for name in unit.names if name in self.free_nodes} - self.chosen_units
        return not added or len(self.chosen_units) + len(added) <= self.spare_count


def try_take(allowances: Sequence[Allowance], unit: Unit) -> bool:
    """Returns whether a job may take a unit, and if so, adds the unit to the job's chosen units."""
    if not all(allowance.permits(unit) for allowance in allowances):
        return False
    for allowance in allowances:
        free_nodes = allowance.free_nodes
        allowance.chosen_units.update(free_nodes[name] for name in unit.names if name in free_nodes)
    return True


class Guarantees:
    """The guarantees of a rule table during a decision."""

    def __init__(self, topology: Topology, units: UnitSettings, holders: Holders, parts: UnitParts) -> None:
        self._topology, self._units, self._holders, self._parts = topology, units, holders, parts
        self._rows = [row for row in units.guarantees if row.count and row.unit in units.kinds]
        self.labels = tuple(dict.fromkeys(row.unit for row in self._rows))
        # By label: the ids of the healthy units, which have enough usable nodes.
        self._healthy_units: dict[str, frozenset[str]] = {}
        # By label and unit id: the guarantee of the only team that uses the unit; None if the unit is free.
        self._teams: dict[str, dict[str, Guarantee | None]] = {}
        self._counts_by_label: dict[str, UnitCounts] = {}
        self._allowances: dict[tuple[str, Guarantee | None], Allowance] = {}
        self._guarantee_cache: dict[tuple[str, str], Guarantee | None] = {}
        self._label_cache: dict[tuple[str, int, tuple[Demand, ...]], Sequence[str]] = {}

    def recount(self, nodes: Iterable[Node]) -> None:
        """Counts the units of the nodes again, because the holders of the nodes have changed."""
        self._allowances.clear()
        self._counts_by_label.clear()
        for label in self._teams:
            for unit_id in {node.unit(label) for node in nodes}:
                if unit := self._topology.unit(label, unit_id):
                    self._find_team(label, unit)

    def guarantees_of(self, namespace: str) -> tuple[Guarantee | None, ...]:
        """Returns a namespace's guarantee (or None) for each label. Equal results mean equal allowances."""
        return tuple(self._guarantee(namespace, label) for label in self.labels)

    def allowances(
        self, job: Job, reserved_nodes: Collection[str] = (), within: Guarantee | None = None
    ) -> list[Allowance]:
        """Returns the units that a job may take, for each label that has guarantees.

        Args:
            job: The job.
            reserved_nodes: The names of nodes that are reserved for other jobs.
            within: The guarantee of the team if the job must take no unit beyond it; otherwise None.
        """
        allowances = []
        for label, team in zip(self.labels, self.guarantees_of(job.key[0]), strict=True):
            allowance = self._allowance(label, team)
            unit_ids = allowance.free_nodes
            reserved_units = {unit_ids[name] for name in reserved_nodes if name in unit_ids}
            allowance = replace(allowance, chosen_units=reserved_units)
            if team and team is within:
                use = self._use(team)
                allowance = replace(allowance, spare_count=use.owed, own_nodes=use.nodes)
            allowances.append(allowance)
        return allowances

    def covers(self, job: Job) -> bool:
        """Returns whether as many units as a job needs are owed to its team."""
        labels = self._suitable_labels(job.placement, job.demands)
        teams = ((label, self._guarantee(job.key[0], label)) for label in labels)
        return any(team and self._needed(job, label) <= self._use(team).owed for label, team in teams)

    def guarantee_for(self, job: Job) -> Guarantee | None:
        """Returns the guarantee of a job's team that has enough units for the job; None if there is none."""
        for label in self._suitable_labels(job.placement, job.demands):
            team = self._guarantee(job.key[0], label)
            if team and self._needed(job, label) <= team.count:
                return team
        return None

    def missing_units(self, job: Job) -> int:
        """Returns how many units must become free for other teams before a job can get units."""
        label = job.placement.unit
        if label not in self.labels or self.covers(job):
            return 0
        team = self._guarantee(job.key[0], label)
        owed_to_others = sum(use.owed for use in self._uses(label) if use.guarantee is not team)
        return max(owed_to_others - self._counts(label).free_count, 0)

    def why_never(self, job: Job) -> str | None:
        """Returns why guarantees of other teams always leave a job too few units; None if they do not."""
        for label in self._suitable_labels(job.placement, job.demands):
            needed, team = self._needed(job, label), self._guarantee(job.key[0], label)
            other_teams = [use.guarantee for use in self._uses(label) if use.guarantee is not team]
            kept = sum(guarantee.count for guarantee in other_teams)
            total = len(self._healthy_units[label])
            if kept and needed > max(total - kept, team.count if team else 0):
                teams = ", ".join(guarantee.team for guarantee in other_teams)
                needs = messages.needs(needed, self._units.kind_of_label(label).nodes)
                return messages.guaranteed_to_others(needs, teams, kept, total)
        return None

    def why_kept(self, unit: Unit, job: Job, allowances: Iterable[Allowance]) -> Cause | None:
        """Returns the cause if a guarantee keeps a unit for another team; None if none does."""
        for label, allowance in zip(self.labels, allowances, strict=True):
            free_count, needed = self._counts(label).free_count, self._needed(job, label)
            spare_count = allowance.spare_count - len(allowance.chosen_units)
            is_short = allowance.team_names and spare_count < needed <= free_count
            for name in sorted(unit.names):
                if guarantee := allowance.closed_nodes.get(name):
                    return Cause("guaranteed", messages.guaranteed_to(guarantee.team))
                if is_short and name in allowance.free_nodes:
                    return Cause("guaranteed", messages.guaranteed_to(allowance.team_names))
        return None

    def protects(self, job: Job) -> bool:
        """Returns whether a running job uses units that meet the guarantee of its team."""
        names = {member.pod.node for member in job.workers}
        guarantees = filter(None, self.guarantees_of(job.key[0]))
        return any(not self._use(team).nodes.isdisjoint(names) for team in guarantees)

    @property
    def unmet_units(self) -> Mapping[Guarantee, int]:
        """By guarantee, the number of owed units that are not free."""
        unmet = {}
        for label in self.labels:
            counts = self._counts(label)
            free = counts.free_count
            for use in self._uses(label):
                unmet[use.guarantee] = max(use.owed - free, 0)
                free = max(free - use.owed, 0)
        return unmet

    def _suitable_labels(self, placement: Placement, demands: tuple[Demand, ...]) -> Sequence[str]:
        """Returns the labels that have guarantees and that are on at least one node that suits a job."""
        if not self.labels:
            return ()
        key = placement.unit, placement.size, demands
        if key not in self._label_cache:
            size = self._units.kind_of_placement(placement).nodes
            fitting, _ = self._topology.units_for(placement.unit, placement.size, size, demands)
            nodes = [node for unit in fitting.values() for node in unit.nodes]
            labels = [label for label in self.labels if any(node.unit(label) for node in nodes)]
            self._label_cache[key] = labels
        return self._label_cache[key]

    def _needed(self, job: Job, label: str) -> int:
        """Returns the minimum number of units of a label for a job's blocks that have unpinned workers."""
        blocks, size = len({member.pod.block for member in job.unpinned_workers}), job.placement.size
        nodes = max(self._units.kind_of_label(label).nodes, 1)
        return ceil(blocks / (nodes // size)) if size <= nodes else blocks * ceil(size / nodes)

    def _guarantee(self, namespace: str, label: str) -> Guarantee | None:
        """Returns the first guarantee of units of a label that applies to a namespace, or None."""
        key = namespace, label
        if key not in self._guarantee_cache:
            own = (row for row in self._rows if row.unit == label and row.includes(namespace))
            self._guarantee_cache[key] = next(own, None)
        return self._guarantee_cache[key]

    def _use(self, team: Guarantee) -> Use:
        return next(use for use in self._uses(team.unit) if use.guarantee is team)

    def _allowance(self, label: str, team: Guarantee | None) -> Allowance:
        """Returns the units that jobs of a team may take; None stands for namespaces without a guarantee."""
        key = label, team
        if key not in self._allowances:
            counts = self._counts(label)
            other_uses = [use for use in self._uses(label) if use.guarantee is not team]
            owed_to_others = sum(use.owed for use in other_uses)
            owed_to_team = self._use(team).owed if team else 0
            closed = {node: use.guarantee for use in other_uses for node in use.nodes}
            team_names = ", ".join(use.guarantee.team for use in other_uses if use.owed)
            spare = max(owed_to_team, counts.free_count - owed_to_others, 0)
            self._allowances[key] = Allowance(closed, counts.free_nodes, spare, team_names, set())
        return self._allowances[key]

    def _uses(self, label: str) -> tuple[Use, ...]:
        return self._counts(label).uses

    def _counts(self, label: str) -> UnitCounts:
        if label not in self._counts_by_label:
            units = self._topology.units_of_label(label)
            if label not in self._teams:
                usable, size = self._topology.usable_nodes, self._units.kind_of_label(label).max_nodes
                healthy = (unit.id for unit in units.values() if len(unit.names & usable) >= size)
                self._healthy_units[label], self._teams[label] = frozenset(healthy), {}
                for unit in units.values():
                    self._find_team(label, unit)
            units_of_team: defaultdict[Guarantee | None, list[Unit]] = defaultdict(list)
            for unit_id, team in self._teams[label].items():
                units_of_team[team].append(units[unit_id])
            free = units_of_team[None]
            free_nodes = {name: unit.id for unit in free for name in unit.names}
            uses = tuple(self._use_of(row, units_of_team[row]) for row in self._rows if row.unit == label)
            self._counts_by_label[label] = UnitCounts(free_nodes, len(free), uses)
        return self._counts_by_label[label]

    def _find_team(self, label: str, unit: Unit) -> None:
        """Records whether a unit is free, or which single team uses it."""
        jobs = [job for name in unit.names for job in self._holders.get(name, ())]
        jobs += [job for job, _ in self._parts.get((label, unit.id), ())]
        guarantees = {self._guarantee(namespace, label) for namespace, _ in jobs}
        self._teams[label].pop(unit.id, None)
        if not guarantees and unit.id in self._healthy_units[label]:
            self._teams[label][unit.id] = None
        elif len(guarantees) == 1 and (team := guarantees.pop()):
            self._teams[label][unit.id] = team

    def _use_of(self, row: Guarantee, team_units: list[Unit]) -> Use:
        """Returns the use of a guarantee. Sorts the units: healthy first, then by the nodes in use."""
        healthy, held = self._healthy_units[row.unit], self._holders.keys()
        team_units.sort(key=lambda unit: (unit.id not in healthy, -len(unit.names & held), unit.id))
        used_units = team_units[: row.count]
        nodes = frozenset[str]().union(*(unit.names for unit in used_units))
        return Use(row, nodes, row.count - sum(unit.id in healthy for unit in used_units))
