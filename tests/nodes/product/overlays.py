"""What each recommended set of values assumes about a cluster, checked in one where it is installed."""

from collections.abc import Callable
from dataclasses import dataclass

from contract.keys import GATE
from testbed.mpijob import mpijob
from testbed.nodes import story
from testbed.nodes.plugin import RESOURCE
from testbed.plane import nodes
from testbed.plane.jobs import template, text
from testbed.plane.kubectl import Kubectl, Object
from tests.nodes.replicas import metrics
from tests.plane.guard.people import WORKER


@dataclass(frozen=True)
class Cluster:
    """Where it is installed.

    Attributes:
        own: kubectl for the product's namespace.
        here: for one with jobs, which no set has.
        asking: for one that asks to be touched.
    """

    own: Kubectl
    here: Kubectl
    asking: Kubectl

    def job(self, inside: Kubectl | None = None) -> Object:
        """Returns the worker's Pod template of a job of four, as it would be admitted."""
        return template((inside or self.here).create(mpijob(4), "--dry-run=server"), "Worker")

    def pods(self) -> list[Object]:
        """Returns the product's, those that are ending excepted."""
        items: list[Object] = self.own.get_json("pods")["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]


def base(cluster: Cluster) -> bool:
    return cluster.job()["spec"].get("nodeSelector") == {nodes.INSTANCE_TYPE: "trn2u.48xlarge"}


def hyperpod(cluster: Cluster) -> bool:
    return cluster.job()["spec"].get("nodeSelector") == {nodes.INSTANCE_TYPE: "ml.trn2u.48xlarge"}


def cert_manager(cluster: Cluster) -> bool:
    result = cluster.own.run("get", "certificates,issuers", "-o", "name").stdout.split()
    return len(result) == 4 and base(cluster)


def monitoring(cluster: Cluster) -> bool:
    slices = ("endpointslices", "-l", "kubernetes.io/service-name=ultraserver-webhook-metrics")
    matching = [point for item in cluster.own.get_json(*slices)["items"] for point in item["endpoints"]]
    exported = [metrics(cluster.own, point["targetRef"]["name"]) for point in matching]
    names = ("ultraserver_webhook_table_info", "ultraserver_certs_last_success_timestamp_seconds")
    return [sum(name in one for one in exported) for name in names] == [2, 1]


def forged(cluster: Cluster) -> tuple[bool, bool]:
    """Returns whether a worker that a person makes is refused, and whether the guard says something of it."""
    person = cluster.here.acting_as("person", "system:authenticated")
    done = person.run("create", "--dry-run=server", "-f", "-", stdin=text(WORKER), check=False)
    return done.returncode == 1, "ultraserver-webhook-guard-pods" in done.stderr


def guard_warn(cluster: Cluster) -> bool:
    return forged(cluster) == (False, True)


def without_placement(cluster: Cluster) -> bool:
    if {"name": GATE} in cluster.job()["spec"].get("schedulingGates", ()):
        return False
    cluster.here.create(mpijob(2))
    for pod in story.wait_for_workers(cluster.here, "train", 2):
        assert nodes.SERVER_ID_2 not in pod["spec"]["nodeSelector"]
    return True


def whole(cluster: Cluster) -> bool:
    """Returns whether the default works: whole-job admission places a job, and the guard refuses."""
    if {"name": GATE} not in cluster.job()["spec"].get("schedulingGates", ()):
        return False
    cluster.here.create(mpijob(2))
    for pod in story.wait_for_workers(cluster.here, "train", 2):
        assert nodes.SERVER_ID_2 in pod["spec"]["nodeSelector"]
    return base(cluster) and forged(cluster) == (True, True)


def kinds(cluster: Cluster) -> bool:
    job = mpijob(4)
    worker = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    worker["spec"]["restartPolicy"] = "Never"
    spec = {"completions": 4, "parallelism": 4, "completionMode": "Indexed", "template": worker}
    document = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec}
    made = cluster.here.create(document, "--dry-run=server")
    return "nodeSelector" in made["spec"]["template"]["spec"]


def neuron_scheduler(cluster: Cluster) -> bool:
    requests = {"limits": {RESOURCE: 4}}
    containers = [{"name": "main", "image": "example.invalid/main", "resources": requests}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": {"containers": containers}}
    made = cluster.here.create(pod, "--dry-run=server")
    return bool(made["spec"]["schedulerName"] == "my-scheduler")


def opt_in(cluster: Cluster) -> bool:
    return (
        "nodeSelector" not in cluster.job()["spec"] and "nodeSelector" in cluster.job(cluster.asking)["spec"]
    )


SAYS: dict[str, Callable[[Cluster], bool]] = {
    "": whole,
    "cert-manager": cert_manager,
    "failclosed": base,
    "guard-warn": guard_warn,
    "hyperpod": hyperpod,
    "kinds": kinds,
    "monitoring": monitoring,
    "neuron-scheduler": neuron_scheduler,
    "opt-in": opt_in,
    "without-placement": without_placement,
}
"""Whether a cluster is as a set says; false of the default, except its own, and failclosed: that one refuses
jobs while no replica serves is shown in tests/nodes/install."""
