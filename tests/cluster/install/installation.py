"""An installation as a person makes it: with the commands of the documents."""

from __future__ import annotations

import contextlib
import json
import random
import re
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.cluster.controlplane import ControlPlane
from tests.cluster.jobs import template
from tests.docs import session
from tests.docs.blocks import REPOSITORY, Block, Step, blocks_of, text_of
from tests.helpers import mpijob
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.standin.node import StandIn

NAMESPACE = "ultraserver-webhook"
TEAM = "team-a"
MUTATING = ("mutatingwebhookconfiguration", "ultraserver-webhook")
VALIDATING = ("validatingwebhookconfiguration", "ultraserver-webhook")


class LoopbackServices(ControlPlane):
    """A control plane whose Services have cluster IPs of loopback, which it can call as they are."""

    def _launch(self, name: str, flags: dict[str, object], *rest: Any, **named: Any) -> None:
        # By chance, so that another run on this machine most likely has others.
        network = f"127.{random.randint(64, 99)}.{random.randint(0, 254)}.0/24"  # noqa: S311 - no secret
        services = {"service-cluster-ip-range": network} if name == "kube-apiserver" else {}
        super()._launch(name, flags | services, *rest, **named)


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


@dataclass(frozen=True)
class Installation:
    """A control plane, what stands in for its nodes, and a person before it.

    Attributes:
        control_plane: with nothing but the mpi-operator, at first.
        stand_in: runs the Pods.
        folder: a copy of the manifests and examples, where commands are run.
    """

    control_plane: ControlPlane
    stand_in: StandIn
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
        env = {"KUBECONFIG": str(self.control_plane.kubeconfig), "KUBERC": "off"}
        printed = ""
        found = steps(document, heading)
        assert found, f"{document} shows no command under {heading!r}"
        for step in found:
            said, status = session.run(
                step.command, self.folder, path=[str(self.control_plane.tools)], env=env
            )
            assert status == 0, f"{step.where}\n{said}"
            printed += said
        return printed

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

    def table(self, inside: Kubectl, text: str) -> str:
        """Puts another rule table into the ConfigMap; returns what kubectl says against it."""
        patch = json.dumps({"data": {"rules.yaml": text}})
        done = inside.run("patch", "configmap", "ultraserver-webhook-rules", "-p", patch, check=False)
        return done.stderr if done.returncode else ""

    @contextlib.contextmanager
    def server_down(self) -> Iterator[None]:
        """No serving process, and none is started."""
        self.stand_in.paused.set()
        for pod in self.stand_in.pods():
            pod.kill()
        until(lambda: not any(pod.ready for pod in self.stand_in.pods()))
        try:
            yield
        finally:
            self.stand_in.paused.clear()
            until(lambda: all(pod.ready for pod in self.stand_in.pods()))


def manifests(folder: Path) -> Path:
    """A folder that looks like the repository to the commands of a document, with manifests to change."""
    shutil.copytree(REPOSITORY / "manifests", folder / "manifests")
    return session.folder_with_examples(folder)
