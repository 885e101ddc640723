"""Tests that launcher Pods have the init script: without an answer of the webhook, no launcher is created."""

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
from tests.plane.fleets.installed import UNREACHABLE, installed
from webhook import initscript

LAUNCHERS = "launchers.ultraserver-webhook.io"
HOSTFILE = "OMPI_MCA_orte_default_hostfile"
OTHER_TABLE = f"""
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


def test_a_launcher_is_created_with_its_script_after_the_webhook_answers_again(
    plane: ControlPlane, running: RunningWebhook, namespace: Callable[..., Kubectl]
) -> None:
    """The other webhooks fail open, and the namespace is opted out after the job is created."""
    inside = namespace()
    with installed(plane, running, {}):
        set_launcher_webhook_address(plane, running, f"{UNREACHABLE}/launcher")
        inside.create(mpijob(4))
        inside.wait_for(
            lambda events: LAUNCHERS in str(events), "events", "--field-selector=reason=FailedCreate"
        )
        launchers = ("pods", "-l", f"{jobs.ROLE}=launcher")
        assert inside.get_json(*launchers)["items"] == []
        namespace_name = inside.get_json("mpijobs")["items"][0]["metadata"]["namespace"]
        inside.run("label", "namespace", namespace_name, f"{keys.INJECT}=disabled")
        set_launcher_webhook_address(plane, running, f"{running.url}/launcher")
        (pod,) = inside.wait_for(lambda obj: obj["items"], *launchers, timeout=90)["items"]
    assert pod["metadata"]["annotations"][keys.INIT_SCRIPT] == initscript.text()


def test_a_variable_that_another_webhook_overwrites_is_restored(
    plane: ControlPlane, running: RunningWebhook, namespace: Callable[..., Kubectl]
) -> None:
    """The API server calls the webhook for launchers again, although the Pod has its script by then."""
    inside, folder = namespace(), plane.folder / "other-webhook"
    folder.mkdir()
    (folder / "rules.yaml").write_text(OTHER_TABLE)
    other = webhook.start(plane.programs, folder, folder / "rules.yaml", name="other-webhook")
    hook = {
        "name": "zzz.example.com",
        "clientConfig": {"url": f"{other.url}/mutate", "caBundle": ca_bundle(other)},
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
    with installed(plane, running, {}), webhook.register(inside, configuration, probe):
        inside.create(mpijob(4))
        pods = inside.wait_for(lambda obj: obj["items"], "pods", "-l", f"{jobs.ROLE}=launcher")
    (pod,) = pods["items"]
    (main,) = pod["spec"]["containers"]
    values = {item["name"]: item.get("value") for item in main["env"]}
    assert values[HOSTFILE] == "/root/ultraserver_init/new_hostfile"
    assert pod["metadata"]["annotations"][keys.INIT_SCRIPT] == initscript.text()


def ca_bundle(running: RunningWebhook) -> str:
    return base64.b64encode(running.ca.read_bytes()).decode()


def set_launcher_webhook_address(plane: ControlPlane, running: RunningWebhook, url: str) -> None:
    """Changes the address of the webhook for launchers, so that it can be unreachable."""
    path = webhook_configuration_path("mutating", "ultraserver-webhook")
    api = connect(plane.kubeconfig)
    stored = api.get(path)
    assert stored
    index = [hook["name"] for hook in stored["webhooks"]].index(LAUNCHERS)
    client_config = {"url": url, "caBundle": ca_bundle(running)}
    api.patch(path, [{"op": "replace", "path": f"/webhooks/{index}/clientConfig", "value": client_config}])
