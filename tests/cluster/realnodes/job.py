"""An MPIJob on real nodes, for tests: what it runs, where its pods are, what they print, how it ends."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.cluster.realnodes import product, story
from tests.cluster.realnodes.plugin import DEVICES, RESOURCE
from tests.docs import session
from tests.docs.blocks import read_blocks
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.realnodes.plugin import NeuronPlugin

WAIT, INIT, MAIN = "wait-hostfilename", "ultraserver-init-container", "mpitest"
"""The launcher's containers, in the order in which they run."""
DOCUMENT = "docs/init-script.md"
"""What shows what they print."""
PROGRAM = "/opt/train.sh"
BEGUN, GO = "/run/begun", "/run/go"
GATED = ("mpirun", "sh", "-c", f"touch {BEGUN}; until [ -e {GO} ]; do sleep 0.2; done; exec {PROGRAM}")
"""Runs ranks that make the file ``BEGUN`` and go on once there is the file ``GO``."""
POSTPONED = ("sh", "-c", f"until [ -e {GO} ]; do sleep 0.2; done; exec mpirun {PROGRAM}")
"""A launcher whose mpirun begins once there is the file ``GO``."""
SSHD = "/run/start-sshd"
LATE = ("sh", "-c", f"until [ -e {SSHD} ]; do sleep 0.2; done; exec /usr/sbin/sshd -De")
"""A worker whose sshd starts once there is the file ``SSHD``."""


