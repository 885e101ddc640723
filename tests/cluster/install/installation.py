"""An installation as a person makes it: with the commands of the documents."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tests.cluster.jobs import template
from tests.cluster.realnodes.plane import RealPlane
from tests.cluster.realnodes.replicas import metrics, ready
from tests.cluster.realnodes.story import NAMESPACE
from tests.docs import session
from tests.docs.blocks import REPOSITORY, Block, Step, blocks_of, text_of
from tests.helpers import mpijob
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kubectl import Kubectl, Object

TEAM = "team-a"
MUTATING = ("mutatingwebhookconfiguration", "ultraserver-webhook")
VALIDATING = ("validatingwebhookconfiguration", "ultraserver-webhook")
HURRIED = Path(__file__).with_name("hurried.yaml")


class PartlyReal(RealPlane):
    """A plane with nodes that are objects only beside the real ones."""

    # Nobody renews their leases, and they are to stay all the same.
    flags: ClassVar = {"kube-controller-manager": {"node-monitor-grace-period": "4h"}}


def steps(document: str, heading: str) -> list[Step]:
    """The commands under a heading, up to the next one."""
    text = text_of(document)
    start = re.search(rf"^#+ {re.escape(heading)}\n", text, re.MULTILINE)
    assert start, f"{document} has no heading {heading!r}"
    first = text[: start.end()].count("\n")
    rest = text[start.end() :]
    last = first + re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0].count("\n")
    return [
        step for block in shell_blocks(document) if first < _line(block) <= last for step in block.steps()
    ]


def shell_blocks(document: str) -> list[Block]:
    """The blocks that only this folder runs: they are called ``shell``, and others leave them alone."""
    return [replace(block, language="sh") for block in blocks_of(document) if block.language == "shell"]


def _line(block: Block) -> int:
    return int(block.where.rpartition(":")[2])


def type_in(document: str, heading: str, folder: Path, kubectl: Kubectl) -> str:
    """Runs in a folder what a document shows under a heading; returns what was printed.

    Raises:
        AssertionError: It shows no command there, or one fails.
    """
    env = {"KUBECONFIG": str(kubectl.kubeconfig), "KUBERC": "off"}
    printed = ""
    found = steps(document, heading)
    assert found, f"{document} shows no command under {heading!r}"
    for step in found:
        said, status = session.run(step.command, folder, path=[str(kubectl.binary.parent)], env=env)
        assert status == 0, f"{step.where}\n{said}"
        printed += said
    return printed


@dataclass(frozen=True)
class Installation:
    """A plane, and a person before it.

    Attributes:
        control_plane: with nothing but the mpi-operator, at first.
        folder: a copy of the manifests and examples, where commands are run.
    """

    control_plane: RealPlane
    folder: Path

    @property
    def kubectl(self) -> Kubectl:
        """For no namespace in particular."""
        return self.control_plane.kubectl

    @property
    def own(self) -> Kubectl:
        """For the webhook's own namespace."""
        return self.kubectl.in_namespace(NAMESPACE)

    @property
    def team(self) -> Kubectl:
        """For the namespace of people who have jobs."""
        return self.kubectl.in_namespace(TEAM)

    def run(self, document: str, heading: str) -> str:
        """Runs what a document shows under a heading; returns what was printed."""
        return type_in(document, heading, self.folder, self.kubectl)

    def dry_run(self, inside: Kubectl | None = None, job: Object | None = None) -> tuple[bool, str]:
        """Whether a new job would be placed, and what kubectl says beside it; nothing is stored."""
        text = json.dumps(job or mpijob(4))
        done = (inside or self.team).run(
            *("create", "--dry-run=server", "-o", "json", "-f", "-"), stdin=text, check=False
        )
        if done.returncode:
            return False, done.stderr
        return "nodeSelector" in template(json.loads(done.stdout), "Worker")["spec"], done.stderr

    def places(self) -> bool:
        """Whether a new job is placed, and nobody is warned."""
        return self.dry_run() == (True, "")

    def pods(self, component: str = "serving") -> list[Object]:
        """The Pods of a Deployment that are ready and stay."""
        found = self.own.get_json("pods", "-l", f"app.kubernetes.io/component={component}")["items"]
        return [pod for pod in found if ready(pod)]

    def inside(self, pod: Object, *command: str) -> str:
        """Runs a command in a Pod; returns what it printed."""
        return self.own.run("exec", pod["metadata"]["name"], "--", *command).stdout

    def metrics(self, pod: Object) -> str:
        """The metrics of a Pod."""
        return metrics(self.own, pod["metadata"]["name"])

    def served(self, *addresses: str) -> set[str]:
        """The certificates that serving pods show, as the API server sees them: from the plane's network."""
        ask = "import ssl, sys; print(ssl.get_server_certificate((sys.argv[1], 8443)), end='')"
        inside = self.control_plane.namespaces
        return {inside.run([sys.executable, "-c", ask, address]) for address in addresses}

    @contextlib.contextmanager
    def server_down(self) -> Iterator[None]:
        """No serving pod; the autoscaler leaves a Deployment of none alone."""
        scale = ("scale", "deployment/ultraserver-webhook")
        self.own.run(*scale, "--replicas=0")
        self.own.run("delete", "pods", "-l", "app.kubernetes.io/component=serving", "--grace-period=1")
        try:
            yield
        finally:
            self.own.run(*scale, "--replicas=2")
            until(lambda: len(self.pods()) == 2)


def manifests(folder: Path) -> Path:
    """A folder that looks like the repository to the commands of a document, with manifests to change."""
    shutil.copytree(REPOSITORY / "manifests", folder / "manifests")
    base = folder / "manifests" / "base"
    shutil.copy(HURRIED, base)
    with (base / "kustomization.yaml").open("a", encoding="utf-8") as file:
        file.write(f"patches:\n  - path: {HURRIED.name}\n")
    return session.folder_with_examples(folder)
