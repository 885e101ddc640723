"""What is left on nodes: a pod takes room in addition to its requests, and no other user has a job's unit."""

from dataclasses import replace

from contract.keys import NO_NODE, NO_SERVER, NODE_IDS, SERVER_4
from placement.decide.topology import Topology
from placement.observe.model import Demand
from tests.placement.world import (
    CAPACITY,
    DEMAND,
    HOUR,
    NOW,
    bound,
    decide,
    foreign,
    job,
    node,
    on,
    placed,
    servers,
    waiting,
)

NODES = servers(1)


def test_a_pod_takes_one_of_the_pods_that_a_node_can_have() -> None:
    for room, names, goes in ((3_000, "xy", {"a": "n1-0"}), (2_000, "xy", {}), (1_000, "", {"a": "n1-0"})):
        node = replace(NODES["n1-0"], allocatable=CAPACITY | {"pods": room})
        others = [foreign(name, "n1-0", neuron=False) for name in names]
        decision = decide(Topology([node]), [*others, *job("a", 1)], NOW)
        assert placed(decision) == goes
        assert not goes or not waiting(decision)
        if not goes:
            assert waiting(decision)["a"].endswith("node n1-0 does not have enough pods")


def test_workers_of_less_than_a_node_share_the_fullest_node() -> None:
    half = replace(DEMAND, requests={"aws.amazon.com/neuron": 4_000})
    others = [foreign("x", "n1-0"), foreign("y", "n1-1"), foreign("z", "n1-1")]
    pods = [
        *others,
        *job("a", 1, demand=half),
        *job("b", 1, demand=half),
        *job("c", 3, config=1, demand=half),
    ]
    # A job's own are on a node each, though the nodes next to them were looked at again and again.
    assert placed(decide(Topology(NODES.values()), pods, NOW)) == {
        "a": "n1-1",
        "b": "n1-1",
        "c": "n1-1 n1-0 n1-2",
    }


def test_a_worker_cannot_return_to_a_pair_in_which_another_job_has_the_node() -> None:
    first, second = job("a", 2)
    pods = [*bound([first], on(NODES, "n1-0"), started=True), second, foreign("x", "n1-1")]
    assert waiting(decide(Topology(NODES.values()), pods, NOW)) == {
        "a": "a-worker-1 needs a node in us-01-a, where its block is: node n1-1 is held by other/x"
    }
    full = replace(foreign("x", "n1-1"), demand=Demand(requests={"cpu": 100_000}))
    assert waiting(decide(Topology(NODES.values()), [*pods[:2], full], NOW)) == {
        "a": "a-worker-1 needs a node in us-01-a, where its block is: node n1-1 does not have enough cpu"
    }


def test_of_a_pair_outside_any_ultraserver_the_second_node_is_free_when_the_first_is_given_away() -> None:
    outside = {SERVER_4: NO_SERVER, NODE_IDS[SERVER_4]: NO_NODE}
    nodes = [node(1, place, labels=outside) for place in range(2)]
    decision = decide(Topology(nodes), [*job("a", 1, age=HOUR), *job("b", 1)], NOW)
    assert placed(decision) == {"a": "n1-0", "b": "n1-1"}


def test_a_worker_comes_back_to_its_unit_by_the_label_that_its_nodes_have_now() -> None:
    nodes = [node(1, place, labels={SERVER_4: "us-77"}) for place in range(4)]
    pods = job("a", 4)
    there = bound(pods, [node(1, place) for place in range(4)], started=True)[:3]
    assert placed(decide(Topology(nodes), [*there, pods[3]], NOW)) == {"a": "us-77"}
