"""Tests of the resources that are left on nodes, and of jobs that share nodes and units or return to them."""

from dataclasses import replace

from contract.keys import NO_NODE, NO_SERVER, NODE_IDS, SERVER_4
from placement.decide.topology import Topology
from placement.observe.model import Demand
from tests.placement.world import (
    CAPACITY,
    DEMAND,
    HOUR,
    NOW,
    bind_pods,
    decide,
    foreign_pod,
    job,
    node,
    placed_jobs,
    select_nodes,
    servers,
    waiting_reasons,
)

NODES = servers(1)


def test_each_pod_counts_towards_the_maximum_number_of_pods_of_its_node() -> None:
    for pod_limit, names, units in (
        (3_000, "xy", {"a": "n1-0"}),
        (2_000, "xy", {}),
        (1_000, "", {"a": "n1-0"}),
    ):
        node = replace(NODES["n1-0"], allocatable=CAPACITY | {"pods": pod_limit})
        other_pods = [foreign_pod(name, "n1-0", neuron=False) for name in names]
        decision = decide(Topology([node]), [*other_pods, *job("a", 1)], NOW)
        assert placed_jobs(decision) == units
        assert not units or not waiting_reasons(decision)
        if not units:
            assert waiting_reasons(decision)["a"].endswith("node n1-0 does not have enough pods")


def test_workers_that_need_a_part_of_a_node_share_the_fullest_node() -> None:
    part_demand = replace(DEMAND, requests={"aws.amazon.com/neuron": 4_000})
    other_pods = [foreign_pod("x", "n1-0"), foreign_pod("y", "n1-1"), foreign_pod("z", "n1-1")]
    pods = [
        *other_pods,
        *job("a", 1, demand=part_demand),
        *job("b", 1, demand=part_demand),
        *job("c", 3, config=1, demand=part_demand),
    ]
    # Each worker of one job gets its own node.
    assert placed_jobs(decide(Topology(NODES.values()), pods, NOW)) == {
        "a": "n1-1",
        "b": "n1-1",
        "c": "n1-1 n1-0 n1-2",
    }


def test_a_worker_cannot_return_to_a_pair_whose_other_node_is_in_use() -> None:
    first_worker, second_worker = job("a", 2)
    pods = [
        *bind_pods([first_worker], select_nodes(NODES, "n1-0"), started=True),
        second_worker,
        foreign_pod("x", "n1-1"),
    ]
    assert waiting_reasons(decide(Topology(NODES.values()), pods, NOW)) == {
        "a": "a-worker-1 needs a node in us-01-a, where its block is: node n1-1 is held by other/x"
    }
    full_pod = replace(foreign_pod("x", "n1-1"), demand=Demand(requests={"cpu": 100_000}))
    assert waiting_reasons(decide(Topology(NODES.values()), [*pods[:2], full_pod], NOW)) == {
        "a": "a-worker-1 needs a node in us-01-a, where its block is: node n1-1 does not have enough cpu"
    }


def test_after_one_node_of_a_pair_without_an_ultraserver_is_used_the_other_is_free() -> None:
    labels = {SERVER_4: NO_SERVER, NODE_IDS[SERVER_4]: NO_NODE}
    nodes = [node(1, index, labels=labels) for index in range(2)]
    decision = decide(Topology(nodes), [*job("a", 1, age=HOUR), *job("b", 1)], NOW)
    assert placed_jobs(decision) == {"a": "n1-0", "b": "n1-1"}


def test_a_worker_returns_to_its_unit_after_the_nodes_got_another_label() -> None:
    nodes = [node(1, index, labels={SERVER_4: "us-77"}) for index in range(4)]
    pods = job("a", 4)
    running_pods = bind_pods(pods, [node(1, index) for index in range(4)], started=True)[:3]
    assert placed_jobs(decide(Topology(nodes), [*running_pods, pods[3]], NOW)) == {"a": "us-77"}
