"""An installation that is made with the commands of the documents."""

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
"""A change of the README's command: these nodes have the images under names without a registry."""
SHORT_INTERVALS = {"INTERVAL": "1", "SETTLE": "3"}
"""Seconds in place of defaults that are too long for a test: 30 s between checks of caBundles and Secrets,
and 5 minutes in which a changed Secret reaches a Pod (here at most 2.1 s, in 60 runs on a busy machine)."""


class PartlyReal(RealPlane):
    """A plane with real nodes, and with nodes that are only objects."""

    # No kubelet renews the leases of the objects, and these nodes must stay Ready.
    flags: ClassVar = {"kube-controller-manager": {"node-monitor-grace-period": "4h"}}


@dataclass(frozen=True)
class Installation:
    """A plane, and a user who runs the documents' commands on it.

    Attributes:
        control_plane: The plane. At first it has only the mpi-operator.
        folder: A copy of the manifests and examples, in which the commands run.
    """

    control_plane: RealPlane
    folder: Path

    @property
    def kubectl(self) -> Kubectl:
        """Kubectl without a namespace."""
        return self.control_plane.kubectl

    @property
    def own(self) -> Kubectl:
        """Kubectl for the webhook's namespace."""
        return self.kubectl.in_namespace(NAMESPACE)

    @property
    def team(self) -> Kubectl:
        """Kubectl for the namespace of the users' jobs."""
        return self.kubectl.in_namespace(TEAM)

    def run(self, document: str, heading: str) -> str:
        """Runs the commands that a document shows under a heading; returns their output."""
        return type_in(document, heading, self.folder, self.kubectl, WITHOUT_REGISTRY)

    def reset(self) -> None:
        """Undoes the settings of a test. Other commands of the document keep the current values."""
        self.run(INSTALL, "Install")

    def create(self, job: Object | None = None, namespace: str = TEAM) -> tuple[Object, str]:
        """Creates a job by dry run; returns the job as it would be stored, and the refusal or warnings."""
        path = f"/apis/kubeflow.org/v2beta1/namespaces/{namespace}/mpijobs?dryRun=All"
        return caller(self.control_plane.kubeconfig).post(path, job or mpijob(4))

    def dry_run(self, namespace: str = TEAM, job: Object | None = None) -> tuple[bool, str]:
        """Creates a job by dry run; returns whether it would be placed, and the refusal or the warnings."""
        created, message = self.create(job, namespace)
        return bool(created) and "nodeSelector" in template(created, "Worker")["spec"], message

    def places_jobs(self) -> bool:
        """Returns whether a new job is placed, without a warning."""
        return self.dry_run() == (True, "")

    def wait_until_jobs_are_placed(self) -> None:
        """Waits until a new job is placed, without a warning.

        Raises:
            NotYetError: The time is over.
        """
        until(self.places_jobs, "a job that the webhook places")

    def wait_dry_run(self, placed: bool, message: str, namespace: str = TEAM) -> None:  # noqa: FBT001
        """Waits until a new job is placed, or is not placed, with a message.

        Args:
            placed: Whether the job must be placed.
            message: A part of the refusal or the warnings; empty if there must be no message.
            namespace: The namespace of the job.

        Raises:
            NotYetError: The time is over.
        """

        def is_as_expected() -> bool:
            result, text = self.dry_run(namespace)
            return result is placed and (message in text if message else not text)

        until(
            is_as_expected, f"a job of {namespace} that is {'' if placed else 'not '}placed, with {message!r}"
        )

    def pods(self, component: str = "serving") -> list[Object]:
        """Returns the Pods of a component that are ready and are not being deleted."""
        items = self.own.get_json("pods", "-l", f"app.kubernetes.io/component={component}")["items"]
        return [pod for pod in items if ready(pod)]

    def run_in_pod(self, pod: Object, *command: str) -> str:
        """Runs a command in a Pod; returns its output."""
        return self.own.run("exec", pod["metadata"]["name"], "--", *command).stdout

    def ca_bundles(self) -> set[str]:
        """Returns the caBundles of the webhook configurations: a single one, except during a change."""
        configurations = [self.kubectl.get_json(*name)["webhooks"] for name in (MUTATING, VALIDATING)]
        return {hook["clientConfig"].get("caBundle", "") for hooks in configurations for hook in hooks}

    def served_certificates(self, *addresses: str) -> set[str]:
        """Returns the certificates of the serving Pods at these addresses, read in the plane's network."""
        script = "import ssl, sys; print(ssl.get_server_certificate((sys.argv[1], 8443)), end='')"
        namespaces = self.control_plane.namespaces
        return {namespaces.run([sys.executable, "-c", script, address]) for address in addresses}

    @contextlib.contextmanager
    def without_replicas(self) -> Iterator[None]:
        """Removes all serving Pods until the end of the ``with``. The autoscaler ignores 0 replicas."""
        scale = ("scale", "deployment/ultraserver-webhook")
        self.own.run(*scale, "--replicas=0")
        self.own.run("delete", *SERVING, "--grace-period=1")
        try:
            yield
        finally:
            self.own.run(*scale, "--replicas=2")
            self.own.wait_for(lambda obj: sum(map(ready, obj["items"])) == 2, *SERVING)


def create_folder(folder: Path) -> Path:
    """Creates a folder with the repository's files and a release's chart, for the commands of documents.

    Tests may change the manifests in it. The chart is packed with ``SHORT_INTERVALS``.
    """
    shutil.copytree(REPOSITORY / "manifests", folder / "manifests")
    values = folder / "manifests" / "chart" / "values.yaml"
    variables = [
        {"name": f"ULTRASERVER_CERTS_{key}_SECONDS", "value": value} for key, value in SHORT_INTERVALS.items()
    ]
    text = values.read_text(encoding="utf-8")
    before, rest, after = text.partition("  certificates:\n")
    assert rest, "values.yaml has no programs.certificates"
    new_line = f"    env: {json.dumps(variables)}\n"
    values.write_text(before + rest + after.replace("    env: []\n", new_line, 1), encoding="utf-8")
    (values_block,) = [block for block in blocks_of(INSTALL) if block.file == "values.yaml"]
    (folder / values_block.file).write_text(values_block.text.replace(REGISTRY, '""'), encoding="utf-8")
    # The README installs the chart's archive. Its name has the version.
    installs.pack(values.parent, folder / f"{chart.NAME}-chart-{product.version()}.tgz", 0)
    return session.folder_with_examples(folder)
