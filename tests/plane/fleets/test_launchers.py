"""A launcher needs its script: its Job tries until a replica answers that gives it."""

from __future__ import annotations

import base64
from collections.abc import Callable

from certs.objects import webhook_configuration
from contract import keys
from kube.client import connect
from testbed.mpijob import mpijob
from testbed.plane import jobs
from testbed.plane.controlplane import ControlPlane
from testbed.plane.kubectl import Kubectl
from testbed.plane.webhook import RunningWebhook
from tests.plane.fleets.installed import AWAY, installed
from webhook import initscript

LAUNCHERS = "launchers.ultraserver-webhook.io"


def test_a_launcher_is_created_when_the_webhook_is_back_and_then_has_its_script(
    plane: ControlPlane, running: RunningWebhook, namespace: Callable[..., Kubectl]
) -> None:
    """Also where all else fails open, and where the namespace was opted out after the job was admitted."""
    inside = namespace()
    with installed(plane, running, {}):
        ask_launchers_at(plane, running, f"{AWAY}/launcher")
        inside.create(mpijob(4))
        inside.wait_for(
            lambda found: LAUNCHERS in str(found), "events", "--field-selector=reason=FailedCreate"
        )
        chosen = ("pods", "-l", f"{jobs.ROLE}=launcher")
        assert inside.get_json(*chosen)["items"] == []
        namespace_name = inside.get_json("mpijobs")["items"][0]["metadata"]["namespace"]
        inside.run("label", "namespace", namespace_name, f"{keys.INJECT}=disabled")
        ask_launchers_at(plane, running, f"{running.url}/launcher")
        (pod,) = inside.wait_for(lambda found: found["items"], *chosen, timeout=90)["items"]
    assert pod["metadata"]["annotations"][keys.INIT_SCRIPT] == initscript.text()


def ask_launchers_at(plane: ControlPlane, running: RunningWebhook, url: str) -> None:
    """Has the API server call another address about launchers, as where no replica answers."""
    path = webhook_configuration("mutating", "ultraserver-webhook")
    api = connect(plane.kubeconfig)
    found = api.get(path)
    assert found
    index = [hook["name"] for hook in found["webhooks"]].index(LAUNCHERS)
    client = {"url": url, "caBundle": base64.b64encode(running.ca.read_bytes()).decode()}
    api.patch(path, [{"op": "replace", "path": f"/webhooks/{index}/clientConfig", "value": client}])
