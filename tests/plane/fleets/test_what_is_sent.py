"""Tests of which objects the API server sends to the webhook, by the API server's own metrics."""

from collections.abc import Callable
from typing import Any

import pytest

from testbed.mpijob import mpijob
from testbed.plane import nodes, webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import list_object
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.webhook import RunningWebhook
from tests.plane.fleets.installed import installed
from tests.plane.fleets.pods import spec

PLAIN = {"containers": [{"name": "x", "image": "example.invalid/x"}]}
GPU = {"containers": [{"name": "x", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
STATIC = {"nodeName": nodes.plain_nodes(1)[0]["metadata"]["name"], "automountServiceAccountToken": False}
MIRROR = {"kubernetes.io/config.mirror": "x"}


def named(kind: str, name: str, body: Object, **metadata: Any) -> Object:
    version, _, kind = kind.rpartition("/")
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": body}


def replicated(name: str, pod: Object, **more: Any) -> Object:
    labels = {"app": name}
    return {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
        **more,
    }


def everyday_objects() -> Object:
    """Returns objects that create Pods without devices, Pods with devices, and Pods of jobs."""
    cron = {
        "schedule": "0 0 1 1 *",
        "jobTemplate": {"spec": {"template": {"spec": PLAIN | {"restartPolicy": "Never"}}}},
    }
    return list_object(
        named("apps/v1/Deployment", "web", replicated("web", PLAIN, replicas=3)),
        named("apps/v1/Deployment", "served", replicated("served", spec(1), replicas=2)),
        named("apps/v1/DaemonSet", "logs", replicated("logs", PLAIN)),
        named("batch/v1/CronJob", "nightly", cron),
        named("v1/Pod", "devices", spec(4)),
        named("v1/Pod", "gpu", GPU),
        named("v1/Pod", "mirror", spec(1) | STATIC, annotations=MIRROR),
        mpijob(4, name="one"),
        mpijob(8, name="two"),
    )


PODS = {
    "web": 3,
    "served": 2,
    "logs": 14,
    "nightly": 1,
    "devices": 1,
    "gpu": 1,
    "mirror": 1,
    "one": 5,
    "two": 9,
}
"""The number of Pods of each object. A job also has a launcher, and a DaemonSet has a Pod on each node."""

DEFAULT_CALLS = {
    "mpijobs": 2,
    "verify": 2,
    "launchers": 2,
    # The workers of the job on two UltraServers: the webhook writes the block of each.
    "pods": 8,
}


def pod_conflicts(kubectl: Kubectl) -> float:
    """Returns how many creates of Pods the API server has denied because the Pod exists."""
    labels_of_conflicts = 'code="409"', 'resource="pods"', 'verb="POST"', 'subresource=""'
    samples = webhook.metric_samples(kubectl, "apiserver_request_total")
    return sum(value for labels, value in samples if all(label in labels for label in labels_of_conflicts))


@pytest.mark.parametrize(
    ("values", "more"), [({}, {}), ({"pods": True}, {"bare-pods": 4})], ids=["default", "pods"]
)
def test_only_objects_that_the_webhook_may_change_are_sent(
    plane: ControlPlane,
    running: RunningWebhook,
    namespace: Callable[..., Kubectl],
    values: dict[str, Any],
    more: dict[str, int],
) -> None:
    people = namespace()
    with installed(plane, running, values) as hooks:
        before = {name: webhook.call_count(plane.kubectl, name) for name in hooks}
        conflicts_before = pod_conflicts(plane.kubectl)
        people.create(everyday_objects())
        people.run("create", "job", "nightly", "--from=cronjob/nightly")
        system = plane.kubectl.in_namespace("kube-system")
        system.create(named("v1/Pod", "addon", spec(1), namespace="kube-system"))
        try:
            people.wait_for(lambda obj: len(obj["items"]) >= sum(PODS.values()), "pods")
            after = {name: webhook.call_count(plane.kubectl, name) for name in hooks}
            conflicts = pod_conflicts(plane.kubectl) - conflicts_before
        finally:
            system.delete("pod", "addon", at_once=True)
    count = {name.partition(".")[0]: after[name] - before[name] for name in hooks}
    # While the cache of mpi-operator does not have a new worker, the operator creates this worker again. The
    # API server calls the webhook before it denies such a create because the Pod exists.
    assert DEFAULT_CALLS["pods"] <= count["pods"] <= DEFAULT_CALLS["pods"] + conflicts
    count["pods"] = DEFAULT_CALLS["pods"]
    assert {name: number for name, number in count.items() if number} == DEFAULT_CALLS | more
