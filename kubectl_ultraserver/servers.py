"""The UltraServers with their nodes, health and tenants; and which of them an option selects. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kubectl_ultraserver.seen import Fleet, node_number
from placement.decide.fit import unusable
from placement.observe.model import Node

MISSING: Final = "missing"


@dataclass(frozen=True, slots=True)
class Spot:
    """A node of an UltraServer, or the place of one that is not there.

    Attributes:
        node: Its name; empty for one that is not there.
        number: Its node id; empty where it says none.
        state: ``ok``, ``cordoned``, ``not ready`` or ``missing``.
        tenants: The jobs, or pods of no job, that hold it.
        claims: The ResourceClaims that have devices of it.
    """

    node: str
    number: str
    state: str
    tenants: tuple[str, ...]
    claims: tuple[str, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether jobs may go there."""
        return self.state == "ok"

    @property
    def free(self) -> bool:
        """Whether a job could go there now."""
        return self.healthy and not self.tenants


@dataclass(frozen=True, slots=True)
class Server:
    """An UltraServer, a smaller unit where nodes know of no more, or a node in none.

    Attributes:
        id: Its server id; empty for a node in no working UltraServer.
        spots: Its nodes by number.
    """

    id: str
    spots: tuple[Spot, ...]

    @property
    def free(self) -> bool:
        """Whether all its nodes are free: a job of that many could have it."""
        return bool(self.id) and all(spot.free for spot in self.spots)

    @property
    def broken(self) -> bool:
        """Whether a node is sick, cordoned or missing."""
        return not self.id or not all(spot.healthy for spot in self.spots)

    @property
    def tenants(self) -> tuple[str, ...]:
        """Everybody who holds a node of it."""
        return tuple(dict.fromkeys(tenant for spot in self.spots for tenant in spot.tenants))

    @property
    def troubles(self) -> list[str]:
        """What is wrong with its nodes."""
        gone = sum(spot.state == MISSING for spot in self.spots)
        said = [f"node {spot.node} {spot.state}" for spot in self.spots if spot.node and not spot.healthy]
        said += [f"{gone} of {len(self.spots)} nodes missing"] if gone else []
        return said if self.id else [*said, f"node {self.spots[0].node} is in no working UltraServer"]


def is_selected(
    server: Server, namespace: str = "", job: str = "", *, free: bool = False, broken: bool = False
) -> bool:
    """Whether an UltraServer meets all conditions, those on namespace and job by one tenant.

    Empty texts are for any tenant or none.
    """
    tenants = (tenant.rpartition(" ")[2].partition("/")[::2] for tenant in server.tenants)
    theirs = any(namespace in ("", there) and job in ("", name) for there, name in tenants)
    return (theirs or not (namespace or job)) and (server.free or not free) and (server.broken or not broken)


def servers(fleet: Fleet) -> list[Server]:
    """The UltraServers by id, of every sort in the rule table, then nodes that are in none."""
    members: defaultdict[tuple[str, str], list[Node]] = defaultdict(list)
    alone, keys = [], [key for key, size in fleet.units.items() if size > 1]
    for node in fleet.topology.nodes.values():
        key = next((key for key in keys if node.unit(key)), None)
        if key is not None:
            members[key, node.unit(key) or ""].append(node)
        elif fleet.has(node):
            alone.append(Server("", (_spot(fleet, node, keys[0]),)))
    found = [_server(fleet, key, unit, nodes) for (key, unit), nodes in members.items()]
    found.sort(key=lambda server: server.id)
    alone.sort(key=lambda server: server.spots[0].node)
    return [*found, *alone]


def counts(found: Iterable[Server]) -> str:
    """How many there are, in a sentence."""
    found = list(found)
    whole = [server for server in found if server.id]
    taken = sum(bool(server.tenants) for server in whole)
    plural = "" if len(whole) == 1 else "s"
    text = f"{len(whole)} UltraServer{plural}: {sum(server.free for server in whole)} free, "
    text += f"{taken} with tenants, {sum(server.broken for server in whole)} broken"
    outside = len(found) - len(whole)
    return text + (f"; {outside} nodes in none" if outside else "")


def _server(fleet: Fleet, key: str, unit: str, nodes: Sequence[Node]) -> Server:
    spots = [_spot(fleet, node, key) for node in nodes]
    there = {spot.number for spot in spots}
    free = [str(number) for number in range(fleet.units[key]) if str(number) not in there]
    spots += [Spot("", number, MISSING, ()) for number in free[: max(fleet.units[key] - len(spots), 0)]]
    return Server(unit, tuple(sorted(spots, key=lambda spot: (spot.number, spot.node))))


def _spot(fleet: Fleet, node: Node, key: str) -> Spot:
    tenants = tuple(sorted(fleet.tenants.get(node.name, ())))
    claims = fleet.claims.get(node.name, ())
    return Spot(node.name, node_number(node, key), unusable(node) or "ok", tenants, claims)
