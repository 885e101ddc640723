"""Where the scheduler puts the workers that mpi-operator makes of plain jobs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.cluster import jobs, nodes
from tests.cluster.jobs import JOB_NAME
from tests.helpers import mpijob

if TYPE_CHECKING:
    from tests.cluster.kubectl import Kubectl, Object

pytestmark = pytest.mark.usefixtures("registered_webhook")
Labels = dict[str, dict[str, str]]


def settled(kubectl: Kubectl, workers: int) -> dict[str, list[Object]]:
    """The workers of a namespace by their job, once all of them are bound."""
    found = kubectl.wait_for(
        lambda pods: len([pod for pod in pods["items"] if pod["spec"].get("nodeName")]) == workers,
        *("pods", "-l", f"{jobs.ROLE}=worker"),
        timeout=60,
    )
    by_job: dict[str, list[Object]] = {}
    for pod in found["items"]:
        by_job.setdefault(pod["metadata"]["labels"][JOB_NAME], []).append(pod)
    return by_job


def units(pods: list[Object], labels: Labels, key: str = nodes.SERVER_ID_4) -> Counter[str]:
    """How many of the pods are in each unit of nodes; every pod on a node of its own."""
    names = [pod["spec"]["nodeName"] for pod in pods]
    assert len(set(names)) == len(names)
    return Counter(labels[name][key] for name in names)


def test_a_four_node_job_is_on_one_ultraserver(namespace: Kubectl, control_plane_nodes: Labels) -> None:
    namespace.apply(mpijob(4))
    pods = settled(namespace, 4)["train"]
    assert sorted(pod["metadata"]["name"] for pod in pods) == [f"train-worker-{i}" for i in range(4)]
    assert list(units(pods, control_plane_nodes).values()) == [4]


def test_a_two_node_job_is_on_one_pair(namespace: Kubectl, control_plane_nodes: Labels) -> None:
    namespace.apply(mpijob(2))
    pods = settled(namespace, 2)["train"]
    assert list(units(pods, control_plane_nodes, nodes.SERVER_ID_2).values()) == [2]


def test_a_single_node_job_is_on_an_ultraserver_node(namespace: Kubectl, control_plane_nodes: Labels) -> None:
    namespace.apply(mpijob(1))
    (pod,) = settled(namespace, 1)["train"]
    assert control_plane_nodes[pod["spec"]["nodeName"]][nodes.INSTANCE_TYPE] == nodes.TRN2U


def test_jobs_of_two_namespaces_and_of_one_name_are_on_two_ultraservers(
    namespace: Kubectl, second_namespace: Kubectl, control_plane_nodes: Labels
) -> None:
    for kubectl in (namespace, second_namespace):
        kubectl.apply(mpijob(4))
    first, second = (settled(kubectl, 4)["train"] for kubectl in (namespace, second_namespace))
    assert list(units(first, control_plane_nodes).values()) == [4]
    assert list(units(second, control_plane_nodes).values()) == [4]
    assert not units(first, control_plane_nodes).keys() & units(second, control_plane_nodes).keys()


def test_a_partly_taken_ultraserver_is_closed_to_a_job_of_another_namespace_and_of_the_same_name(
    namespace: Kubectl, second_namespace: Kubectl
) -> None:
    server = nodes.ultraserver_nodes(1)[0]["metadata"]["labels"][nodes.SERVER_ID_4]
    chosen = {"nodeSelector": {nodes.SERVER_ID_4: server}}
    namespace.apply(mpijob(2, worker_spec=chosen))
    settled(namespace, 2)
    second_namespace.apply(mpijob(4, worker_spec=chosen))
    judged = second_namespace.wait_for(
        lambda pods: len([pod for pod in pods["items"] if pod["status"].get("conditions")]) == 4,
        *("pods", "-l", f"{jobs.ROLE}=worker"),
    )["items"]
    assert not [pod for pod in judged if pod["spec"].get("nodeName")]
    assert all("anti-affinity rules" in pod["status"]["conditions"][0]["message"] for pod in judged)


def test_eight_workers_share_no_ultraserver_with_others(
    namespace: Kubectl, second_namespace: Kubectl, control_plane_nodes: Labels
) -> None:
    second_namespace.apply(mpijob(4))
    namespace.apply(mpijob(8))
    eight, four = settled(namespace, 8)["train"], settled(second_namespace, 4)["train"]
    # Whole UltraServers are preferred only, by a weight; here enough of them are wholly free.
    assert list(units(eight, control_plane_nodes).values()) == [4, 4]
    assert list(units(four, control_plane_nodes).values()) == [4]
    assert not units(eight, control_plane_nodes).keys() & units(four, control_plane_nodes).keys()


def test_jobs_of_every_size_from_two_namespaces_at_once_are_all_placed_and_keep_apart(
    namespace: Kubectl, second_namespace: Kubectl, control_plane_nodes: Labels
) -> None:
    sizes = {"four": 4, "other-four": 4, "two": 2, "other-two": 2, "six": 6, "alone": 1}
    documents = jobs.together(*(mpijob(workers, name=name) for name, workers in sizes.items()))
    for kubectl in (namespace, second_namespace):
        kubectl.apply(documents)
    placed = [
        (sizes[name], pods)
        for kubectl in (namespace, second_namespace)
        for name, pods in settled(kubectl, sum(sizes.values())).items()
    ]
    assert all(len(pods) == size for size, pods in placed)
    everybody = [pod for _, pods in placed for pod in pods]
    for size, key in ((4, nodes.SERVER_ID_4), (2, nodes.SERVER_ID_2)):
        there = units(everybody, control_plane_nodes, key)
        for pods in (pods for found, pods in placed if found == size):
            (unit,) = units(pods, control_plane_nodes, key)
            assert there[unit] == size, f"somebody else beside a job of {size}"
    six = [pods for size, pods in placed if size == 6]
    pairs = [units(pods, control_plane_nodes, nodes.SERVER_ID_2).keys() for pods in six]
    assert not pairs[0] & pairs[1]


def test_a_job_that_does_not_fit_waits_and_says_why(namespace: Kubectl, control_plane_nodes: Labels) -> None:
    closed, labels = next(
        (name, labels) for name, labels in control_plane_nodes.items() if labels.get(nodes.NODE_ID_4) == "3"
    )
    chosen = {"nodeSelector": {nodes.SERVER_ID_4: labels[nodes.SERVER_ID_4]}}
    namespace.run("cordon", closed)
    try:
        namespace.apply(mpijob(4, worker_spec=chosen))
        settled(namespace, 3)
        waits = namespace.wait_for(
            lambda pods: [pod for pod in pods["items"] if pod["status"].get("conditions")],
            *("pods", "-l", f"{jobs.ROLE}=worker", "--field-selector", "spec.nodeName="),
        )["items"]
        (condition,) = waits[0]["status"]["conditions"]
        assert (condition["type"], condition["reason"]) == ("PodScheduled", "Unschedulable")
        assert "1 node(s) were unschedulable" in condition["message"]
    finally:
        namespace.run("uncordon", closed)
