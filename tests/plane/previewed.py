"""Compares the Pods of a preview with the Pods that a real operator creates for the same job."""

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
    """Waits until a job has ``count`` Pods, whose names begin with the job's name, and returns these Pods."""

    def of_job(obj: Object) -> list[Object]:
        return [item for item in obj["items"] if item["metadata"]["name"].startswith(f"{name}-")]

    return of_job(namespace.wait_for(lambda obj: len(of_job(obj)) == count, "pods"))


def blocks(pods: list[Object]) -> set[str]:
    """Returns the values of the Pods' block labels."""
    return {pod["metadata"]["labels"][keys.BLOCK] for pod in pods if keys.BLOCK in pod["metadata"]["labels"]}


def assert_as_previewed(namespace: Kubectl, job: Object, pods: list[Object]) -> None:
    """Asserts that the webhook added to the Pods of a job what the preview of the job shows.

    Args:
        namespace: The namespace of the job and its Pods.
        job: The job, as a user writes it.
        pods: The Pods that the operator created for the job.
    """
    command = ["preview", "--pods", "--without-placement", "-n", str(namespace.namespace), "-o", "json"]
    result = CliRunner().invoke(main, command, input=json.dumps(job), catch_exceptions=False)
    (item,) = json.loads(result.stdout)["items"]
    rows = item["pods"]
    after = [jsonpatch.apply_patch(row["pod"], row["preview"]["patch"]) for row in rows]
    names = {name for pod, row in zip(after, rows, strict=True) for name in env(pod).keys() - env(row["pod"])}
    expected: Counter[str] = Counter()
    for row, previewed in zip(rows, after, strict=True):
        expected[additions(previewed, names)] += 1 + row["last"] - row["first"]
        matching_pods = [
            pod for pod in pods if labels_and_annotations(row["pod"]) <= labels_and_annotations(pod)
        ]
        assert additions(previewed, names) in {additions(pod, names) for pod in matching_pods}, row
    assert expected == Counter(additions(pod, names) for pod in pods)


def additions(pod: Object, names: Collection[str]) -> str:
    """Returns, as JSON, the fields to which the webhook adds, with the variables of these names."""
    mounts = {item["mountPath"]: item["name"] for item in get_maps(pod, (*CONTAINER, "volumeMounts"))}
    mounts_of_init = {path: name for path, name in mounts.items() if name == "ultraserver-init"}
    variables = {name: value for name, value in env(pod).items() if name in names}
    spec = {key: pod["spec"].get(key) for key in ("nodeSelector", "schedulingGates")}
    spec["affinity"] = unmerged(pod["spec"].get("affinity"))
    return canonical([pod["metadata"]["labels"].get(keys.BLOCK), spec, mounts_of_init, variables])


def unmerged(affinity: Any) -> Any:
    """Returns affinity without the API server's expressions for matchLabelKeys and mismatchLabelKeys.

    The API server adds them to a Pod that it stores (Kubernetes, ``pkg/registry/core/pod/strategy.go``).
    """
    if isinstance(affinity, list):
        return [unmerged(item) for item in affinity]
    if not isinstance(affinity, dict):
        return affinity
    merged = {*affinity.get("matchLabelKeys", ()), *affinity.get("mismatchLabelKeys", ())}
    result = {key: unmerged(value) for key, value in affinity.items()}
    if merged:
        selector = result["labelSelector"]
        kept = [row for row in selector.get("matchExpressions", ()) if row["key"] not in merged]
        result["labelSelector"] = {**selector, "matchExpressions": kept}
    return result


def env(pod: Object) -> dict[str, str]:
    """Returns the variables of the first container. If two have the same name, the last value is used."""
    return {item["name"]: item.get("value", "") for item in get_maps(pod, (*CONTAINER, "env"))}


def labels_and_annotations(pod: Object) -> set[tuple[str, str]]:
    """Returns the labels and annotations of a Pod."""
    return {*get(pod, ("metadata", "labels")).items(), *get(pod, ("metadata", "annotations")).items()}
