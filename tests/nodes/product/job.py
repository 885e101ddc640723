"""An MPIJob on real nodes: its commands, the nodes and output of its pods, and its end."""

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
"""The document that shows the output of these containers."""
PROGRAM = "/opt/train.sh"
BEGUN, GO = "/run/begun", "/run/go"
WAIT_FOR_GO = ("mpirun", "sh", "-c", f"touch {BEGUN}; until [ -e {GO} ]; do sleep 0.2; done; exec {PROGRAM}")
"""Runs ranks that create the file ``BEGUN`` and continue once the file ``GO`` exists."""
SSHD = "/run/start-sshd"
CONTAINERS = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"
"""The folder on a node with the root folder of each container."""
LATE_SSHD = ("sh", "-c", f"until [ -e {SSHD} ]; do sleep 0.2; done; exec /usr/sbin/sshd -De")
"""The command of a worker whose sshd starts once the file ``SSHD`` exists."""


def mpijob(
    *,
    launcher: Sequence[str] = ("mpirun", PROGRAM),
    worker: Sequence[str] = (),
    security: Mapping[str, object] | None = None,
    **spec: Any,
) -> Object:
    """Returns a plain MPIJob of four workers, as a data scientist writes it.

    Args:
        launcher: The command of the launcher's container.
        worker: The command of the workers' containers; empty for mpi-operator's command, which runs sshd.
        security: The securityContext of all containers.
        spec: Further fields of the job's spec.
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
    """A job in the API server.

    Attributes:
        kubectl: kubectl for the namespace of the job.
        plane: The plane with the job's nodes.
    """

    kubectl: Kubectl
    plane: RealPlane
    name = "demo"

    def wait_until_placed(self) -> dict[str, str]:
        """Returns the nodes of the job's workers by the workers' names, once every worker has a node.

        Raises:
            NotYetError: The time is over.
        """
        workers = ("pods", "-l", story.job_selector(self.name, "worker"))
        job = self.kubectl.get_json("mpijob", self.name)
        count = job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]

        def bound(stored: Object) -> list[Object]:
            return [pod for pod in stored["items"] if "nodeName" in pod["spec"]]

        obj = self.kubectl.wait_for(lambda obj: len(bound(obj)) == count, *workers, timeout=story.SECONDS)
        return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in bound(obj)}

    def launcher(self, other_than: str = "") -> str:
        """Returns the name of the job's newest launcher pod, once it is not ``other_than``.

        Raises:
            NotYetError: The time is over.
        """

        def name(obj: Object) -> str:
            return "".join(pod["metadata"]["name"] for pod in story.newest_first(obj)[:1])

        def there(stored: Object) -> bool:
            return name(stored) not in {"", other_than}

        return name(self.kubectl.wait_for(there, "pods", "-l", story.job_selector(self.name, "launcher")))

    def wait_until_running(self, pod: str) -> Object:
        """Returns a pod, once its main container runs.

        Raises:
            NotYetError: The time is over.
        """

        def runs(obj: Object) -> bool:
            return any("running" in item["state"] for item in obj["status"].get("containerStatuses", ()))

        return self.kubectl.wait_for(runs, "pod", pod, timeout=story.SECONDS)

    def file(self, pod: str, name: str) -> Path:
        """Returns the path on this machine of a file in a pod's main container, once the container runs.

        Raises:
            NotYetError: The time is over.
        """
        obj = self.wait_until_running(pod)
        (status,) = obj["status"]["containerStatuses"]
        container = status["containerID"].removeprefix("containerd://")
        return self.plane.nodes[obj["spec"]["nodeName"]].path(f"{CONTAINERS}/{container}/rootfs{name}")

    def log(self, container: str) -> str:
        """Returns the output of a container of the launcher so far; empty if it has not run."""
        return caller(self.kubectl.kubeconfig).text(self._log_of(self.launcher(), container))

    def wait_for_line(self, container: str, pattern: str, starts: Sequence[int] = (1,)) -> str:
        """Returns the output of a container of the launcher, up to a line that matches a regular expression.

        Args:
            container: The name of the container.
            pattern: The regular expression.
            starts: The numbers of the starts whose output is searched, from 1. After a failure, the container
                may start before the test has changed something, and once more afterwards.

        Raises:
            NotYetError: The container does not run in time.
            AssertionError: The container ends without a matching line, or does not print it in time.
        """
        pod, printed = self.launcher(), list[str]()
        for start in starts:
            printed = self._output_of_start(pod, container, pattern, start)
            if printed and re.search(pattern, printed[-1]):
                return "".join(printed)
        raise AssertionError(f"{container} of {pod} printed no {pattern!r}, but\n{''.join(printed)}")

    def _output_of_start(self, pod: str, container: str, pattern: str, start: int) -> list[str]:
        """Returns the output of one start of a container, to its end or to a line that matches a pattern."""

        def begun(obj: Object) -> bool:
            status = obj["status"]
            items = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
            return any(
                item["name"] == container
                and item["restartCount"] >= start - 1
                and "waiting" not in item["state"]
                for item in items
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
        """Creates a file in workers; in all workers if none is named."""
        for name in workers or self.wait_until_placed():
            self.file(name, file).touch()

    def wait_until_ranks_began(self) -> None:
        """Waits until every rank has created the file ``BEGUN``, and removes these files.

        Raises:
            NotYetError: The time is over.
        """
        for name in self.wait_until_placed():
            file = self.file(name, BEGUN)
            until(file.exists, f"the rank of {name} to begin", seconds=story.SECONDS)
            file.unlink()

    def wait_for_end(self) -> Object:
        """Returns the pod of the launcher, once it has succeeded or failed."""
        return story.wait_for_end(self.kubectl, self.name)

    def ranks(self) -> list[dict[str, str]]:
        """Returns the host and the variables that each rank has printed, in the order of the ranks."""
        lines = (dict(re.findall(r"(\w+)=(\S*)", line)) for line in self.log(MAIN).splitlines())
        return sorted((line for line in lines if line.get("rank")), key=lambda line: int(line["rank"]))

    def assert_computes(self, plugins: Mapping[str, NeuronPlugin]) -> None:
        """Waits until the job has succeeded, and asserts that all ranks took part, in topology order."""
        launcher = self.wait_for_end()
        logs = {container: self.log(container) for container in story.container_names(launcher)}
        assert launcher["status"]["phase"] == "Succeeded", logs
        nodes, ranks = self.wait_until_placed(), self.ranks()
        size = len(nodes)
        sysfs = {name: plugins[node].sysfs for name, node in nodes.items()}
        order = sorted(nodes, key=lambda name: int(sysfs[name][f"node_id_{size}"]))
        assert [rank["host"] for rank in ranks] == order, logs
        assert {rank["sum"] for rank in ranks} == {str(sum(range(1, size + 1)))}, logs
        for position, rank in enumerate(ranks):
            of_node = sysfs[rank["host"]]
            assert {key: value for key, value in rank.items() if key.startswith("NEURON_")} == {
                "NEURON_GLOBAL_TOPOID": str(position),
                "NEURON_GLOBAL_TOPOID0_HOST": f"{order[0]}.{self.name}.{self.kubectl.namespace}.svc",
                "NEURON_RT_ULTRASERVER_MODE": "1",
                "NEURON_RT_ULTRASERVER_SERVER_ID": of_node[f"server_id_{size}"],
                "NEURON_RT_ULTRASERVER_NODE_ID": of_node[f"node_id_{size}"],
            }

    def assert_documented(
        self, block: str, printed: str, masks: Mapping[str, tuple[str, str]] | None = None
    ) -> None:
        """Asserts that an output is equal to a block of the document, except for the namespace.

        Args:
            block: The name of the block.
            printed: The output of the job.
            masks: Other differences that are allowed, as in ``tests.docs.session``.
        """
        (expected,) = [value for value in read_blocks(DOCUMENT) if value.file == block]
        (step,) = expected.steps()
        namespace = (rf"(?<=[. ]){self.kubectl.namespace}\b", "default")
        session.assert_printed(step, printed, {**(masks or {}), "namespace": namespace})
