"""Registers the webhooks of the chart, but with the address of a webhook on loopback."""

import base64
import contextlib
from collections.abc import Iterator
from typing import Any

from certs.objects import webhook_configuration_path
from kube.client import connect
from testbed import chart
from testbed.plane import webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import list_object
from testbed.plane.kubectl import Kubectl, KubectlError
from testbed.plane.webhook import RunningWebhook
from testbed.waiting import until

KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
MERGE = "application/merge-patch+json"
UNREACHABLE = "https://127.0.0.1:1"
"""An address at which no program listens."""


@contextlib.contextmanager
def installed(
    plane: ControlPlane, running: RunningWebhook, values: dict[str, Any], *, unreachable: bool = False
) -> Iterator[set[str]]:
    """Registers the webhooks and waits until the API server calls them; yields their names.

    Args:
        plane: The control plane.
        running: The webhook that the API server calls.
        values: The values of the chart.
        unreachable: Whether the registered address is ``UNREACHABLE``.
    """
    configurations = [item for item in chart.objects(values) if item["kind"] in KINDS]
    hooks = [hook for configuration in configurations for hook in configuration["webhooks"]]
    bundle = base64.b64encode(running.ca.read_bytes()).decode()
    for hook in hooks:
        url = UNREACHABLE if unreachable else running.url
        path = hook["clientConfig"]["service"]["path"]
        hook["clientConfig"] = {"url": url + path, "caBundle": bundle}
    plane.kubectl.create(list_object(*configurations))
    try:
        inside = plane.kubectl.in_namespace("probe")
        if unreachable:
            until(lambda: _is_refused(inside), "a refusal, because no program answers")
        for name in () if unreachable else ("mpijobs", "verify"):
            webhook.wait_until_called(inside, {f"{name}.ultraserver-webhook.io"}, webhook.PROBE)
        yield {hook["name"] for hook in hooks}
    finally:
        for configuration in configurations:
            inside.delete(configuration["kind"], configuration["metadata"]["name"])


def remove_mutating_webhooks(plane: ControlPlane) -> None:
    """Removes the mutating webhooks of the installation, and keeps the validating webhooks."""
    path = webhook_configuration_path("mutating", "ultraserver-webhook")
    connect(plane.kubeconfig).patch(path, [{"op": "replace", "path": "/webhooks", "value": []}])


def _is_refused(inside: Kubectl) -> bool:
    try:
        inside.create(webhook.PROBE, "--dry-run=server")
    except KubectlError:
        return True
    return False
