"""The installed product under a load of creates: its Pods, and what they say of themselves."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.cluster.load import jobs_keep_coming
from tests.cluster.realnodes import story
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.load import Load
    from tests.cluster.realnodes.plane import RealPlane

REPLICAS = 2
CONFIG = ("configmap", "ultraserver-webhook-rules")
DEPLOYMENT = "deployment/ultraserver-webhook"
NOTICED = 24
"""Creates of three seconds, within which every kube-proxy knows that an endpoint is gone."""
SOME = 16
"""Creates before anything happens, and after it is over."""
MOST_LOST = 25
"""Creates that a replica's sudden end may cost: see docs/operations.md, and a busy machine needs more."""
TABLE = """\
apiVersion: ultraserver-webhook.io/v1alpha1
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
    """Whether a Pod gets requests: it is ready, and not told to end."""
    conditions = pod["status"].get("conditions", [])
    says_so = any((item["type"], item["status"]) == ("Ready", "True") for item in conditions)
    return says_so and "deletionTimestamp" not in pod["metadata"]


def metrics(own: Kubectl, pod: str) -> str:
    """The metrics of a Pod of the product, as it says them; empty where the Pod has gone."""
    path = f"/api/v1/namespaces/{story.NAMESPACE}/pods/{pod}:9090/proxy/metrics"
    return own.run("get", "--raw", path, check=False).stdout


def values(own: Kubectl, pods: Iterable[Object], name: str) -> set[str]:
    """What Pods of the product say under the name of a metric: labels and value of each, as text."""
    said = "\n".join(metrics(own, pod["metadata"]["name"]) for pod in pods)
    return set(re.findall(rf"^{name}(.*)$", said, re.MULTILINE))


def put_table(own: Kubectl, text: str) -> str:
    """Puts another rule table into the ConfigMap, and returns what is said against it.

    Args:
        own: of whoever does it, for the product's namespace.
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

    def pods(self, component: str = "serving") -> list[Object]:
        """The Pods of a component, those that are ending included."""
        found: list[Object] = self.own.get_json("pods", "-l", f"app.kubernetes.io/component={component}")[
            "items"
        ]
        return found

    def settled(self, replicas: int = REPLICAS) -> bool:
        """Whether so many replicas are ready and nothing is left of others."""
        pods = self.pods()
        return len(pods) == replicas and all(map(ready, pods))

    def nodes(self) -> list[str]:
        """The nodes that replicas are on."""
        return [pod["spec"]["nodeName"] for pod in self.pods() if "nodeName" in pod["spec"]]

    def scale(self, replicas: int) -> None:
        """Tells the autoscaler how many replicas there are at least, and has as many."""
        patch = json.dumps({"spec": {"minReplicas": replicas}})
        self.own.run("patch", "horizontalpodautoscaler", "ultraserver-webhook", "-p", patch)
        # It does not take any away by itself where nobody measures.
        self.own.run("scale", DEPLOYMENT, f"--replicas={replicas}")

    def signal(self, pod: Object, name: str) -> None:
        """Sends a signal to every process of a serving Pod, from its node."""
        container = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
        node = self.plane.nodes[pod["spec"]["nodeName"]]
        node.ctr("tasks", "kill", "--all", f"--signal={name}", container)

    def metric(self, name: str) -> set[str]:
        """What the replicas say under the name of a metric, see ``values``."""
        return values(self.own, self.pods(), name)

    def says_another(self, name: str, before: set[str]) -> bool:
        """Whether all replicas say the same under the name of a metric, and not what they said before."""
        now = self.metric(name)
        return len(now) == 1 and now != before

    @contextlib.contextmanager
    def load(self, what: str) -> Iterator[Load]:
        """Jobs keep coming while something happens, and until nothing is left of it.

        Args:
            what: happens; for the report.
        """
        until(self.settled, story.SECONDS)
        with jobs_keep_coming(self.plane.kubeconfig, str(self.team.namespace)) as load:
            load.more(SOME)
            yield load
            # Those that are ending serve until their last moment: what is lost is lost then.
            until(self.settled, story.SECONDS)
            load.more(SOME)
        sys.stderr.write(f"\n{what}: {load}\n")
