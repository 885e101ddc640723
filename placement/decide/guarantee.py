"""Guarantees: whole units that namespaces of a team always get, because other jobs leave them free.

A guarantee counts the units that only jobs of its namespaces use. It is owed the others: a job of other
namespaces, or one beyond its own guarantee, takes a free unit only if as many stay free as all are owed.
Nothing is evicted, so a new guarantee is met as jobs end.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from contract.place import Place
from placement.decide.fit import Cause
from placement.decide.jobs import Job
from placement.decide.topology import Unit
from placement.observe.model import Demand, Guarantee

if TYPE_CHECKING:
    from placement.decide.cluster import Cluster


class Use(NamedTuple):
    """How far a guarantee is used."""

    guarantee: Guarantee
    nodes: frozenset[str]  # the nodes of the units that only its namespaces use, at most as many as it counts
    owed: int  # the number of units that it counts besides these, as far as they can be used


class Level(NamedTuple):
    """The units by one label."""

    uses: tuple[Use, ...]  # of each guarantee
    free: Mapping[str, str]  # for each node of a unit without a holder, the unit's id
    total: int  # the number of units with enough usable nodes

    @property
    def units(self) -> int:
        """The number of units without a holder."""
        return len({*self.free.values()})


@dataclass
class Room:
    """What the guarantees of other teams leave to a job, by one label of units.

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

    def __init__(self, guarantees: Sequence[Guarantee], cluster: "Cluster") -> None:
        self._guarantees, self._cluster = guarantees, cluster
        self._labels = tuple(dict.fromkeys(guarantee.unit for guarantee in guarantees))
        self._level = cache(self._counted)
        self._room = cache(self._left_to)
        self._team = cache(self._first)
        self._suiting = cache(self._among)

    def changed(self) -> None:
        """Takes note that nodes have new holders."""
        self._level.cache_clear()
        self._room.cache_clear()

    def teams(self, namespace: str) -> tuple[Guarantee | None, ...]:
        """Returns the guarantees of a namespace, for each label: jobs of equal ones have equal rooms."""
        return tuple(self._team(namespace, label) for label in self._labels)

    def rooms(self, job: Job) -> list[Room]:
        """Returns what a job may take, for each label with guarantees."""
        return [
            replace(self._room(label, self._team(job.key[0], label)), opened=set()) for label in self._labels
        ]

    def covers(self, job: Job) -> bool:
        """Returns whether all units that a job needs are guaranteed to its team, and not used yet."""
        for label in self._suiting(job.place, job.demands):
            team = self._team(job.key[0], label)
            if team and self._needed(job, label) <= self._use(team).owed:
                return True
        return False

    def excess(self, job: Job) -> str | None:
        """Returns why a job can never have its units, because too many are guaranteed to others; or None."""
        for label in self._suiting(job.place, job.demands):
            level, team, needed = self._level(label), self._team(job.key[0], label), self._needed(job, label)
            others = [use.guarantee for use in level.uses if use.guarantee is not team]
            kept = sum(guarantee.count for guarantee in others)
            if kept and needed > max(level.total - kept, team.count if team else 0):
                unit = f"unit{'s' * (needed != 1)} by {label}"
                names = ", ".join(guarantee.team for guarantee in others)
                return (
                    f"needs {needed} {unit}, and {names} are guaranteed {kept} of the {level.total} that "
                    "can be used: use fewer workers, or lower a guarantee"
                )
        return None

    def cause(self, unit: Unit, job: Job) -> Cause | None:
        """Returns for which team a unit is kept; None if a job may take it."""
        for label in self._labels:
            room = self._room(label, self._team(job.key[0], label))
            is_short = room.names and room.spare < self._needed(job, label) <= self._level(label).units
            for name in unit.names:
                if guarantee := room.closed.get(name):
                    return Cause("guaranteed", f"kept for {guarantee.team} by guarantee")
                if is_short and name in room.free:
                    return Cause("guaranteed", f"kept free for {room.names} by guarantee")
        return None

    @property
    def unmet(self) -> Mapping[Guarantee, int]:
        """By guarantee, the units that are owed and not free."""
        result = {}
        for label in self._labels:
            level = self._level(label)
            left = level.units
            for use in level.uses:
                result[use.guarantee] = max(use.owed - left, 0)
                left = max(left - use.owed, 0)
        return result

    def _among(self, place: Place, demands: tuple[Demand, ...]) -> Sequence[str]:
        """Returns the labels with guarantees that nodes have which suit a job: those of its family."""
        fitting, _ = self._cluster.suited(place, demands)
        nodes = [node for unit in fitting.values() for node in unit.nodes]
        return [label for label in self._labels if any(node.unit(label) for node in nodes)]

    def _needed(self, job: Job, label: str) -> int:
        """Returns how many units by a label the blocks without one need at least."""
        blocks, size = len({member.block for member in job.unpinned}), job.place.size
        nodes = max(self._cluster.units.of(label).nodes, 1)
        return ceil(blocks / (nodes // size)) if size <= nodes else blocks * ceil(size / nodes)

    def _first(self, namespace: str, label: str) -> Guarantee | None:
        """Returns the first guarantee of units by a label for a namespace."""
        own = (row for row in self._guarantees if row.unit == label and row.includes(namespace))
        return next(own, None)

    def _use(self, team: Guarantee) -> Use:
        return next(use for use in self._level(team.unit).uses if use.guarantee is team)

    def _left_to(self, label: str, team: Guarantee | None) -> Room:
        """Returns what jobs of a team may take; None: of namespaces without a guarantee."""
        level = self._level(label)
        others = [use for use in level.uses if use.guarantee is not team]
        owed = sum(use.owed for use in others)
        own = self._use(team).owed if team else 0
        closed = {name: use.guarantee for use in others for name in use.nodes}
        names = ", ".join(use.guarantee.team for use in others if use.owed)
        return Room(closed, level.free, max(own, level.units - owed, 0), names, set())

    def _counted(self, label: str) -> Level:
        cluster, total = self._cluster, 0
        usable = cluster.units.of(label).usable
        own: defaultdict[Guarantee, list[tuple[bool, int, str, Unit]]] = defaultdict(list)
        free: dict[str, str] = {}
        for unit in cluster.topology.units_by(label).values():
            healthy = len(unit.names & cluster.topology.usable) >= usable
            total += healthy
            held = [jobs for name in unit.names if (jobs := cluster.holders.get(name))]
            parts = cluster.parts.get((label, unit.id), {})
            teams = {self._team(job[0], label) for jobs in held for job in jobs}
            teams |= {self._team(job[0], label) for job, _ in parts}
            if not teams:
                free |= dict.fromkeys(unit.names if healthy else (), unit.id)
            elif len(teams) == 1 and (team := teams.pop()):
                own[team].append((not healthy, -len(held), unit.id, unit))
        uses = []
        for guarantee in (row for row in self._guarantees if row.unit == label):
            first = sorted(own[guarantee])[: guarantee.count]
            nodes = frozenset[str]().union(*(unit.names for *_, unit in first))
            uses.append(Use(guarantee, nodes, guarantee.count - sum(not sick for sick, *_ in first)))
        return Level(tuple(uses), free, total)
