"""Where the scheduler puts the workers that mpi-operator makes of plain jobs."""

from collections import Counter

import pytest

from testbed.mpijob import mpijob
from testbed.plane import jobs, nodes
from testbed.plane.jobs import JOB_NAME
from testbed.plane.kubectl import Kubectl, Object

pytestmark = pytest.mark.usefixtures("registered_webhook")
Labels = dict[str, dict[str, str]]


def settled(kubectl: Kubectl, workers: int) -> dict[str, list[Object]]:
    """Returns the workers of a namespace by their job, once all of them are bound."""
    obj = kubectl.wait_for(
        lambda pods: len([pod for pod in pods["items"] if pod["spec"].get("nodeName")]) == workers,
        *("pods", "-l", f"{jobs.ROLE}=worker"),
        timeout=60,
    )
    by_job: dict[str, list[Object]] = {}
    for pod in obj["items"]:
        by_job.setdefault(pod["metadata"]["labels"][JOB_NAME], []).append(pod)
    return by_job


def units(pods: list[Object], labels: Labels, key: str = nodes.SERVER_ID_4) -> Counter[str]:
    """Returns how many of the pods are in each unit of nodes; every pod on a node of its own."""
    names = [pod["spec"]["nodeName"] for pod in pods]
    assert len(set(names)) == len(names)
    return Counter(labels[name][key] for name in names)


def test_a_partly_taken_ultraserver_is_closed_to_a_job_of_another_namespace_and_of_the_same_name(
    namespace: Kubectl, second_namespace: Kubectl
) -> None:
    """And when that job is gone, it is placed at once: one term says all that keeps it off."""
    server = nodes.ultraserver_nodes(1)[0]["metadata"]["labels"][nodes.SERVER_ID_4]
    chosen = {"nodeSelector": {nodes.SERVER_ID_4: server}}
    namespace.create(mpijob(2, worker_spec=chosen))
    settled(namespace, 2)
    second_namespace.create(mpijob(4, worker_spec=chosen))

    def kept_off(pods: Object) -> bool:
        texts = [
            condition.get("message", "")
            for pod in pods["items"]
            for condition in pod["status"].get("conditions", ())
        ]
        return sum("anti-affinity rules" in message for message in texts) == 4

    judged = second_namespace.wait_for(kept_off, "pods", "-l", f"{jobs.ROLE}=worker")["items"]
    assert not [pod for pod in judged if pod["spec"].get("nodeName")]
    namespace.delete("mpijobs")
    namespace.delete("pods", at_once=True)
    settled(second_namespace, 4)


def test_jobs_of_every_size_from_two_namespaces_at_once_are_all_placed_and_keep_apart(
    namespace: Kubectl, second_namespace: Kubectl, control_plane_nodes: Labels
) -> None:
    sizes = {"four": 4, "other-four": 4, "two": 2, "other-two": 2, "six": 6, "alone": 1}
    documents = jobs.together(*(mpijob(workers, name=name) for name, workers in sizes.items()))
    for kubectl in (namespace, second_namespace):
        kubectl.create(documents)
    placed = [
        (sizes[name], pods)
        for kubectl in (namespace, second_namespace)
        for name, pods in settled(kubectl, sum(sizes.values())).items()
    ]
    assert all(len(pods) == size for size, pods in placed)
    everybody = [pod for _, pods in placed for pod in pods]
    for size, key in ((4, nodes.SERVER_ID_4), (2, nodes.SERVER_ID_2)):
        there = units(everybody, control_plane_nodes, key)
        for pods in (pods for pods_of_job, pods in placed if pods_of_job == size):
            (unit,) = units(pods, control_plane_nodes, key)
            assert there[unit] == size, f"another job on the unit of a job of {size}"
    for (pod,) in (pods for size, pods in placed if size == 1):
        assert control_plane_nodes[pod["spec"]["nodeName"]][nodes.INSTANCE_TYPE] == nodes.TRN2U
    six = [pods for size, pods in placed if size == 6]
    pairs = [units(pods, control_plane_nodes, nodes.SERVER_ID_2).keys() for pods in six]
    assert not pairs[0] & pairs[1]
