"""Tests of racks that several jobs share, and in which a unit needs only 16 of 18 nodes."""

from dataclasses import replace

from contract.keys import HOSTNAME, PLACEMENT
from kubectl_ultraserver.check import cluster
from kubectl_ultraserver.servers import counts_text, servers
from kubectl_ultraserver.table import read
from kubectl_ultraserver.verify import Verification, verify
from placement.observe.model import Node
from tests.kubectl_ultraserver.build import INDEX, NODES, fleet, job_case, rules, workers

CLIQUE, GPU = "nvidia.com/gpu.clique", "nvidia.com/gpu"
UNIT = f"{{label: {CLIQUE}, nodes: 18, usable: 16}}"
TABLE = read(rules(f"families: [{{name: nvl72, mode: enforce, units: [{UNIT}]}}]\n"))
ALLOCATABLE = {GPU: 4_000, "cpu": 100_000}
RACKS = {
    f"{rack}-{number:02}": Node(
        f"{rack}-{number:02}", {CLIQUE: rack, HOSTNAME: f"{rack}-{number:02}"}, allocatable=ALLOCATABLE
    )
    for rack in ("a", "b")
    for number in range(18)
}


def job(name: str, on: list[str], size: int) -> list[dict[str, object]]:
    """Returns the running workers of a job in blocks of ``size`` workers."""
    pods = workers(name, len(on), on, size=1)
    for pod in pods:
        placement = f"placer=gate workers={len(on)} size={size} unit={CLIQUE} index=labels/{INDEX}"
        pod["metadata"]["annotations"] = {PLACEMENT: placement}
        pod["spec"]["nodeSelector"] = {"node.kubernetes.io/instance-type": "p6e-gb200.36xlarge"}
        pod["spec"]["containers"][0]["resources"] = {"requests": {GPU: "4"}}
    return pods


def verify_job(nodes: list[str], size: int, other_nodes: list[str]) -> Verification:
    return verify(
        job_case(
            job("train", nodes, size),
            RACKS.values(),
            job("other", other_nodes, len(other_nodes)),
            table=TABLE,
        )
    )


def test_jobs_that_share_a_rack_are_each_placed_whole() -> None:
    names = sorted(RACKS)
    result = verify_job(names[:8], 8, names[8:16])
    assert (result.problems, result.text) == (
        (),
        "placed whole: 8 workers on 1 unit of 8 nodes, as node config 8 needs",
    )
    (problem,) = verify_job([*names[:7], "b-00"], 8, names[8:16]).problems[:1]
    assert problem.text.startswith("a has 7 of the job's workers, and node config 8 needs 8")


def test_two_workers_in_a_rack_are_not_called_a_pair_of_nodes() -> None:
    assert verify_job(["a-00", "a-09"], 2, ["a-01"]).text == (
        "placed whole: 2 workers on 1 unit of 2 nodes, as node config 2 needs"
    )


def test_a_rack_is_free_if_16_nodes_are_free_and_broken_if_fewer_are_usable() -> None:
    def racks(sick: int, busy: int) -> str:
        nodes = [replace(node, cordoned=name < f"a-{sick:02}") for name, node in RACKS.items()]
        pods = job("train", sorted(RACKS)[18 - busy : 18], busy) if busy else []
        return counts_text(servers(fleet(nodes, pods, table=TABLE)))

    assert racks(2, 0) == "2 UltraServers: 2 free, 0 in use, 0 broken"
    assert racks(3, 0) == "2 UltraServers: 1 free, 0 in use, 1 broken"
    assert racks(0, 2) == "2 UltraServers: 2 free, 1 in use, 0 broken"
    assert racks(0, 3) == "2 UltraServers: 1 free, 1 in use, 0 broken"


def test_the_nodes_of_both_families_are_counted() -> None:
    (line,) = cluster.nodes(fleet([*NODES.values(), *RACKS.values()], table=TABLE))
    assert line.text == "48 nodes of 5 UltraServers"
