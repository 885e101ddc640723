"""The UltraServers with their nodes, health and holders; and the options that select UltraServers. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from common.texts import count_text
from kubectl_ultraserver import messages
from kubectl_ultraserver.fleet import Fleet, node_number
from placement.decide.fit import why_unusable
from placement.messages import node_is
from placement.observe.model import Node

MISSING: Final = "missing"


@dataclass(frozen=True, slots=True)
class Spot:
    """A node of an UltraServer, or the place of a missing node."""

    node: str  # the node's name; empty if the node is missing
    number: str  # the node id; empty if the node has no id
    state: str  # ``ok``, ``cordoned``, ``not ready`` or ``missing``
    holders: tuple[str, ...]  # the holders of the node, as in `Fleet.holders_by_node`
    claims: tuple[str, ...] = ()  # the ResourceClaims that have devices of the node

    @property
    def is_healthy(self) -> bool:
        """Whether the node is usable."""
        return self.state == "ok"

    @property
    def is_free(self) -> bool:
        """Whether a job could use the node now."""
        return self.is_healthy and not self.holders


@dataclass(frozen=True, slots=True)
class Server:
    """An UltraServer, a smaller unit (if its nodes have no label of a larger unit), or a node in no unit."""

    id: str  # the server id; empty for a node in no working UltraServer
    spots: tuple[Spot, ...]  # the places of its nodes, sorted by node id
    max_nodes: int = 1  # the maximum number of these nodes that a job can have

    @property
    def free(self) -> bool:
        """Whether at least `max_nodes` nodes are free; False without a unit."""
        return bool(self.id) and sum(spot.is_free for spot in self.spots) >= self.max_nodes

    @property
    def broken(self) -> bool:
        """Whether fewer than `max_nodes` nodes exist, are Ready and are not cordoned; True without a unit."""
        return not self.id or sum(spot.is_healthy for spot in self.spots) < self.max_nodes

    @property
    def holders(self) -> tuple[str, ...]:
        """The holders of its nodes."""
        return tuple(dict.fromkeys(holder for spot in self.spots for holder in spot.holders))

    @property
    def troubles(self) -> list[str]:
        """The problems of its nodes."""
        missing = sum(spot.state == MISSING for spot in self.spots)
        lines = [node_is(spot.node, spot.state) for spot in self.spots if spot.node and not spot.is_healthy]
        lines += [messages.nodes_missing(missing, len(self.spots))] if missing else []
        return lines if self.id else [*lines, messages.outside(self.spots[0].node)]


def is_selected(
    server: Server, namespace: str = "", job: str = "", *, free: bool = False, broken: bool = False
) -> bool:
    """Returns whether an UltraServer meets all conditions.

    One holder must have both the namespace and the job. An empty namespace or job is not a condition.
    """
    holders = (holder.rpartition(" ")[2].partition("/")[::2] for holder in server.holders)
    is_held = any(namespace in ("", ns) and job in ("", name) for ns, name in holders)
    return (is_held or not (namespace or job)) and (server.free or not free) and (server.broken or not broken)


def servers(fleet: Fleet) -> list[Server]:
    """Returns the UltraServers of all families, sorted by id, then the UltraServer nodes in no unit."""
    nodes_by_unit: defaultdict[tuple[str, str], list[Node]] = defaultdict(list)
    single_nodes, keys = [], fleet.table.units.labels
    for node in fleet.topology.nodes.values():
        key = next((key for key in keys if node.unit(key)), None)
        if key is not None:
            nodes_by_unit[key, node.unit(key) or ""].append(node)
        elif fleet.is_ultraserver_node(node):
            single_nodes.append(Server("", (_spot(fleet, node, keys[0]),)))
    units = [_server(fleet, key, unit, nodes) for (key, unit), nodes in nodes_by_unit.items()]
    units.sort(key=lambda server: server.id)
    single_nodes.sort(key=lambda server: server.spots[0].node)
    return [*units, *single_nodes]


def counts_text(servers: Sequence[Server]) -> str:
    """Returns a line with the numbers of free, used and broken UltraServers."""
    units = [server for server in servers if server.id]
    used, total = sum(bool(server.holders) for server in units), count_text(len(units), "UltraServer")
    free, broken = sum(server.free for server in units), sum(server.broken for server in units)
    outside_count = len(servers) - len(units)
    outside = messages.nodes_outside(outside_count) if outside_count else ""
    return messages.server_counts(total, free, used, broken, outside)


def _server(fleet: Fleet, key: str, unit: str, nodes: Sequence[Node]) -> Server:
    spots, kind = [_spot(fleet, node, key) for node in nodes], fleet.table.units.kinds[key]
    known_numbers = {spot.number for spot in spots}
    missing = [str(number) for number in range(kind.nodes) if str(number) not in known_numbers]
    spots += [Spot("", number, MISSING, ()) for number in missing[: max(kind.nodes - len(spots), 0)]]
    return Server(unit, tuple(sorted(spots, key=lambda spot: (spot.number, spot.node))), kind.max_nodes)


def _spot(fleet: Fleet, node: Node, key: str) -> Spot:
    holders = tuple(sorted(fleet.holders_by_node.get(node.name, ())))
    claims = fleet.claims_by_node.get(node.name, ())
    return Spot(node.name, node_number(node, key), why_unusable(node) or "ok", holders, claims)
