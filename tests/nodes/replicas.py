"""The installed product under a load of creates: its Pods, their metrics, and its rule table."""

import contextlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from testbed.nodes import story
from testbed.nodes.calls import caller
from testbed.nodes.plane import RealPlane
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.load import Load, steady_load
from testbed.waiting import until
from webhook.rules.load import load_texts

REPLICAS = 2
CONFIG = ("configmap", "ultraserver-webhook-rules")
DEPLOYMENT = "deployment/ultraserver-webhook"
SERVING = ("pods", "-l", "app.kubernetes.io/component=serving")
CREATES_IN_THREE_SECONDS = 24
"""Number of creates in three seconds. In this time, every kube-proxy removes an endpoint."""
CREATES_AROUND_CHANGE = 16
"""Number of creates before the change that a test makes, and number of creates after it."""
LOST_LIMIT = 25
"""The sudden end of a replica must lose fewer creates than this. Chance decides which creates meet the end.

* A killed replica: its endpoint is used for at most three seconds, in which 24 creates begin.
* A replica that hangs, or whose node dies: a measurement lost 2 of 1,563 creates (docs/operations.md). So
  with 95 % certainty, less than 0.4 % are lost, which is 4 of 900 in one test. A Poisson variable with mean
  4 exceeds 24 once in 10^11 runs.
"""
TABLE = """\
apiVersion: ultraserver-webhook.io/v1alpha2
kind: RuleTable
extends: default
rules:
  - name: ultraserver-taint
    reason: Our UltraServer nodes are tainted against everything else.
    match: {role: worker}
    add:
      spec:
        tolerations:
          - {key: example.com/ultraserver, operator: Exists, effect: NoSchedule}
"""
"""A rule table that adds a rule to the packaged table."""


def ready(pod: Object) -> bool:
    """Returns whether a Pod receives requests: it is ready, and is not being deleted."""
    conditions = pod["status"].get("conditions", [])
    is_ready = any((item["type"], item["status"]) == ("Ready", "True") for item in conditions)
    return is_ready and "deletionTimestamp" not in pod["metadata"]


def restarts(pods: Iterable[Object]) -> dict[str, int]:
    """Returns the number of container restarts of each Pod, by the Pod's uid. A new Pod has a new uid."""
    return {
        pod["metadata"]["uid"]: sum(status["restartCount"] for status in pod["status"]["containerStatuses"])
        for pod in pods
    }


def signal(plane: RealPlane, pod: Object, name: str, *options: str) -> None:
    """Sends a signal to process 1 of a Pod's container, with the option ``--all`` to all its processes."""
    (status,) = pod["status"]["containerStatuses"]
    container = status["containerID"].removeprefix("containerd://")
    plane.nodes[pod["spec"]["nodeName"]].ctr("tasks", "kill", *options, f"--signal={name}", container)


def metrics(own: Kubectl, pod: str) -> str:
    """Returns the metrics of a Pod of the product, as text; empty if the Pod does not answer."""
    path = f"/api/v1/namespaces/{story.NAMESPACE}/pods/{pod}:9090/proxy/metrics"
    return caller(own.kubeconfig).text(path)


def metric_samples(own: Kubectl, pods: Iterable[Object], name: str) -> set[str]:
    """Returns the samples of a metric in Pods of the product: labels and value, as text."""
    text = "\n".join(metrics(own, pod["metadata"]["name"]) for pod in pods)
    return set(re.findall(rf"^ultraserver_webhook_{name}(.*)$", text, re.MULTILINE))


def put_table(own: Kubectl, text: str) -> str:
    """Writes a rule table into the ConfigMap; returns the error message, or an empty text.

    Args:
        own: kubectl for the product's namespace.
        text: The table.
    """
    patch = json.dumps({"data": {"rules.yaml": text}})
    result = own.run("patch", *CONFIG, "-p", patch, check=False)
    return result.stderr if result.returncode else ""


@dataclass(frozen=True)
class Product:
    """An installation on real nodes.

    Attributes:
        plane: The cluster.
        own: kubectl for the product's namespace.
        team: kubectl for the namespace in which jobs are created.
    """

    plane: RealPlane
    own: Kubectl
    team: Kubectl

    def wait_for_replicas(self, replicas: int = REPLICAS) -> list[Object]:
        """Waits until there are exactly this many replicas and all are ready; returns their Pods.

        Raises:
            NotYetError: The time is over.
        """

        def all_ready(obj: Object) -> bool:
            return [*map(ready, obj["items"])] == [True] * replicas

        pods: list[Object] = self.own.wait_for(all_ready, *SERVING, timeout=story.SECONDS)["items"]
        return pods

    def scale(self, replicas: int) -> None:
        """Sets the minimum of the autoscaler, and the number of replicas."""
        patch = json.dumps({"spec": {"minReplicas": replicas}})
        self.own.run("patch", "horizontalpodautoscaler", "ultraserver-webhook", "-p", patch)
        # Without a metrics server, the autoscaler removes no replica.
        self.own.run("scale", DEPLOYMENT, f"--replicas={replicas}")

    @contextlib.contextmanager
    def load(self, change: str) -> Iterator[Load]:
        """Yields a load of creates, which ends after the test's change, when all replicas are ready again.

        Args:
            change: The change that the test makes, for the report.
        """
        self.wait_for_replicas()
        with steady_load(self.plane.kubeconfig, str(self.team.namespace)) as load:
            load.wait_for_creates(CREATES_AROUND_CHANGE)
            yield load
            # Ending replicas serve until their end. A create may be lost until then.
            self.wait_for_replicas()
            load.wait_for_creates(CREATES_AROUND_CHANGE)
        sys.stderr.write(f"\n{change}: {load}\n")


def wait_for_table(own: Kubectl, tables: Mapping[str, str]) -> None:
    """Waits until every serving Pod uses the table in these files. Kubelets update the files within a minute.

    Raises:
        NotYetError: The time is over.
    """
    revision = load_texts(sorted(tables.items()), "installed").revision
    sample = f'ultraserver_webhook_table_info{{revision="{revision}"}}'

    def all_have_table() -> bool:
        pods = own.get_json(*SERVING)["items"]
        return bool(pods) and all(sample in metrics(own, pod["metadata"]["name"]) for pod in pods)

    until(all_have_table, f"the table {revision} in every serving pod", seconds=story.SECONDS)
