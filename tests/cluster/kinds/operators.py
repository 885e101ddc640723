"""The Pods that T9k's operator makes, as its document says, and how tests wait for Pods.

T9k's operator is not public. What places the Pods is in the template, which is the API server's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.jobs import text, together
from tests.t9k import worker_of

if TYPE_CHECKING:
    from tests.cluster.kubectl import Kubectl, Object


def of_t9k(job: Object) -> list[Object]:
    """The workers; their labels are not public, so they have those of the template only."""
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


def bound(inside: Kubectl, pods: list[Object]) -> dict[str, str]:
    """Creates Pods, waits until the scheduler has bound all of them, and says on which nodes they are."""
    inside.run("create", "-f", "-", stdin=text(together(*pods)))
    return wait_bound(inside, [pod["metadata"]["name"] for pod in pods])


def wait_bound(inside: Kubectl, names: list[str]) -> dict[str, str]:
    """Waits until all these Pods are bound, and says on which nodes they are."""

    def nodes(found: Object) -> dict[str, str]:
        on = {item["metadata"]["name"]: item["spec"].get("nodeName", "") for item in found["items"]}
        return {name: on.get(name, "") for name in names}

    return nodes(inside.wait_for(lambda found: all(nodes(found).values()), "pods"))


def wait_count(inside: Kubectl, count: int, *select: str) -> list[Object]:
    """Waits until so many Pods are bound, and returns them."""

    def bound_ones(found: Object) -> list[Object]:
        return [item for item in found["items"] if item["spec"].get("nodeName")]

    return bound_ones(inside.wait_for(lambda found: len(bound_ones(found)) == count, "pods", *select))
