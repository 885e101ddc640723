"""Creates files of /sys/class/neuron_device as the Neuron driver on a worker's node writes them."""

from collections.abc import Iterable, Mapping
from pathlib import Path

Sysfs = dict[str, str]

SERVERS = ("1f2e3d4c5b6a7988", "0a1b2c3d4e5f6071", "2233445566778899", "0011223344556677")


def trn2u(server: str, node: int) -> Sysfs:
    """Returns the files of a node in a whole Trn2 UltraServer. All links work, and pairs are vertical."""
    pair = f"{int(server, 16) - node // 2:016x}"
    return {
        "ultraserver_mode": "1,3,4",
        "server_id_4": server,
        "node_id_4": str(node),
        "server_id_2": pair,
        "node_id_2": str(node % 2),
    }


def trn3(reservation: str, node: int) -> Sysfs:
    """Returns the files of a node in a Trn3 UltraServer."""
    return {"ultraserver_mode": "1,3,4", "reservation_id": reservation, "node_id": str(node), "node_cnt": "4"}


def servers(workers: int, kind: str = "trn2u") -> list[Sysfs]:
    """Returns the files of each worker's node in whole UltraServers. The nodes are not in topology order."""
    create_files = {"trn2u": trn2u, "trn3": trn3}[kind]
    names = [f"{0x9000000000000000 - 0x1000 * number:016x}" for number in range((workers + 3) // 4)]
    nodes = [create_files(name, node) for node in (2, 0, 3, 1) for name in names]
    return nodes[:workers]


def pairs(workers: int) -> list[Sysfs]:
    """Returns the files of each worker's node in horizontal pairs, which support node config 2 but not 4."""
    return [
        {
            "ultraserver_mode": "2,4",
            "server_id_4": "0000000000000000",
            "node_id_4": "-1",
            "server_id_2": SERVERS[number // 2],
            "node_id_2": str(1 - number % 2),
        }
        for number in range(workers)
    ]


def single() -> Sysfs:
    """Returns the files of a node that is not in a working UltraServer."""
    return {
        "ultraserver_mode": "4",
        "server_id_4": "0000000000000000",
        "node_id_4": "-1",
        "server_id_2": "0000000000000000",
        "node_id_2": "-1",
    }


def with_changed_files(topology: Iterable[Sysfs], number: int, **files: str) -> list[Sysfs]:
    """Returns a copy of the topology, in which some files of the node with this number are replaced."""
    result = [dict(sysfs) for sysfs in topology]
    result[number].update(files)
    return result


def write(device: Path, sysfs: Mapping[str, str]) -> None:
    """Writes the files, each atomically and the mode last, because a worker may read them meanwhile."""
    device.mkdir(parents=True, exist_ok=True)
    for file in sorted(sysfs, key="ultraserver_mode".__eq__):
        new_file = device.with_name(f"{device.name}.new")
        new_file.write_text(f"{sysfs[file]}\n", encoding="utf-8")
        new_file.replace(device / file)
