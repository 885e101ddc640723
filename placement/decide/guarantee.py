"""Guarantees: whole units that namespaces of a team always get, because other jobs leave them free.

Units that only the team's jobs use count as met. The rest of `count` is owed: a job of other
namespaces, or one beyond its own guarantee, takes a free unit only if as many stay free as all are owed.
Nothing is evicted for it, so a new guarantee is met as jobs end.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, NamedTuple

from contract.place import Place
from placement import messages
from placement.decide.fit import Cause
from placement.decide.jobs import Job
from placement.decide.topology import Topology, Unit
from placement.observe.model import Demand, Guarantee, Holders, JobKey, Node, Units

Parts = Mapping[tuple[str, str], Mapping[tuple[JobKey, int], Any]]
"""The blocks that have a part of a unit, as in `Cluster.parts`."""


class Use(NamedTuple):
    """How far a guarantee is used."""

    guarantee: Guarantee
    nodes: frozenset[str]  # nodes of the units that the team uses alone, of at most `guarantee.count` units
    owed: int  # guaranteed units that the team does not use yet


@dataclass
class Level:
    """The units of one node label.

    Attributes:
        total: The number of units with enough usable nodes.
        free: For each node of a unit without a holder, the unit's id.
        units: The number of these units.
        own: By guarantee, the units that only its namespaces use, by id: each with its place in the order.
        uses: The use of each guarantee; None after a change.
    """

    total: int
    free: dict[str, str]
    units: int
    own: defaultdict[Guarantee, dict[str, tuple[bool, int, str, Unit]]]
    uses: tuple[Use, ...] | None


@dataclass
class Room:
    """The units of one node label that the guarantees of other teams leave to a job.

    Attributes:
        closed: For each node of a unit that another team uses, the guarantee.
        free: For each node of a unit without a holder, the unit's id.
        spare: How many of these units the job may take.
        names: The namespaces of the teams for which others are kept, for messages; empty if none are.
        opened: The units that the job takes.
    """

    closed: Mapping[str, Guarantee]
    free: Mapping[str, str]
    spare: int
    names: str
    opened: set[str]

    def admits(self, unit: Unit) -> bool:
        """Returns whether the job may take a unit as well."""
        if not self.closed.keys().isdisjoint(unit.names):
            return False
        new = {self.free[name] for name in unit.names if name in self.free} - self.opened
        return not new or len(self.opened) + len(new) <= self.spare


def book(rooms: Sequence[Room], unit: Unit) -> bool:
    """Returns whether a job may take a unit; if so, it counts as taken."""
    if not all(room.admits(unit) for room in rooms):
        return False
    for room in rooms:
        room.opened.update(room.free[name] for name in unit.names if name in room.free)
    return True


class Guarantees:
    """The guarantees of a rule table during a decision."""

    def __init__(self, topology: Topology, units: Units, holders: Holders, parts: Parts) -> None:
        self._topology, self._units, self._holders, self._parts = topology, units, holders, parts
        self._rows = [row for row in units.guarantees if row.count and row.unit in units.kinds]
        self.labels = tuple(dict.fromkeys(row.unit for row in self._rows))
        self._levels: dict[str, Level] = {}
        self._rooms: dict[tuple[str, Guarantee | None], Room] = {}
        self._firsts: dict[tuple[str, str], Guarantee | None] = {}
        self._suited: dict[tuple[str, int, tuple[Demand, ...]], Sequence[str]] = {}

    def changed(self, nodes: Iterable[Node]) -> None:
        """Counts the units of the nodes again, because the holders of the nodes have changed."""
        self._rooms.clear()
        for label, level in self._levels.items():
            for unit_id in {node.unit(label) for node in nodes}:
                if unit := self._topology.unit(label, unit_id):
                    self._count(level, label, unit)

    def teams(self, namespace: str) -> tuple[Guarantee | None, ...]:
        """Returns the guarantees of a namespace, for each label: jobs of equal ones have equal rooms."""
        return tuple(self._team(namespace, label) for label in self.labels)

    def rooms(self, job: Job) -> list[Room]:
        """Returns what a job may take, for each label with guarantees."""
        teams = zip(self.labels, self.teams(job.key[0]), strict=True)
        return [replace(self._room(label, team), opened=set()) for label, team in teams]

    def covers(self, job: Job) -> bool:
        """Returns whether all units that a job needs are guaranteed to its team, and not used yet."""
        labels = self._suiting(job.place, job.demands)
        teams = ((label, self._team(job.key[0], label)) for label in labels)
        return any(team and self._needed(job, label) <= self._use(team).owed for label, team in teams)

    def lacking(self, job: Job) -> int:
        """Returns how many units must become free for other teams before a job gets its own."""
        label = job.place.unit
        if label not in self.labels or self.covers(job):
            return 0
        others = (use for use in self._uses(label) if use.guarantee is not self._team(job.key[0], label))
        return max(sum(use.owed for use in others) - self._level(label).units, 0)

    def excess(self, job: Job) -> str | None:
        """Returns why a job can never have its units, because too many are guaranteed to others; or None."""
        for label in self._suiting(job.place, job.demands):
            level, team, needed = self._level(label), self._team(job.key[0], label), self._needed(job, label)
            others = [use.guarantee for use in self._uses(label) if use.guarantee is not team]
            kept = sum(guarantee.count for guarantee in others)
            if kept and needed > max(level.total - kept, team.count if team else 0):
                teams = ", ".join(guarantee.team for guarantee in others)
                needs = messages.needs(needed, self._units.of(label).nodes)
                return messages.guaranteed_to_others(needs, teams, kept, level.total)
        return None

    def cause(self, unit: Unit, job: Job) -> Cause | None:
        """Returns the cause if a guarantee keeps a unit for another team; None if the job may take it."""
        for label in self.labels:
            room = self._room(label, self._team(job.key[0], label))
            is_short = room.names and room.spare < self._needed(job, label) <= self._level(label).units
            for name in sorted(unit.names):
                if guarantee := room.closed.get(name):
                    return Cause("guaranteed", messages.kept_for(guarantee.team))
                if is_short and name in room.free:
                    return Cause("guaranteed", messages.kept_free_for(room.names))
        return None

    def protects(self, job: Job) -> bool:
        """Returns whether a running job has units that count towards its team's guarantee."""
        names = {member.pod.node for member in job.workers}
        teams = filter(None, self.teams(job.key[0]))
        return any(not self._use(team).nodes.isdisjoint(names) for team in teams)

    @property
    def unmet(self) -> Mapping[Guarantee, int]:
        """By guarantee, the units that are owed and not free."""
        result = {}
        for label in self.labels:
            level = self._level(label)
            free = level.units
            for use in self._uses(label):
                result[use.guarantee] = max(use.owed - free, 0)
                free = max(free - use.owed, 0)
        return result

    def _suiting(self, place: Place, demands: tuple[Demand, ...]) -> Sequence[str]:
        """Returns the unit labels that have guarantees and are on nodes that suit the job."""
        if not self.labels:
            return ()
        key = place.unit, place.size, demands
        if key not in self._suited:
            fitting, _ = self._topology.suited(place.unit, place.size, self._units.kind(place).nodes, demands)
            nodes = [node for unit in fitting.values() for node in unit.nodes]
            self._suited[key] = [label for label in self.labels if any(node.unit(label) for node in nodes)]
        return self._suited[key]

    def _needed(self, job: Job, label: str) -> int:
        """Returns the minimum number of units of a label that the blocks without a unit need."""
        blocks, size = len({member.block for member in job.unpinned_workers}), job.place.size
        nodes = max(self._units.of(label).nodes, 1)
        return ceil(blocks / (nodes // size)) if size <= nodes else blocks * ceil(size / nodes)

    def _team(self, namespace: str, label: str) -> Guarantee | None:
        """Returns the first guarantee of units of a label that applies to a namespace."""
        key = namespace, label
        if key not in self._firsts:
            own = (row for row in self._rows if row.unit == label and row.includes(namespace))
            self._firsts[key] = next(own, None)
        return self._firsts[key]

    def _use(self, team: Guarantee) -> Use:
        return next(use for use in self._uses(team.unit) if use.guarantee is team)

    def _room(self, label: str, team: Guarantee | None) -> Room:
        """Returns what jobs of a team may take; with None, jobs of namespaces without a guarantee."""
        key = label, team
        if key not in self._rooms:
            level = self._level(label)
            others = [use for use in self._uses(label) if use.guarantee is not team]
            owed = sum(use.owed for use in others)
            own = self._use(team).owed if team else 0
            closed = {name: use.guarantee for use in others for name in use.nodes}
            names = ", ".join(use.guarantee.team for use in others if use.owed)
            self._rooms[key] = Room(closed, level.free, max(own, level.units - owed, 0), names, set())
        return self._rooms[key]

    def _level(self, label: str) -> Level:
        if label not in self._levels:
            self._levels[label] = level = Level(0, {}, 0, defaultdict(dict), None)
            for unit in self._topology.units_by(label).values():
                level.total += self._is_healthy(label, unit)
                self._count(level, label, unit)
        return self._levels[label]

    def _uses(self, label: str) -> tuple[Use, ...]:
        level = self._level(label)
        if level.uses is None:
            level.uses = tuple(
                _use_of(row, level.own[row].values()) for row in self._rows if row.unit == label
            )
        return level.uses

    def _is_healthy(self, label: str, unit: Unit) -> bool:
        return len(unit.names & self._topology.usable) >= self._units.of(label).usable

    def _count(self, level: Level, label: str, unit: Unit) -> None:
        """Counts a unit, again after a change: as free, as the units of a team, or as neither."""
        before = level.free.keys() & unit.names
        for name in before:
            del level.free[name]
        level.units -= bool(before)
        for units in level.own.values():
            if units.pop(unit.id, None):
                level.uses = None
        holders = [jobs for name in unit.names if (jobs := self._holders.get(name))]
        teams = {self._team(job[0], label) for jobs in holders for job in jobs}
        teams |= {self._team(job[0], label) for job, _ in self._parts.get((label, unit.id), ())}
        healthy = self._is_healthy(label, unit)
        if not teams and healthy:
            level.free |= dict.fromkeys(unit.names, unit.id)
            level.units += 1
        elif len(teams) == 1 and (team := teams.pop()):
            level.own[team][unit.id] = not healthy, -len(holders), unit.id, unit
            level.uses = None


def _use_of(guarantee: Guarantee, own: Iterable[tuple[bool, int, str, Unit]]) -> Use:
    first = sorted(own)[: guarantee.count]
    nodes = frozenset[str]().union(*(unit.names for *_, unit in first))
    return Use(guarantee, nodes, guarantee.count - sum(not sick for sick, *_ in first))
