"""The documented way to fail open, on what values register, as a real API server keeps it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed import chart
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import text
from testbed.plane.kubectl import Kubectl
from tests.docs import session
from tests.nodes.commands import steps
from tests.plane.manifests.conftest import Build
from tests.plane.manifests.objects import one, webhooks

KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
LAUNCHERS = "launchers.ultraserver-webhook.io"
"""Always fails closed: what it is for could only fail without."""
INSTALLED, HERE = "ultraserver-webhook", "break-glass"
"""What the configurations are called, and what they are called here: other tests have theirs registered."""
COMBINED = {"failurePolicy": "Fail", "kinds": ["all"], "pods": True, "optIn": True, "optInKinds": True}
"""All values that register webhooks, or change how they fail."""


@pytest.fixture
def kubectl(control_plane: ControlPlane) -> Iterator[Kubectl]:
    """Kubectl for a control plane where nothing of ours is registered, before or after."""
    yield control_plane.kubectl
    for kind in KINDS:
        control_plane.kubectl.run("delete", kind.lower(), HERE, "--ignore-not-found")


def registered(kubectl: Kubectl) -> dict[str, str]:
    """Returns how each webhook fails, by its name."""
    matching = [kubectl.get_json(kind.lower(), HERE) for kind in KINDS]
    return {hook["name"]: hook["failurePolicy"] for document in matching for hook in document["webhooks"]}


def register(kubectl: Kubectl, objects: Build) -> dict[str, str]:
    """Registers what an installation does, only for no namespace: no webhook answers here."""
    nowhere = {"matchLabels": {"kubernetes.io/metadata.name": "nowhere"}}
    for kind in KINDS:
        document = one(objects, kind)
        hooks = [{**hook, "namespaceSelector": nowhere} for hook in document["webhooks"]]
        made = {**document, "metadata": {"name": HERE}, "webhooks": hooks}
        kubectl.run("apply", "-f", "-", stdin=text(made))
    return registered(kubectl)


def fail_open(kubectl: Kubectl, folder: Path) -> None:
    """Types in what the document shows."""
    (step,) = steps("docs/operations.md", "Fail open")
    command = step.command.replace(f"configuration {INSTALLED} ", f"configuration {HERE} ")
    env = {"KUBECONFIG": str(kubectl.kubeconfig), "KUBERC": "off"}
    output, status = session.run(command, folder, path=[str(kubectl.binary.parent)], env=env)
    assert (status, output.count("patched")) == (0, len(KINDS)), output


def test_failing_open_opens_every_webhook_of_all_values_that_fail_closed(
    kubectl: Kubectl, built: Callable[..., Build], tmp_path: Path
) -> None:
    recommended = [*chart.RECOMMENDED.values(), COMBINED]
    closed = [built(**values) for values in recommended if "Fail" in policies(built(**values))]
    assert len(closed) == 2, "a recommended set that fails closed, and all values that can go with it"
    for objects in closed:
        before = register(kubectl, objects)
        fail_open(kubectl, tmp_path)
        assert registered(kubectl) == {**dict.fromkeys(before, "Ignore"), LAUNCHERS: "Fail"}
        assert register(kubectl, objects) == before, "applying it again, as for Restore, closes it again"
    assert {"asked.ultraserver-webhook.io", "verify-asked.ultraserver-webhook.io"} < before.keys()


def policies(objects: Build) -> set[str]:
    """Returns the ways in which an installation's webhooks fail, except for the one that always does."""
    return {hook["failurePolicy"] for name, hook in webhooks(objects).items() if name != LAUNCHERS}
