"""What the chart registers with values, registered for a webhook on loopback."""

import base64
import contextlib
from collections.abc import Iterator
from typing import Any

from certs.objects import webhook_configuration_path
from kube.client import connect
from testbed import chart
from testbed.plane import webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import together
from testbed.plane.kubectl import Kubectl, KubectlError
from testbed.plane.webhook import RunningWebhook
from testbed.waiting import until

KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
MERGE = "application/merge-patch+json"
AWAY = "https://127.0.0.1:1"
"""Where no one listens."""


@contextlib.contextmanager
def installed(
    plane: ControlPlane, running: RunningWebhook, values: dict[str, Any], *, away: bool = False
) -> Iterator[set[str]]:
    """Registers them and waits until the API server asks; yields the names of the webhooks.

    Args:
        plane: the control plane.
        running: what is asked.
        values: of the chart.
        away: whether no one answers.
    """
    matching = [each for each in chart.objects(values) if each["kind"] in KINDS]
    hooks = [hook for configuration in matching for hook in configuration["webhooks"]]
    bundle = base64.b64encode(running.ca.read_bytes()).decode()
    for hook in hooks:
        url = AWAY if away else running.url
        path = hook["clientConfig"]["service"]["path"]
        hook["clientConfig"] = {"url": url + path, "caBundle": bundle}
    plane.kubectl.create(together(*matching))
    try:
        inside = plane.kubectl.in_namespace("probe")
        if away:
            until(lambda: _refused(inside), "a refusal, as no program answers")
        for name in () if away else ("mpijobs", "verify"):
            webhook.wait_until_called(inside, {f"{name}.ultraserver-webhook.io"}, webhook.PROBE)
        yield {hook["name"] for hook in hooks}
    finally:
        for configuration in matching:
            inside.delete(configuration["kind"], configuration["metadata"]["name"])


def nothing_mutated(plane: ControlPlane) -> None:
    """Takes away what mutates, and leaves what verifies."""
    path = webhook_configuration_path("mutating", "ultraserver-webhook")
    connect(plane.kubeconfig).patch(path, [{"op": "replace", "path": "/webhooks", "value": []}])


def _refused(inside: Kubectl) -> bool:
    try:
        inside.create(webhook.PROBE, "--dry-run=server")
    except KubectlError:
        return True
    return False
