"""Tests of the documented command that makes the webhooks fail open, on a real API server."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed import chart
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import to_json
from testbed.plane.kubectl import Kubectl
from tests.docs import session
from tests.nodes.commands import steps
from tests.plane.manifests.conftest import Rendered
from tests.plane.manifests.objects import find_object, webhooks

KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
LAUNCHERS = "launchers.ultraserver-webhook.io"
"""The webhook that always fails closed: without it, a launcher can only fail."""
INSTALLED, TEST_NAME = "ultraserver-webhook", "break-glass"
"""The name of the webhook configurations in an installation, and a name that other tests do not use."""
COMBINED = {"failurePolicy": "Fail", "kinds": ["all"], "pods": True, "optIn": True, "optInKinds": True}
"""The values that register more webhooks, or make webhooks fail closed."""


@pytest.fixture
def kubectl(control_plane: ControlPlane) -> Iterator[Kubectl]:
    """Kubectl for the control plane. The webhook configurations are deleted after the test."""
    yield control_plane.kubectl
    for kind in KINDS:
        control_plane.kubectl.run("delete", kind.lower(), TEST_NAME, "--ignore-not-found")


def registered_policies(kubectl: Kubectl) -> dict[str, str]:
    """Returns the failure policy of each registered webhook, by its name."""
    configurations = [kubectl.get_json(kind.lower(), TEST_NAME) for kind in KINDS]
    return {
        hook["name"]: hook["failurePolicy"] for document in configurations for hook in document["webhooks"]
    }


def register(kubectl: Kubectl, objects: Rendered) -> dict[str, str]:
    """Registers an installation's webhooks for a namespace that does not exist, because no webhook runs."""
    nowhere = {"matchLabels": {"kubernetes.io/metadata.name": "nowhere"}}
    for kind in KINDS:
        document = find_object(objects, kind)
        hooks = [{**hook, "namespaceSelector": nowhere} for hook in document["webhooks"]]
        changed = {**document, "metadata": {"name": TEST_NAME}, "webhooks": hooks}
        kubectl.run("apply", "-f", "-", stdin=to_json(changed))
    return registered_policies(kubectl)


def fail_open(kubectl: Kubectl, folder: Path) -> None:
    """Runs the command that the document shows."""
    (step,) = steps("docs/operations.md", "Fail open")
    command = step.command.replace(f"configuration {INSTALLED} ", f"configuration {TEST_NAME} ")
    env = {"KUBECONFIG": str(kubectl.kubeconfig), "KUBERC": "off"}
    output, status = session.run(command, folder, path=[str(kubectl.binary.parent)], env=env)
    assert (status, output.count("patched")) == (0, len(KINDS)), output


def test_the_command_makes_every_webhook_fail_open_except_the_one_for_launchers(
    kubectl: Kubectl, render: Callable[..., Rendered], tmp_path: Path
) -> None:
    value_sets = [*chart.RECOMMENDED.values(), COMBINED]
    closed = [render(**values) for values in value_sets if "Fail" in rendered_policies(render(**values))]
    assert len(closed) == 2, "the recommended set that fails closed, and the combined values"
    for objects in closed:
        before = register(kubectl, objects)
        fail_open(kubectl, tmp_path)
        assert registered_policies(kubectl) == {**dict.fromkeys(before, "Ignore"), LAUNCHERS: "Fail"}
        assert register(kubectl, objects) == before, (
            "the webhooks fail closed again when the manifest is applied again"
        )
    assert {"asked.ultraserver-webhook.io", "verify-asked.ultraserver-webhook.io"} < before.keys()


def rendered_policies(objects: Rendered) -> set[str]:
    """Returns the failure policies of an installation's webhooks, except the one that always fails closed."""
    return {hook["failurePolicy"] for name, hook in webhooks(objects).items() if name != LAUNCHERS}
