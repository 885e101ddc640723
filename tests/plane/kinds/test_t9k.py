"""T9k's MPIJob by a definition of our own: neither the real one nor the operator is public."""

from __future__ import annotations

from testbed.plane.jobs import together
from testbed.plane.kubectl import Kubectl, Object
from tests.helpers import requested
from tests.plane.bound import wait_bound
from tests.t9k import SHAPES, t9k_mpijob, worker_of
from webhook.engine import evaluate
from webhook.rules.load import load_default


def pods_of(job: Object) -> list[Object]:
    """The workers that the operator makes, as its document says; it is not public, nor are their labels."""
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
        found = wait_bound(namespace, [pod["metadata"]["name"] for pod in pods])
        used.append({servers[node] for node in found.values()})
    assert [len(each) for each in used] == [1, 1]
    assert used[0] != used[1]
