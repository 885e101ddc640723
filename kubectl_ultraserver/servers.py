"""The UltraServers with their nodes, health and holders; and the options that select them. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from common.texts import counted
from kubectl_ultraserver import messages
from kubectl_ultraserver.fleet import Fleet, node_number
from placement.decide.fit import unusable
from placement.messages import node_is
from placement.observe.model import Node

MISSING: Final = "missing"


@dataclass(frozen=True, slots=True)
class Spot:
    """A node of an UltraServer, or the number of a missing one.

    Attributes:
        node: The node's name; empty for a missing node.
        number: The node id; empty if the node has none.
        state: ``ok``, ``cordoned``, ``not ready`` or ``missing``.
        holders: The jobs, and the pods that belong to no job, that hold the node.
        claims: The ResourceClaims that have devices of the node.
    """

    node: str
    number: str
    state: str
    holders: tuple[str, ...]
    claims: tuple[str, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether the node is usable."""
        return self.state == "ok"

    @property
    def free(self) -> bool:
        """Whether a job could use the node now."""
        return self.healthy and not self.holders


@dataclass(frozen=True, slots=True)
class Server:
    """An UltraServer, or a smaller unit if nodes have no labels of a larger one, or a node in none.

    Attributes:
        id: The server id; empty for a node in no working UltraServer.
        spots: The nodes by number.
        usable: The most of these nodes that a job can have.
    """

    id: str
    spots: tuple[Spot, ...]
    usable: int = 1

    @property
    def free(self) -> bool:
        """Whether as many nodes are free as a job can have."""
        return bool(self.id) and sum(spot.free for spot in self.spots) >= self.usable

    @property
    def broken(self) -> bool:
        """Whether fewer nodes are there, Ready and not cordoned."""
        return not self.id or sum(spot.healthy for spot in self.spots) < self.usable

    @property
    def holders(self) -> tuple[str, ...]:
        """The holders of its nodes."""
        return tuple(dict.fromkeys(holder for spot in self.spots for holder in spot.holders))

    @property
    def troubles(self) -> list[str]:
        """What is wrong with its nodes."""
        missing = sum(spot.state == MISSING for spot in self.spots)
        lines = [node_is(spot.node, spot.state) for spot in self.spots if spot.node and not spot.healthy]
        lines += [f"{missing} of {len(self.spots)} nodes missing"] if missing else []
        return lines if self.id else [*lines, messages.outside(self.spots[0].node)]


def is_selected(
    server: Server, namespace: str = "", job: str = "", *, free: bool = False, broken: bool = False
) -> bool:
    """Returns whether an UltraServer meets all conditions; one holder must meet both namespace and job.

    Empty texts match any holder or none.
    """
    holders = (holder.rpartition(" ")[2].partition("/")[::2] for holder in server.holders)
    theirs = any(namespace in ("", there) and job in ("", name) for there, name in holders)
    return (theirs or not (namespace or job)) and (server.free or not free) and (server.broken or not broken)


def servers(fleet: Fleet) -> list[Server]:
    """Returns the UltraServers of all families in the rule table by id, then nodes that are in none."""
    members: defaultdict[tuple[str, str], list[Node]] = defaultdict(list)
    alone, keys = [], fleet.table.units.labels
    for node in fleet.topology.nodes.values():
        key = next((key for key in keys if node.unit(key)), None)
        if key is not None:
            members[key, node.unit(key) or ""].append(node)
        elif fleet.has(node):
            alone.append(Server("", (_spot(fleet, node, keys[0]),)))
    together = [_server(fleet, key, unit, nodes) for (key, unit), nodes in members.items()]
    together.sort(key=lambda server: server.id)
    alone.sort(key=lambda server: server.spots[0].node)
    return [*together, *alone]


def counts(servers: Sequence[Server]) -> str:
    """Returns a line with the numbers of free, used and broken UltraServers."""
    whole = [server for server in servers if server.id]
    taken = sum(bool(server.holders) for server in whole)
    text = f"{counted(len(whole), 'UltraServer')}: {sum(server.free for server in whole)} free, "
    text += f"{taken} in use, {sum(server.broken for server in whole)} broken"
    outside = len(servers) - len(whole)
    return text + (f"; {outside} nodes in none" if outside else "")


def _server(fleet: Fleet, key: str, unit: str, nodes: Sequence[Node]) -> Server:
    spots, kind = [_spot(fleet, node, key) for node in nodes], fleet.table.units.kinds[key]
    there = {spot.number for spot in spots}
    free = [str(number) for number in range(kind.nodes) if str(number) not in there]
    spots += [Spot("", number, MISSING, ()) for number in free[: max(kind.nodes - len(spots), 0)]]
    return Server(unit, tuple(sorted(spots, key=lambda spot: (spot.number, spot.node))), kind.usable)


def _spot(fleet: Fleet, node: Node, key: str) -> Spot:
    holders = tuple(sorted(fleet.holders.get(node.name, ())))
    claims = fleet.claims.get(node.name, ())
    return Spot(node.name, node_number(node, key), unusable(node) or "ok", holders, claims)
