"""How tests wait until the scheduler has bound Pods."""

from testbed.plane.kubectl import Kubectl, Object


def wait_bound(inside: Kubectl, names: list[str]) -> dict[str, str]:
    """Waits until all these Pods are bound, and says on which nodes they are."""

    def nodes(obj: Object) -> dict[str, str]:
        on = {item["metadata"]["name"]: item["spec"].get("nodeName", "") for item in obj["items"]}
        return {name: on.get(name, "") for name in names}

    return nodes(inside.wait_for(lambda obj: all(nodes(obj).values()), "pods"))


def wait_count(inside: Kubectl, count: int, *select: str) -> list[Object]:
    """Waits until this many Pods are bound, and returns them."""

    def bound_ones(obj: Object) -> list[Object]:
        return [item for item in obj["items"] if item["spec"].get("nodeName")]

    return bound_ones(inside.wait_for(lambda obj: len(bound_ones(obj)) == count, "pods", *select))
