"""Tests of T9k's MPIJob with a definition by this project, because definition and operator are not public."""

import pytest

from contract.keys import BLOCK
from testbed.plane.jobs import list_object
from testbed.plane.kubectl import Kubectl, Object
from tests.helpers import request_for
from tests.plane.bound import wait_bound
from tests.t9k import SHAPES, t9k_mpijob, worker_of
from webhook.engine import evaluate
from webhook.rules.load import load_default


def pods_of(job: Object) -> list[Object]:
    """Returns the workers as the operator's document describes them. Their labels are not public."""
    name, worker = job["metadata"]["name"], worker_of(job)
    template = worker["template"]
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**template.get("metadata", {}), "name": f"{name}-worker-{index}"},
            "spec": template["spec"],
        }
        for index in range(worker["replicas"])
    ]


def test_each_job_of_both_formats_has_its_own_ultraserver(
    namespace: Kubectl, servers: dict[str, str]
) -> None:
    servers_by_job = []
    for shape in SHAPES:
        job = t9k_mpijob(shape, name=f"by-{shape.lower()}", scheduler={"t9kScheduler": {"queue": "default"}})
        stored = namespace.create(job)
        expected = evaluate(load_default(), request_for(job, namespace=str(namespace.namespace))).after
        assert stored["spec"] == expected["spec"]
        pods = pods_of(stored)
        namespace.create(list_object(*pods))
        node_of = wait_bound(namespace, [pod["metadata"]["name"] for pod in pods])
        servers_by_job.append({servers[node] for node in node_of.values()})
    assert [len(job_servers) for job_servers in servers_by_job] == [1, 1]
    assert servers_by_job[0] != servers_by_job[1]


@pytest.mark.parametrize("shape", SHAPES)
def test_each_block_of_a_job_on_two_ultraservers_has_its_own_ultraserver(
    namespace: Kubectl, servers: dict[str, str], shape: str
) -> None:
    pods = pods_of(namespace.create(t9k_mpijob(shape, 8)))
    names = [pod["metadata"]["name"] for pod in pods]
    namespace.create(list_object(*pods))
    node_of = wait_bound(namespace, names)
    servers_by_block = [{servers[node_of[name]] for name in names[first : first + 4]} for first in (0, 4)]
    assert [len(block_servers) for block_servers in servers_by_block] == [1, 1]
    assert servers_by_block[0] != servers_by_block[1]
    labels = [namespace.get_json("pod", name)["metadata"]["labels"][BLOCK] for name in names]
    assert labels == ["0"] * 4 + ["1"] * 4
