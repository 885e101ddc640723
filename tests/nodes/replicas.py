"""The installed product under a load of creates: its Pods, and what they say of themselves."""

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
from testbed.plane.load import Load, jobs_keep_coming
from testbed.waiting import until
from webhook.rules.load import load_texts

REPLICAS = 2
CONFIG = ("configmap", "ultraserver-webhook-rules")
DEPLOYMENT = "deployment/ultraserver-webhook"
SERVING = ("pods", "-l", "app.kubernetes.io/component=serving")
NOTICED = 24
"""Creates of three seconds, within which every kube-proxy removes an endpoint."""
SOME = 16
"""Creates before anything happens, and after it is over."""
MOST_LOST = 25
"""Creates that a replica's sudden end may cost, where chance decides which of them meet it.

* It is killed: its endpoint is used for at most three seconds, in which 24 creates begin (``NOTICED``).
* It hangs, or its node dies: 2 of 1,563 creates were lost when it was measured (docs/operations.md). So with
  95 % certainty less than 0.4 % are, which is 4 of 900 in one test; a Poisson variable of mean 4 exceeds 24
  once in 10^11 runs.
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
"""A rule table with a row more than the packaged one."""


def ready(pod: Object) -> bool:
    """Returns whether a Pod gets requests: it is ready, and not being deleted."""
    conditions = pod["status"].get("conditions", [])
    says_so = any((item["type"], item["status"]) == ("Ready", "True") for item in conditions)
    return says_so and "deletionTimestamp" not in pod["metadata"]


def restarts(pods: Iterable[Object]) -> dict[str, int]:
    """Returns how often the containers of each Pod were restarted, by its uid; a new Pod has a new uid."""
    return {
        pod["metadata"]["uid"]: sum(each["restartCount"] for each in pod["status"]["containerStatuses"])
        for pod in pods
    }


def signal(plane: RealPlane, pod: Object, name: str, *options: str) -> None:
    """Sends a signal to process 1 of a Pod's container, from its node; with ``--all`` to every process."""
    (status,) = pod["status"]["containerStatuses"]
    container = status["containerID"].removeprefix("containerd://")
    plane.nodes[pod["spec"]["nodeName"]].ctr("tasks", "kill", *options, f"--signal={name}", container)


def metrics(own: Kubectl, pod: str) -> str:
    """Returns the metrics of a Pod of the product, as it says them; empty where the Pod has gone."""
    path = f"/api/v1/namespaces/{story.NAMESPACE}/pods/{pod}:9090/proxy/metrics"
    return caller(own.kubeconfig).text(path)


def values(own: Kubectl, pods: Iterable[Object], name: str) -> set[str]:
    """Returns what Pods of the product say under the name of a metric: labels and value of each, as text."""
    text = "\n".join(metrics(own, pod["metadata"]["name"]) for pod in pods)
    return set(re.findall(rf"^ultraserver_webhook_{name}(.*)$", text, re.MULTILINE))


def put_table(own: Kubectl, text: str) -> str:
    """Puts another rule table into the ConfigMap, and returns what is said against it.

    Args:
        own: kubectl for the product's namespace.
        text: the table.
    """
    patch = json.dumps({"data": {"rules.yaml": text}})
    done = own.run("patch", *CONFIG, "-p", patch, check=False)
    return done.stderr if done.returncode else ""


@dataclass(frozen=True)
class Product:
    """An installation on real nodes.

    Attributes:
        plane: where it is installed.
        own: kubectl for its namespace.
        team: kubectl for the namespace where jobs are created.
    """

    plane: RealPlane
    own: Kubectl
    team: Kubectl

    def settle(self, replicas: int = REPLICAS) -> list[Object]:
        """Waits until this many replicas are ready and nothing is left of others, and returns their Pods.

        Raises:
            NotYetError: not in time.
        """

        def settled(obj: Object) -> bool:
            return [*map(ready, obj["items"])] == [True] * replicas

        pods: list[Object] = self.own.wait_for(settled, *SERVING, timeout=story.SECONDS)["items"]
        return pods

    def scale(self, replicas: int) -> None:
        """Tells the autoscaler how many replicas there are at least, and has as many."""
        patch = json.dumps({"spec": {"minReplicas": replicas}})
        self.own.run("patch", "horizontalpodautoscaler", "ultraserver-webhook", "-p", patch)
        # It does not take any away by itself without a metrics server.
        self.own.run("scale", DEPLOYMENT, f"--replicas={replicas}")

    @contextlib.contextmanager
    def load(self, what: str) -> Iterator[Load]:
        """Yields jobs keep coming while something happens, and until nothing is left of it.

        Args:
            what: happens; for the report.
        """
        self.settle()
        with jobs_keep_coming(self.plane.kubeconfig, str(self.team.namespace)) as load:
            load.more(SOME)
            yield load
            # Those that are ending serve until their last moment: what is lost is lost then.
            self.settle()
            load.more(SOME)
        sys.stderr.write(f"\n{what}: {load}\n")


def wait_for_table(own: Kubectl, tables: Mapping[str, str]) -> None:
    """Waits until every serving Pod has the table of these files: kubelets bring a change within a minute.

    Raises:
        NotYetError: one has not, in time.
    """
    revision = load_texts(sorted(tables.items()), "installed").revision
    row = f'ultraserver_webhook_table_info{{revision="{revision}"}}'

    def have_it() -> bool:
        pods = own.get_json(*SERVING)["items"]
        return bool(pods) and all(row in metrics(own, pod["metadata"]["name"]) for pod in pods)

    until(have_it, f"the table {revision} in every serving pod", seconds=story.SECONDS)