def mpijob(  # noqa: PLR0913 - each is something that a job may say
    workers: int = 4,
    *,
    name: str = "demo",
    launcher: Sequence[str] = ("mpirun", PROGRAM),
    worker: Sequence[str] = (),
    devices: int = DEVICES,
    security: Mapping[str, object] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A plain MPIJob as a data scientist writes it.

    Args:
        workers: how many.
        name: the job's.
        launcher: the command of its container.
        worker: the same; empty: mpi-operator's, which is sshd.
        devices: what each worker asks for.
        security: the securityContext of all containers.
        annotations: of the job.
        spec: further fields of its spec.
    """
    common: Object = {"name": MAIN, "image": product.JOB}
    common |= {"securityContext": dict(security)} if security else {}
    works = common | ({"command": [*worker]} if worker else {})
    works["resources"] = {"limits": {RESOURCE: devices}}
    groups: Object = {
        "Launcher": {"replicas": 1, "template": _template({**common, "command": [*launcher]})},
        "Worker": {"replicas": workers, "template": _template(works)},
    }
    metadata: Object = {"name": name, "annotations": dict(annotations or {})}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": metadata,
        "spec": {"slotsPerWorker": 1, "mpiReplicaSpecs": groups, **spec},
    }


def _template(container: Object) -> Object:
    # A shell that is process 1 of its container ignores SIGTERM.
    return {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}


@dataclass(frozen=True)
class Job:
    """A job of the API server's.

    Attributes:
        kubectl: for its namespace.
        name: the job's.
    """

    kubectl: Kubectl
    name: str = "demo"

    def workers(self) -> list[Object]:
        """Its workers' pods."""
        found: list[Object] = self.kubectl.get_json("pods", "-l", story.of_job(self.name, "worker"))["items"]
        return found

    def placed(self) -> dict[str, str]:
        """The nodes of its workers by their names, once every worker has one.

        Raises:
            NotYetError: not in time.
        """
        selected = ("pods", "-l", story.of_job(self.name, "worker"))
        spec = self.kubectl.get_json("mpijob", self.name)["spec"]
        count = int(spec["mpiReplicaSpecs"]["Worker"]["replicas"])

        def bound(found: Object) -> bool:
            return sum("nodeName" in pod["spec"] for pod in found["items"]) == count

        found = self.kubectl.wait_for(bound, *selected, timeout=story.SECONDS)
        return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in found["items"]}

    def launcher(self, other_than: str = "") -> str:
        """The name of its launcher's newest pod, once there is one; of a new one, where one is known already.

        Raises:
            AssertionError: there is none in time.
        """
        found: list[str] = []

        def there() -> bool:
            found[:] = [pod["metadata"]["name"] for pod in story.launchers(self.kubectl, self.name)]
            return found[:1] not in ([], [other_than])

        until(there)
        return found[0]

    def log(self, container: str) -> str:
        """What a container of the launcher's has printed so far: nothing, while it does not run."""
        return self.kubectl.run("logs", self.launcher(), "-c", container, check=False).stdout

    def logged(self, container: str, pattern: str) -> str:
        """The same, once a regular expression matches a line of it.

        Raises:
            AssertionError: it does not, in time or before the launcher ends; the message has what it printed.
        """
        found: list[str] = [""]

        def holds() -> bool:
            over = story.over(self.kubectl.get_json("mpijob", self.name))
            found[0] = self.log(container)
            matches = re.search(pattern, found[0]) is not None
            assert matches or not over, "the job has ended"
            return matches

        try:
            until(holds, story.SECONDS, every=0.5)
        except AssertionError as error:
            raise AssertionError(f"{error}: {container} printed no {pattern!r}, but\n{found[0]}") from error
        return found[0]

    def touch(self, file: str, *workers: str) -> None:
        """Makes a file in workers: all, unless some are named."""
        for name in workers or [pod["metadata"]["name"] for pod in self.workers()]:
            self.in_container(name, "touch", file)

    def in_container(self, pod: str, *command: str) -> str:
        """Runs a command in a pod's main container, once that runs, and returns what it prints.

        Raises:
            NotYetError: it does not run in time.
            KubectlError: the command failed.
        """

        def runs(found: Object) -> bool:
            return any("running" in item["state"] for item in found["status"].get("containerStatuses", ()))

        self.kubectl.wait_for(runs, "pod", pod, timeout=story.SECONDS)
        return self.kubectl.run("exec", pod, "-c", MAIN, "--", *command).stdout

    def begun(self) -> None:
        """Waits until every rank of a ``GATED`` job runs, and removes the files that say so.

        Raises:
            AssertionError: not in time.
        """
        for pod in self.workers():
            remove = ("exec", pod["metadata"]["name"], "--", "rm", BEGUN)
            until(partial(self._succeeds, *remove), story.SECONDS, every=0.5)

    def _succeeds(self, *args: str) -> bool:
        return not self.kubectl.run(*args, check=False).returncode

    def ended(self) -> Object:
        """The pod of its launcher, once it has ended, well or not."""
        return story.ended(self.kubectl, self.name)

    def ranks(self) -> list[dict[str, str]]:
        """What each rank said, by rank: ``host``, and the variables that it was given."""
        lines = (dict(re.findall(r"(\w+)=(\S*)", line)) for line in self.log(MAIN).splitlines())
        return sorted((line for line in lines if line.get("rank")), key=lambda line: int(line["rank"]))

    def computes(self, plugins: Mapping[str, NeuronPlugin], placed: Mapping[str, str] | None = None) -> None:
        """Waits for its end, and asserts that it is a good one: all ranks added up, in topology order.

        Args:
            plugins: of the nodes.
            placed: where its workers were, if they do not stay.
        """
        launcher = self.ended()
        logs = {each: self.log(each) for each in story.containers(launcher)}
        assert launcher["status"]["phase"] == "Succeeded", logs
        on, ranks = placed or self.placed(), self.ranks()
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
                "NEURON_RT_ULTRASERVER_MODE": {4: "1", 2: "3"}[size],
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
        (shown,) = [found for found in read_blocks(DOCUMENT) if found.file == block]
        (step,) = shown.steps()
        namespace = (rf"(?<=[. ]){self.kubectl.namespace}\b", "default")
        session.assert_printed(step, printed, {**(masks or {}), "namespace": namespace})
