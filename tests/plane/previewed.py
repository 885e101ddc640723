"""How the Pods of a preview are compared with those that a real operator made of the same job."""

import json
from collections import Counter
from collections.abc import Collection
from typing import Any

import jsonpatch
from click.testing import CliRunner

from contract import keys
from testbed.plane.kubectl import Kubectl, Object
from webhook.cli import main
from webhook.objects.tree import canonical, get, get_maps

SIZES = (1, 2, 4, 8)
CONTAINER = ("spec", "containers", 0)


def pods_of(namespace: Kubectl, name: str, count: int) -> list[Object]:
    """Returns the Pods of a job, which its operator calls after it, once this many are there."""

    def of_job(obj: Object) -> list[Object]:
        return [item for item in obj["items"] if item["metadata"]["name"].startswith(f"{name}-")]

    return of_job(namespace.wait_for(lambda obj: len(of_job(obj)) == count, "pods"))


def blocks(pods: list[Object]) -> set[str]:
    """Returns the blocks that Pods are in."""
    return {pod["metadata"]["labels"][keys.BLOCK] for pod in pods if keys.BLOCK in pod["metadata"]["labels"]}


def are_as_previewed(namespace: Kubectl, made: Object, pods: list[Object]) -> None:
    """Checks that what the webhook added to the Pods of a job is what the preview of the job says.

    Args:
        namespace: where they are.
        made: the job, as a user writes it.
        pods: that its operator made.
    """
    command = ["preview", "--pods", "--without-placement", "-n", str(namespace.namespace), "-o", "json"]
    result = CliRunner().invoke(main, command, input=json.dumps(made), catch_exceptions=False)
    (item,) = json.loads(result.stdout)["items"]
    parts = item["pods"]
    after = [jsonpatch.apply_patch(part["pod"], part["preview"]["patch"]) for part in parts]
    names = {
        name for obj, part in zip(after, parts, strict=True) for name in env(obj).keys() - env(part["pod"])
    }
    wanted: Counter[str] = Counter()
    for part, obj in zip(parts, after, strict=True):
        wanted[got(obj, names)] += 1 + part["last"] - part["first"]
        alike = [pod for pod in pods if marks(part["pod"]) <= marks(pod)]
        assert got(obj, names) in {got(pod, names) for pod in alike}, part
    assert wanted == Counter(got(pod, names) for pod in pods)


def got(pod: Object, names: Collection[str]) -> str:
    """Returns what the webhook may have added to a Pod; only variables with its own names."""
    mounts = {item["mountPath"]: item["name"] for item in get_maps(pod, (*CONTAINER, "volumeMounts"))}
    ours = {path: name for path, name in mounts.items() if name == "ultraserver-init"}
    variables = {name: value for name, value in env(pod).items() if name in names}
    spec = {key: pod["spec"].get(key) for key in ("nodeSelector", "schedulingGates")}
    spec["affinity"] = unmerged(pod["spec"].get("affinity"))
    return canonical([pod["metadata"]["labels"].get(keys.BLOCK), spec, ours, variables])


def unmerged(affinity: Any) -> Any:
    """Returns affinity without the API server's expressions for matchLabelKeys and mismatchLabelKeys.

    It does so when it has admitted a Pod (Kubernetes, ``pkg/registry/core/pod/strategy.go``).
    """
    if isinstance(affinity, list):
        return [unmerged(item) for item in affinity]
    if not isinstance(affinity, dict):
        return affinity
    merged = {*affinity.get("matchLabelKeys", ()), *affinity.get("mismatchLabelKeys", ())}
    result = {key: unmerged(value) for key, value in affinity.items()}
    if merged:
        selector = result["labelSelector"]
        kept = [each for each in selector.get("matchExpressions", ()) if each["key"] not in merged]
        result["labelSelector"] = {**selector, "matchExpressions": kept}
    return result


def env(pod: Object) -> dict[str, str]:
    """Returns the variables of the main container; of two with one name the last counts."""
    return {item["name"]: item.get("value", "") for item in get_maps(pod, (*CONTAINER, "env"))}


def marks(pod: Object) -> set[tuple[str, str]]:
    """Labels and annotations."""
    return {*get(pod, ("metadata", "labels")).items(), *get(pod, ("metadata", "annotations")).items()}
