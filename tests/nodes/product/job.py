"""An MPIJob on real nodes, for tests: its programs, the nodes and output of its pods, and its end."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.mpijob import mpijob as plain
from testbed.nodes import story
from testbed.nodes.calls import caller
from testbed.nodes.plane import RealPlane
from testbed.nodes.plugin import NeuronPlugin
from testbed.plane.jobs import template
from testbed.plane.kubectl import Kubectl, Object
from testbed.waiting import until
from tests.docs import session
from tests.docs.blocks import read_blocks

WAIT, INIT, MAIN = "wait-hostfilename", "ultraserver-init-container", "mpitest"
"""The launcher's containers, in the order in which they run."""
DOCUMENT = "docs/init-script.md"
"""What shows what they print."""
PROGRAM = "/opt/train.sh"
BEGUN, GO = "/run/begun", "/run/go"
GATED = ("mpirun", "sh", "-c", f"touch {BEGUN}; until [ -e {GO} ]; do sleep 0.2; done; exec {PROGRAM}")
"""Runs ranks that make the file ``BEGUN`` and go on once there is the file ``GO``."""
SSHD = "/run/start-sshd"
CONTAINERS = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"
"""Where a node has the root folder of each container."""
LATE = ("sh", "-c", f"until [ -e {SSHD} ]; do sleep 0.2; done; exec /usr/sbin/sshd -De")
"""A worker whose sshd starts once there is the file ``SSHD``."""


def mpijob(
    *,
    launcher: Sequence[str] = ("mpirun", PROGRAM),
    worker: Sequence[str] = (),
    security: Mapping[str, object] | None = None,
    **spec: Any,
) -> Object:
    """Returns a plain MPIJob of four workers as a data scientist writes it.

    Args:
        launcher: the command of its container.
        worker: the same; empty: mpi-operator's, which is sshd.
        security: the securityContext of all containers.
        spec: further fields of its spec.
    """
    job = plain(name="demo")
    for role, command in (("Launcher", launcher), ("Worker", worker)):
        pods = template(job, role)["spec"]
        # A shell that is process 1 of its container ignores SIGTERM.
        pods["terminationGracePeriodSeconds"] = 1
        pods["containers"][0] |= {"command": [*command]} if command else {}
        pods["containers"][0] |= {"securityContext": dict(security)} if security else {}
    job["spec"] |= spec
    return job


