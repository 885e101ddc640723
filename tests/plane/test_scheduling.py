"""Tests of the nodes that the real scheduler chooses for the workers of MPIJobs."""

from collections import Counter

import pytest

from testbed.mpijob import mpijob
from testbed.plane import jobs, nodes
from testbed.plane.jobs import JOB_NAME
from testbed.plane.kubectl import Kubectl, Object

pytestmark = pytest.mark.usefixtures("registered_webhook")
Labels = dict[str, dict[str, str]]


def wait_until_bound(kubectl: Kubectl, workers: int) -> dict[str, list[Object]]:
    """Waits until this many workers of a namespace are bound, and returns its workers by job."""
    obj = kubectl.wait_for(
        lambda pods: len([pod for pod in pods["items"] if pod["spec"].get("nodeName")]) == workers,
        *("pods", "-l", f"{jobs.ROLE}=worker"),
        timeout=60,
    )
    by_job: dict[str, list[Object]] = {}
    for pod in obj["items"]:
        by_job.setdefault(pod["metadata"]["labels"][JOB_NAME], []).append(pod)
    return by_job


def count_by_unit(pods: list[Object], labels: Labels, key: str = nodes.SERVER_ID_4) -> Counter[str]:
    """Returns the number of pods in each unit. Asserts that no two pods share a node."""
    names = [pod["spec"]["nodeName"] for pod in pods]
    assert len(set(names)) == len(names)
    return Counter(labels[name][key] for name in names)


def test_a_job_does_not_share_an_ultraserver_with_a_job_of_the_same_name_in_another_namespace(
    namespace: Kubectl, second_namespace: Kubectl
) -> None:
    """Only the anti-affinity term keeps the job waiting: it is placed when the other job is deleted."""
    server = nodes.ultraserver_nodes(1)[0]["metadata"]["labels"][nodes.SERVER_ID_4]
    on_server = {"nodeSelector": {nodes.SERVER_ID_4: server}}
    namespace.create(mpijob(2, worker_spec=on_server))
    wait_until_bound(namespace, 2)
    second_namespace.create(mpijob(4, worker_spec=on_server))

    def is_repelled(pods: Object) -> bool:
        texts = [
            condition.get("message", "")
            for pod in pods["items"]
            for condition in pod["status"].get("conditions", ())
        ]
        return sum("anti-affinity rules" in message for message in texts) == 4

    waiting = second_namespace.wait_for(is_repelled, "pods", "-l", f"{jobs.ROLE}=worker")["items"]
    assert not [pod for pod in waiting if pod["spec"].get("nodeName")]
    namespace.delete("mpijobs")
    namespace.delete("pods", at_once=True)
    wait_until_bound(second_namespace, 4)


def test_jobs_of_every_size_from_two_namespaces_at_once_are_all_placed_and_keep_apart(
    namespace: Kubectl, second_namespace: Kubectl, labels_by_node: Labels
) -> None:
    sizes = {"four": 4, "other-four": 4, "two": 2, "other-two": 2, "six": 6, "alone": 1}
    documents = jobs.list_object(*(mpijob(workers, name=name) for name, workers in sizes.items()))
    for kubectl in (namespace, second_namespace):
        kubectl.create(documents)
    placed = [
        (sizes[name], pods)
        for kubectl in (namespace, second_namespace)
        for name, pods in wait_until_bound(kubectl, sum(sizes.values())).items()
    ]
    assert all(len(pods) == size for size, pods in placed)
    all_pods = [pod for _, pods in placed for pod in pods]
    for size, key in ((4, nodes.SERVER_ID_4), (2, nodes.SERVER_ID_2)):
        pods_in_unit = count_by_unit(all_pods, labels_by_node, key)
        for pods in (pods for workers, pods in placed if workers == size):
            (unit,) = count_by_unit(pods, labels_by_node, key)
            assert pods_in_unit[unit] == size, f"another job shares the unit of a job of {size}"
    for (pod,) in (pods for size, pods in placed if size == 1):
        assert labels_by_node[pod["spec"]["nodeName"]][nodes.INSTANCE_TYPE] == nodes.TRN2U
    six = [pods for size, pods in placed if size == 6]
    pairs = [count_by_unit(pods, labels_by_node, nodes.SERVER_ID_2).keys() for pods in six]
    assert not pairs[0] & pairs[1]
