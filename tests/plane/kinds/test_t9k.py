"""T9k's MPIJob by a definition of our own: neither the real one nor the operator is public."""

import pytest

from contract.keys import BLOCK
from testbed.plane.jobs import together
from testbed.plane.kubectl import Kubectl, Object
from tests.helpers import requested
from tests.plane.bound import wait_bound
from tests.t9k import SHAPES, t9k_mpijob, worker_of
from webhook.engine import evaluate
from webhook.rules.load import load_default


def pods_of(job: Object) -> list[Object]:
    """Returns the workers of the operator, from its document; neither it nor their labels are public."""
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


def test_jobs_of_both_shapes_are_on_an_ultraserver_each(namespace: Kubectl, servers: dict[str, str]) -> None:
    used = []
    for shape in SHAPES:
        job = t9k_mpijob(shape, name=f"by-{shape.lower()}", scheduler={"t9kScheduler": {"queue": "default"}})
        stored = namespace.create(job)
        wanted = evaluate(load_default(), requested(job, namespace=str(namespace.namespace))).after
        assert stored["spec"] == wanted["spec"]
        pods = pods_of(stored)
        namespace.create(together(*pods))
        bound = wait_bound(namespace, [pod["metadata"]["name"] for pod in pods])
        used.append({servers[node] for node in bound.values()})
    assert [len(each) for each in used] == [1, 1]
    assert used[0] != used[1]


@pytest.mark.parametrize("shape", SHAPES)
def test_each_block_of_a_job_of_two_ultraservers_is_on_one(
    namespace: Kubectl, servers: dict[str, str], shape: str
) -> None:
    pods = pods_of(namespace.create(t9k_mpijob(shape, 8)))
    names = [pod["metadata"]["name"] for pod in pods]
    namespace.create(together(*pods))
    bound = wait_bound(namespace, names)
    on = [{servers[bound[name]] for name in names[first : first + 4]} for first in (0, 4)]
    assert [len(each) for each in on] == [1, 1]
    assert on[0] != on[1]
    labels = [namespace.get_json("pod", name)["metadata"]["labels"][BLOCK] for name in names]
    assert labels == ["0"] * 4 + ["1"] * 4
