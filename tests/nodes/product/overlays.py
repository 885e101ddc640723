"""Checks that a recommended set of values has its effect in the cluster where it is installed."""

from collections.abc import Callable
from dataclasses import dataclass

from contract.keys import GATE
from testbed.mpijob import mpijob
from testbed.nodes import story
from testbed.nodes.plugin import RESOURCE
from testbed.plane import nodes
from testbed.plane.jobs import template, to_json
from testbed.plane.kubectl import Kubectl, Object
from tests.nodes.replicas import metrics
from tests.plane.guard.people import WORKER


@dataclass(frozen=True)
class Cluster:
    """A cluster with the product.

    Attributes:
        own: kubectl for the product's namespace.
        team: kubectl for a namespace of jobs, which no set of values names.
        opted_in: kubectl for a namespace that is opted in.
    """

    own: Kubectl
    team: Kubectl
    opted_in: Kubectl

    def job(self, kubectl: Kubectl | None = None) -> Object:
        """Returns the workers' pod template of a new job of four workers, as it would be stored."""
        return template((kubectl or self.team).create(mpijob(4), "--dry-run=server"), "Worker")

    def pods(self) -> list[Object]:
        """Returns the product's Pods that are not being deleted."""
        items: list[Object] = self.own.get_json("pods")["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]


def places_jobs(cluster: Cluster) -> bool:
    return cluster.job()["spec"].get("nodeSelector") == {nodes.INSTANCE_TYPE: "trn2u.48xlarge"}


def hyperpod(cluster: Cluster) -> bool:
    return cluster.job()["spec"].get("nodeSelector") == {nodes.INSTANCE_TYPE: "ml.trn2u.48xlarge"}


def cert_manager(cluster: Cluster) -> bool:
    names = cluster.own.run("get", "certificates,issuers", "-o", "name").stdout.split()
    return len(names) == 4 and places_jobs(cluster)


def monitoring(cluster: Cluster) -> bool:
    slices = ("endpointslices", "-l", "kubernetes.io/service-name=ultraserver-webhook-metrics")
    endpoints = [
        endpoint for item in cluster.own.get_json(*slices)["items"] for endpoint in item["endpoints"]
    ]
    texts = [metrics(cluster.own, endpoint["targetRef"]["name"]) for endpoint in endpoints]
    names = ("ultraserver_webhook_table_info", "ultraserver_certs_last_success_timestamp_seconds")
    return [sum(name in metrics_text for metrics_text in texts) for name in names] == [2, 1]


def create_forged_worker(cluster: Cluster) -> tuple[bool, bool]:
    """Returns whether a user's forged worker is refused, and whether kubectl names the guard's policy."""
    person = cluster.team.acting_as("person", "system:authenticated")
    output = person.run("create", "--dry-run=server", "-f", "-", stdin=to_json(WORKER), check=False)
    return output.returncode == 1, "ultraserver-webhook-guard-pods" in output.stderr


def guard_warn(cluster: Cluster) -> bool:
    return create_forged_worker(cluster) == (False, True)


def without_placement(cluster: Cluster) -> bool:
    if {"name": GATE} in cluster.job()["spec"].get("schedulingGates", ()):
        return False
    cluster.team.create(mpijob(2))
    for pod in story.wait_for_workers(cluster.team, "train", 2):
        assert nodes.SERVER_ID_2 not in pod["spec"]["nodeSelector"]
    return True


def default(cluster: Cluster) -> bool:
    """Returns whether the default works: whole-job admission places a job, and the guard refuses."""
    if {"name": GATE} not in cluster.job()["spec"].get("schedulingGates", ()):
        return False
    cluster.team.create(mpijob(2))
    for pod in story.wait_for_workers(cluster.team, "train", 2):
        assert nodes.SERVER_ID_2 in pod["spec"]["nodeSelector"]
    return places_jobs(cluster) and create_forged_worker(cluster) == (True, True)


def kinds(cluster: Cluster) -> bool:
    job = mpijob(4)
    worker = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    worker["spec"]["restartPolicy"] = "Never"
    spec = {"completions": 4, "parallelism": 4, "completionMode": "Indexed", "template": worker}
    document = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec}
    created = cluster.team.create(document, "--dry-run=server")
    return "nodeSelector" in created["spec"]["template"]["spec"]


def neuron_scheduler(cluster: Cluster) -> bool:
    requests = {"limits": {RESOURCE: 4}}
    containers = [{"name": "main", "image": "example.invalid/main", "resources": requests}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": {"containers": containers}}
    created = cluster.team.create(pod, "--dry-run=server")
    return bool(created["spec"]["schedulerName"] == "my-scheduler")


def opt_in(cluster: Cluster) -> bool:
    return (
        "nodeSelector" not in cluster.job()["spec"]
        and "nodeSelector" in cluster.job(cluster.opted_in)["spec"]
    )


CHECKS: dict[str, Callable[[Cluster], bool]] = {
    "": default,
    "cert-manager": cert_manager,
    "failclosed": places_jobs,
    "guard-warn": guard_warn,
    "hyperpod": hyperpod,
    "kinds": kinds,
    "monitoring": monitoring,
    "neuron-scheduler": neuron_scheduler,
    "opt-in": opt_in,
    "without-placement": without_placement,
}
"""The check of each set of values. With the default values, only the checks of the default and of
``failclosed`` succeed. tests/nodes/install tests that ``failclosed`` refuses jobs while no replica serves."""
