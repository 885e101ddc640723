"""A launcher needs its script: its Job tries until a replica answers that gives it."""

import base64
from collections.abc import Callable

from certs.objects import webhook_configuration_path
from contract import keys
from kube.client import connect
from testbed.mpijob import mpijob
from testbed.plane import jobs, webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.kubectl import Kubectl
from testbed.plane.webhook import RunningWebhook
from tests.plane.fleets.installed import AWAY, installed
from webhook import initscript

LAUNCHERS = "launchers.ultraserver-webhook.io"
HOSTFILE = "OMPI_MCA_orte_default_hostfile"
THEIRS = f"""
apiVersion: ultraserver-webhook.io/v1alpha2
kind: RuleTable
candidates: {{instanceTypeLabels: [none]}}
workloads: [{{name: pod, kinds: [v1/Pod], groups: [{{role: pod, template: ""}}]}}]
families:
  - name: none
    instanceTypes: [none]
    wholeNode: {{none: 0}}
    shapes: [{{name: one, workers: 1, nodeConfig: 1}}]
rules:
  - name: theirs
    reason: Another webhook has another opinion.
    match: {{workload: pod, role: pod}}
    onConflict: override
    add: {{spec: {{containers: [{{name: $(pod.container), env: [{{name: {HOSTFILE}, value: /theirs}}]}}]}}}}
"""


def test_a_launcher_is_created_when_the_webhook_is_back_and_then_has_its_script(
    plane: ControlPlane, running: RunningWebhook, namespace: Callable[..., Kubectl]
) -> None:
    """Also where all else fails open, and where the namespace was opted out after the job was admitted."""
    inside = namespace()
    with installed(plane, running, {}):
        ask_launchers_at(plane, running, f"{AWAY}/launcher")
        inside.create(mpijob(4))
        inside.wait_for(
            lambda answer: LAUNCHERS in str(answer), "events", "--field-selector=reason=FailedCreate"
        )
        chosen = ("pods", "-l", f"{jobs.ROLE}=launcher")
        assert inside.get_json(*chosen)["items"] == []
        namespace_name = inside.get_json("mpijobs")["items"][0]["metadata"]["namespace"]
        inside.run("label", "namespace", namespace_name, f"{keys.INJECT}=disabled")
        ask_launchers_at(plane, running, f"{running.url}/launcher")
        (pod,) = inside.wait_for(lambda obj: obj["items"], *chosen, timeout=90)["items"]
    assert pod["metadata"]["annotations"][keys.INIT_SCRIPT] == initscript.text()


def test_what_another_webhook_takes_away_afterwards_is_back(
    plane: ControlPlane, running: RunningWebhook, namespace: Callable[..., Kubectl]
) -> None:
    """It is asked again, although the Pod has its script by then."""
    inside, folder = namespace(), plane.folder / "theirs"
    folder.mkdir()
    (folder / "rules.yaml").write_text(THEIRS)
    theirs = webhook.start(plane.programs, folder, folder / "rules.yaml", name="theirs")
    hook = {
        "name": "zzz.example.com",
        "clientConfig": {"url": f"{theirs.url}/mutate", "caBundle": encoded(theirs)},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
        ],
        "objectSelector": {"matchLabels": {jobs.ROLE: "launcher"}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "zzz"},
        "webhooks": [hook],
    }
    probe = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": {jobs.ROLE: "launcher"}}}
    probe["spec"] = {"containers": [{"name": "x", "image": "i"}]}
    with installed(plane, running, {}), webhook.registered(inside, configuration, probe):
        inside.create(mpijob(4))
        obj = inside.wait_for(lambda obj: obj["items"], "pods", "-l", f"{jobs.ROLE}=launcher")
    (pod,) = obj["items"]
    (main,) = pod["spec"]["containers"]
    values = {item["name"]: item.get("value") for item in main["env"]}
    assert values[HOSTFILE] == "/root/ultraserver_init/new_hostfile"
    assert pod["metadata"]["annotations"][keys.INIT_SCRIPT] == initscript.text()


def encoded(running: RunningWebhook) -> str:
    return base64.b64encode(running.ca.read_bytes()).decode()


def ask_launchers_at(plane: ControlPlane, running: RunningWebhook, url: str) -> None:
    """Has the API server call another address about launchers, as where no replica answers."""
    path = webhook_configuration_path("mutating", "ultraserver-webhook")
    api = connect(plane.kubeconfig)
    stored = api.get(path)
    assert stored
    index = [hook["name"] for hook in stored["webhooks"]].index(LAUNCHERS)
    client = {"url": url, "caBundle": encoded(running)}
    api.patch(path, [{"op": "replace", "path": f"/webhooks/{index}/clientConfig", "value": client}])