@dataclass(frozen=True)
class Job:
    """A job of the API server's.

    Attributes:
        kubectl: for its namespace.
        plane: whose nodes its containers are on.
    """

    kubectl: Kubectl
    plane: RealPlane
    name = "demo"

    def placed(self) -> dict[str, str]:
        """Returns the nodes of its workers by their names, once all have one.

        Raises:
            NotYetError: not in time.
        """
        selected = ("pods", "-l", story.of_job(self.name, "worker"))
        job = self.kubectl.get_json("mpijob", self.name)
        count = job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]

        def bound(stored: Object) -> list[Object]:
            return [pod for pod in stored["items"] if "nodeName" in pod["spec"]]

        obj = self.kubectl.wait_for(lambda obj: len(bound(obj)) == count, *selected, timeout=story.SECONDS)
        return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in bound(obj)}

    def launcher(self, other_than: str = "") -> str:
        """Returns the name of the job's newest launcher pod, or of one newer than a known one.

        Raises:
            NotYetError: there is none in time.
        """

        def name(obj: Object) -> str:
            return "".join(pod["metadata"]["name"] for pod in story.newest_first(obj)[:1])

        def there(stored: Object) -> bool:
            return name(stored) not in {"", other_than}

        return name(self.kubectl.wait_for(there, "pods", "-l", story.of_job(self.name, "launcher")))

    def running(self, pod: str) -> Object:
        """Returns a pod, once its main container runs.

        Raises:
            NotYetError: it does not in time.
        """

        def runs(obj: Object) -> bool:
            return any("running" in item["state"] for item in obj["status"].get("containerStatuses", ()))

        return self.kubectl.wait_for(runs, "pod", pod, timeout=story.SECONDS)

    def file(self, pod: str, name: str) -> Path:
        """Returns a file in a pod's main container, as this machine sees it, once the container runs.

        Raises:
            NotYetError: it does not in time.
        """
        result = self.running(pod)
        (status,) = result["status"]["containerStatuses"]
        container = status["containerID"].removeprefix("containerd://")
        return self.plane.nodes[result["spec"]["nodeName"]].path(f"{CONTAINERS}/{container}/rootfs{name}")

    def log(self, container: str) -> str:
        """Returns what a container of the launcher's has printed so far: nothing, while it does not run."""
        return caller(self.kubectl.kubeconfig).text(self._log_of(self.launcher(), container))

    def logged(self, container: str, pattern: str, starts: Sequence[int] = (1,)) -> str:
        """Returns the same, once a regular expression matches a line of it.

        Args:
            container: which.
            pattern: the regular expression.
            starts: in which of the container's starts: the one after a failure may begin before what the
                test has changed since.

        Raises:
            NotYetError: the container does not run in time.
            AssertionError: it does not print such a line before it ends, or in time.
        """
        pod, printed = self.launcher(), list[str]()
        for start in starts:
            printed = self._printed(pod, container, pattern, start)
            if printed and re.search(pattern, printed[-1]):
                return "".join(printed)
        raise AssertionError(f"{container} of {pod} printed no {pattern!r}, but\n{''.join(printed)}")

    def _printed(self, pod: str, container: str, pattern: str, start: int) -> list[str]:
        """Returns the output of a container's start, up to a line that matches a pattern, or to its end."""

        def begun(obj: Object) -> bool:
            status = obj["status"]
            each = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
            return any(
                one["name"] == container
                and one["restartCount"] >= start - 1
                and "waiting" not in one["state"]
                for one in each
            )

        self.kubectl.wait_for(begun, "pod", pod, timeout=story.SECONDS)
        path = f"{self._log_of(pod, container)}&follow=true"
        printed = []
        for line in caller(self.kubectl.kubeconfig).lines(path, story.SECONDS):
            printed.append(f"{line}\n")
            if re.search(pattern, line):
                break
        return printed

    def _log_of(self, pod: str, container: str) -> str:
        return f"/api/v1/namespaces/{self.kubectl.namespace}/pods/{pod}/log?container={container}"

    def touch(self, file: str, *workers: str) -> None:
        """Makes a file in workers: all, unless some are named."""
        for name in workers or self.placed():
            self.file(name, file).touch()

    def begun(self) -> None:
        """Waits until every rank of a ``GATED`` job runs, and removes the files that gate them.

        Raises:
            NotYetError: not in time.
        """
        for name in self.placed():
            file = self.file(name, BEGUN)
            until(file.exists, f"the rank of {name} to begin", seconds=story.SECONDS)
            file.unlink()

    def ended(self) -> Object:
        """Returns the pod of its launcher, once it has ended, well or not."""
        return story.wait_for_end(self.kubectl, self.name)

    def ranks(self) -> list[dict[str, str]]:
        """Returns the output of each rank: ``host`` and its variables."""
        lines = (dict(re.findall(r"(\w+)=(\S*)", line)) for line in self.log(MAIN).splitlines())
        return sorted((line for line in lines if line.get("rank")), key=lambda line: int(line["rank"]))

    def computes(self, plugins: Mapping[str, NeuronPlugin]) -> None:
        """Waits until it has succeeded, and asserts that all ranks took part, in topology order."""
        launcher = self.ended()
        logs = {each: self.log(each) for each in story.containers(launcher)}
        assert launcher["status"]["phase"] == "Succeeded", logs
        on, ranks = self.placed(), self.ranks()
        size = len(on)
        sysfs = {name: plugins[node].sysfs for name, node in on.items()}
        order = sorted(on, key=lambda name: int(sysfs[name][f"node_id_{size}"]))
        assert [rank["host"] for rank in ranks] == order, logs
        assert {rank["sum"] for rank in ranks} == {str(sum(range(1, size + 1)))}, logs
        for place, rank in enumerate(ranks):
            of_node = sysfs[rank["host"]]
            assert {key: value for key, value in rank.items() if key.startswith("NEURON_")} == {
                "NEURON_GLOBAL_TOPOID": str(place),
                "NEURON_GLOBAL_TOPOID0_HOST": f"{order[0]}.{self.name}.{self.kubectl.namespace}.svc",
                "NEURON_RT_ULTRASERVER_MODE": "1",
                "NEURON_RT_ULTRASERVER_SERVER_ID": of_node[f"server_id_{size}"],
                "NEURON_RT_ULTRASERVER_NODE_ID": of_node[f"node_id_{size}"],
            }

    def prints_as_documented(
        self, block: str, printed: str, masks: Mapping[str, tuple[str, str]] | None = None
    ) -> None:
        """Compares what was printed with a block of the document, where all is in the namespace ``default``.

        Args:
            block: its name there.
            printed: by the job.
            masks: what else may differ, as in ``tests.docs.session``.
        """
        (shown,) = [value for value in read_blocks(DOCUMENT) if value.file == block]
        (step,) = shown.steps()
        namespace = (rf"(?<=[. ]){self.kubectl.namespace}\b", "default")
        session.assert_printed(step, printed, {**(masks or {}), "namespace": namespace})
