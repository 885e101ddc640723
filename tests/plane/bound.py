"""Functions that wait until the scheduler has bound Pods."""

from testbed.plane.kubectl import Kubectl, Object


def wait_bound(inside: Kubectl, names: list[str]) -> dict[str, str]:
    """Waits until all these Pods are bound. Returns the node of each Pod, by the Pod's name."""

    def nodes_of_pods(obj: Object) -> dict[str, str]:
        node_of_pod = {item["metadata"]["name"]: item["spec"].get("nodeName", "") for item in obj["items"]}
        return {name: node_of_pod.get(name, "") for name in names}

    return nodes_of_pods(inside.wait_for(lambda obj: all(nodes_of_pods(obj).values()), "pods"))


def wait_count(inside: Kubectl, count: int, *select: str) -> list[Object]:
    """Waits until exactly ``count`` Pods are bound, and returns these Pods."""

    def bound_pods(obj: Object) -> list[Object]:
        return [item for item in obj["items"] if item["spec"].get("nodeName")]

    return bound_pods(inside.wait_for(lambda obj: len(bound_pods(obj)) == count, "pods", *select))
