"""Guarantees: whole units that namespaces of a team always get, because other jobs leave them free.

A guarantee counts the units that only jobs of its namespaces use. It is owed the others: a job of other
namespaces, or one beyond its own guarantee, takes a free unit only if as many stay free as all are owed.
Nothing is evicted, so a new guarantee is met as jobs end.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from placement.decide.fit import Cause
from placement.decide.jobs import Job
from placement.decide.topology import Unit
from placement.observe.model import Guarantee

if TYPE_CHECKING:
    from placement.decide.cluster import Cluster


class Use(NamedTuple):
    """How far a guarantee is used."""

    guarantee: Guarantee
    nodes: frozenset[str]  # the nodes of the units that only its namespaces use, at most as many as it counts
    owed: int  # the number of units that it counts besides these


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
        owed: How many are kept for other teams; whose they are.
        names: The namespaces of these teams, for messages.
        opened: The units that the job takes.
    """

    closed: Mapping[str, Guarantee]
    free: Mapping[str, str]
    spare: int
    owed: int
    names: str
    opened: set[str]

    def admits(self, unit: Unit) -> bool:
        """Returns whether the job may take a unit as well; if so, it counts as taken."""
        if not self.closed.keys().isdisjoint(unit.names):
            return False
        opened = self.opened.union(self.free[name] for name in unit.names if name in self.free)
        if len(opened) > max(self.spare, len(self.opened)):
            return False
        self.opened = opened
        return True


class Guarantees:
    """The guarantees of a rule table during a decision."""

    def __init__(self, guarantees: Sequence[Guarantee], cluster: "Cluster") -> None:
        self._guarantees, self._cluster = guarantees, cluster
        self._labels = tuple(dict.fromkeys(guarantee.unit for guarantee in guarantees))
        self._levels: dict[str, Level] = {}
        self._rooms: dict[tuple[str, Guarantee | None], Room] = {}
        self._teams: dict[tuple[str, str], Guarantee | None] = {}

    def changed(self) -> None:
        """Takes note that nodes have new holders."""
        self._levels.clear()
        self._rooms.clear()

    def rooms(self, job: Job) -> list[Room]:
        """Returns what a job may take, for each label with guarantees."""
        return [replace(self._room(label, job.key[0]), opened=set()) for label in self._labels]

    def covers(self, job: Job) -> bool:
        """Returns whether all units that a job needs are guaranteed to its team, and not used yet."""
        for label in self._labels:
            team = self._team(job.key[0], label)
            if team and self._needed(job, label) <= self._use(team).owed:
                return True
        return False

    def excess(self, job: Job) -> str | None:
        """Returns why a job can never have its units, because too many are guaranteed to others; or None."""
        for label in self._labels:
            level, team, needed = self._level(label), self._team(job.key[0], label), self._needed(job, label)
            others = sum(use.guarantee.count for use in level.uses if use.guarantee is not team)
            if others and needed > level.total - others:
                return (
                    f"needs {needed} units by {label}, and other namespaces are guaranteed {others} of the "
                    f"{level.total} that can be used"
                )
        return None

    def cause(self, unit: Unit, job: Job) -> Cause | None:
        """Returns for which team a unit is kept; None if a job may take it."""
        for label in self._labels:
            room = self._room(label, job.key[0])
            for name in unit.names:
                if guarantee := room.closed.get(name):
                    return Cause("guaranteed", f"kept for {guarantee.team}, which has it by its guarantee")
                if name in room.free and self._needed(job, label) > room.spare:
                    return Cause("guaranteed", f"kept free for {room.names} by guarantee")
        return None

    def owed(self, job: Job, label: str) -> int:
        """Returns how many units by a label are kept for other teams than a job's."""
        return self._room(label, job.key[0]).owed if label in self._labels else 0

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

    def _needed(self, job: Job, label: str) -> int:
        usable = self._cluster.units.of(label).usable
        return ceil(len(job.blocks) * job.place.size / max(usable, 1))

    def _team(self, namespace: str, label: str) -> Guarantee | None:
        """Returns the first guarantee of units by a label for a namespace."""
        if (namespace, label) not in self._teams:
            own = (row for row in self._guarantees if row.unit == label and row.includes(namespace))
            self._teams[namespace, label] = next(own, None)
        return self._teams[namespace, label]

    def _use(self, team: Guarantee) -> Use:
        return next(use for use in self._level(team.unit).uses if use.guarantee is team)

    def _room(self, label: str, namespace: str) -> Room:
        team = self._team(namespace, label)
        if (label, team) not in self._rooms:
            self._rooms[label, team] = self._computed(label, team)
        return self._rooms[label, team]

    def _computed(self, label: str, team: Guarantee | None) -> Room:
        level = self._level(label)
        others = [use for use in level.uses if use.guarantee is not team]
        owed = sum(use.owed for use in others)
        own = self._use(team).owed if team else 0
        closed = {name: use.guarantee for use in others for name in use.nodes}
        names = ", ".join(use.guarantee.team for use in others if use.owed)
        return Room(closed, level.free, max(own, level.units - owed, 0), owed, names, set())

    def _level(self, label: str) -> Level:
        if label not in self._levels:
            self._levels[label] = self._counted(label)
        return self._levels[label]

    def _counted(self, label: str) -> Level:
        cluster, total = self._cluster, 0
        usable = cluster.units.of(label).usable
        own: defaultdict[Guarantee, list[tuple[int, str, Unit]]] = defaultdict(list)
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
                own[team].append((-len(held), unit.id, unit))
        uses = []
        for guarantee in (row for row in self._guarantees if row.unit == label):
            first = [unit for *_, unit in sorted(own[guarantee])[: guarantee.count]]
            nodes = frozenset[str]().union(*(unit.names for unit in first))
            uses.append(Use(guarantee, nodes, guarantee.count - len(first)))
        return Level(tuple(uses), free, total)
