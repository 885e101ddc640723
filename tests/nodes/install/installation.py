"""An installation as a person makes it: with the commands of the documents."""

import contextlib
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from testbed import chart
from testbed.images import product
from testbed.mpijob import mpijob
from testbed.nodes.calls import caller
from testbed.nodes.plane import RealPlane
from testbed.nodes.story import NAMESPACE
from testbed.plane.jobs import template
from testbed.plane.kubectl import Kubectl, Object
from testbed.release import installs
from testbed.waiting import until
from tests.docs import session
from tests.docs.blocks import REPOSITORY, blocks_of
from tests.nodes.commands import REGISTRY, type_in
from tests.nodes.replicas import SERVING, ready

TEAM = "team-a"
MUTATING = ("mutatingwebhookconfiguration", "ultraserver-webhook")
VALIDATING = ("validatingwebhookconfiguration", "ultraserver-webhook")

INSTALL, OPERATIONS = "docs/install.md", "docs/operations.md"
WITHOUT_REGISTRY = {f" --set image.registry={REGISTRY}": ""}
"""Values of the README's command; these nodes have the images, under names without a registry."""
HURRIED = {"INTERVAL": "1", "SETTLE": "3"}
"""What a test cannot wait for: half a minute between two looks at caBundles and Secrets, and the five minutes
that a Secret may take to reach a Pod. It takes at most 2.1 s here (60 times, on a busy machine)."""


class PartlyReal(RealPlane):
    """A plane with real nodes, and with nodes that are objects only."""

    # No kubelet renews their leases, and they have to stay.
    flags: ClassVar = {"kube-controller-manager": {"node-monitor-grace-period": "4h"}}


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
        return type_in(document, heading, self.folder, self.kubectl, WITHOUT_REGISTRY)

    def reset(self) -> None:
        """Undoes what a test has set: the other commands keep the values of the last time."""
        self.run(INSTALL, "Install")

    def create(self, job: Object | None = None, namespace: str = TEAM) -> tuple[Object, str]:
        """Creates a job by dry run: as it would be stored, and what is said against it or warned of."""
        path = f"/apis/kubeflow.org/v2beta1/namespaces/{namespace}/mpijobs?dryRun=All"
        return caller(self.control_plane.kubeconfig).post(path, job or mpijob(4))

    def dry_run(self, namespace: str = TEAM, job: Object | None = None) -> tuple[bool, str]:
        """Returns whether a new job would be placed, with the messages; nothing is stored."""
        made, message = self.create(job, namespace)
        return bool(made) and "nodeSelector" in template(made, "Worker")["spec"], message

    def places(self) -> bool:
        """Returns whether a new job is placed, without a warning."""
        return self.dry_run() == (True, "")

    def wait_places(self) -> None:
        """Waits for that.

        Raises:
            NotYetError: it is not, in time.
        """
        until(self.places, "a job that the webhook places")

    def wait_dry_run(self, placed: bool, message: str, namespace: str = TEAM) -> None:  # noqa: FBT001
        """Waits until a new job would be placed, or not, and the messages contain a text.

        Raises:
            NotYetError: this does not come about in time.
        """

        def holds() -> bool:
            result, text = self.dry_run(namespace)
            return result is placed and (message in text if message else not text)

        until(holds, f"a job of {namespace} that is {'' if placed else 'not '}placed, with {message!r}")

    def pods(self, component: str = "serving") -> list[Object]:
        """Returns the Pods of a Deployment that are ready and stay."""
        items = self.own.get_json("pods", "-l", f"app.kubernetes.io/component={component}")["items"]
        return [pod for pod in items if ready(pod)]

    def inside(self, pod: Object, *command: str) -> str:
        """Runs a command in a Pod; returns what it printed."""
        return self.own.run("exec", pod["metadata"]["name"], "--", *command).stdout

    def bundles(self) -> set[str]:
        """Returns the caBundles of the registrations: one, except while it changes."""
        matching = [self.kubectl.get_json(*name)["webhooks"] for name in (MUTATING, VALIDATING)]
        return {hook["clientConfig"].get("caBundle", "") for hooks in matching for hook in hooks}

    def served(self, *addresses: str) -> set[str]:
        """Returns the certificates that serving pods show, read from the plane's network."""
        ask = "import ssl, sys; print(ssl.get_server_certificate((sys.argv[1], 8443)), end='')"
        inside = self.control_plane.namespaces
        return {inside.run([sys.executable, "-c", ask, address]) for address in addresses}

    @contextlib.contextmanager
    def server_down(self) -> Iterator[None]:
        """Yields no serving pod; the autoscaler leaves a Deployment of none alone."""
        scale = ("scale", "deployment/ultraserver-webhook")
        self.own.run(*scale, "--replicas=0")
        self.own.run("delete", *SERVING, "--grace-period=1")
        try:
            yield
        finally:
            self.own.run(*scale, "--replicas=2")
            self.own.wait_for(lambda obj: sum(map(ready, obj["items"])) == 2, *SERVING)


def manifests(folder: Path) -> Path:
    """Returns a folder that looks like the repository and like a release to the commands of a document.

    Its manifests may be changed; the release's chart is packed of them as they are now.
    """
    shutil.copytree(REPOSITORY / "manifests", folder / "manifests")
    values = folder / "manifests" / "chart" / "values.yaml"
    hurried = [{"name": f"ULTRASERVER_CERTS_{key}_SECONDS", "value": value} for key, value in HURRIED.items()]
    text = values.read_text(encoding="utf-8")
    before, rest, after = text.partition("  certificates:\n")
    assert rest, "values.yaml has no programs.certificates"
    own = f"    env: {json.dumps(hurried)}\n"
    values.write_text(before + rest + after.replace("    env: []\n", own, 1), encoding="utf-8")
    (written,) = [block for block in blocks_of(INSTALL) if block.file == "values.yaml"]
    (folder / written.file).write_text(written.text.replace(REGISTRY, '""'), encoding="utf-8")
    # The README installs a release's archive, by its version.
    installs.pack(values.parent, folder / f"{chart.NAME}-chart-{product.version()}.tgz", 0)
    return session.folder_with_examples(folder)
