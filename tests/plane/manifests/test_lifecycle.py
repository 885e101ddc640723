"""Tests of Helm's install, upgrade, rollback and uninstall on a real API server.

No kubelet runs the programs here. tests/nodes/install tests creates of jobs during these steps.
"""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed import chart
from testbed.plane import webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.kubectl import Kubectl, KubectlError, Object
from testbed.waiting import until
from tests.docs import session
from tests.nodes.commands import type_in
from tests.plane.manifests.objects import of_kind, webhooks

INSTALL = "docs/install.md"
CLUSTER_KINDS = (
    "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"
)
WEBHOOK_KINDS = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
NAMESPACED_KINDS = (
    "deployments,services,poddisruptionbudgets,horizontalpodautoscalers,"
    "configmaps,serviceaccounts,roles,rolebindings,networkpolicies"
)
SELECTOR = ("-l", "app.kubernetes.io/part-of=ultraserver-webhook")
UPGRADE = f"helm upgrade {chart.NAME} manifests/chart --namespace {chart.NAME}"


@pytest.fixture
def user(control_plane: ControlPlane, tmp_path: Path) -> Iterator[tuple[Kubectl, Path]]:
    """Kubectl, and a folder with examples/ and manifests/. The chart's objects are deleted after the test."""
    kubectl, folder = control_plane.kubectl, session.folder_with_examples(tmp_path)
    yield kubectl, folder
    for name in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
        kubectl.run("delete", name, chart.NAME, "--ignore-not-found")
    kubectl.run("delete", CLUSTER_KINDS, *SELECTOR)
    kubectl.run("delete", "namespace", chart.NAME, "--ignore-not-found")


def stored_objects(kubectl: Kubectl) -> dict[str, Object]:
    """Returns the stored objects of the chart, by kind and name."""
    items = kubectl.get_json(f"{CLUSTER_KINDS},{WEBHOOK_KINDS}", *SELECTOR)["items"]
    items += kubectl.in_namespace(chart.NAME).get_json(NAMESPACED_KINDS, *SELECTOR)["items"]
    return {f"{item['kind']}/{item['metadata']['name']}": item for item in items}


def run_helm(user: tuple[Kubectl, Path], command: str) -> str:
    """Runs a Helm command as a user does, and returns its output."""
    kubectl, folder = user
    env = {"KUBECONFIG": str(kubectl.kubeconfig)}
    output, status = session.run(command, folder, path=[str(chart.helm().parent)], env=env)
    assert status == 0, output
    return output


def install_by_kubectl(kubectl: Kubectl) -> None:
    """Applies ``install.yaml``, and writes caBundles and replicas, as the programs and the autoscaler do."""
    kubectl.run("apply", "-f", "-", stdin=chart.render())
    bundle = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
    for part in filter(None, yaml.safe_load_all(chart.render())):
        if part["kind"] in {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}:
            patch = [
                {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle}
                for index in range(len(part["webhooks"]))
            ]
            kubectl.run("patch", part["kind"].lower(), chart.NAME, "--type=json", "-p", json.dumps(patch))
    kubectl.run("-n", chart.NAME, "scale", "deployment", chart.NAME, "--replicas=3")


def kept_values(objects: dict[str, Object]) -> dict[str, Any]:
    """Returns the values that an upgrade keeps: the uids, the caBundles, and the number of replicas."""
    hooks = webhooks(objects.values())
    return {
        "uids": {name: item["metadata"]["uid"] for name, item in objects.items()},
        "bundles": {name: hook["clientConfig"].get("caBundle") for name, hook in hooks.items()},
        "replicas": objects[f"Deployment/{chart.NAME}"]["spec"]["replicas"],
    }


def pod_templates(objects: dict[str, Object]) -> dict[str, Object]:
    """Returns the pod template of each Deployment, by the Deployment's name."""
    deployments = of_kind(objects.values(), "Deployment")
    return {item["metadata"]["name"]: item["spec"]["template"] for item in deployments}


def guard_actions(objects: dict[str, Object]) -> set[str]:
    """Returns the validation actions of the guard's policies."""
    bindings = of_kind(objects.values(), "ValidatingAdmissionPolicyBinding")
    guard = [item for item in bindings if "-guard-" in item["metadata"]["name"]]
    return {action for item in guard for action in item["spec"]["validationActions"]}


@pytest.mark.limit(60, "runs Helm ten times, and each process reads the API server's discovery")
def test_helm_adopts_an_installation_by_kubectl_upgrades_rolls_back_and_uninstalls(
    user: tuple[Kubectl, Path],
) -> None:
    kubectl, folder = user
    install_by_kubectl(kubectl)
    before = stored_objects(kubectl)
    with pytest.raises(AssertionError, match="cannot be imported into the current release"):
        run_helm(user, f"helm install {chart.NAME} manifests/chart --namespace {chart.NAME}")
    output = type_in(INSTALL, "Move from kubectl to Helm", folder, kubectl)
    assert "guard enforce, whole-job admission on, failurePolicy Ignore" in output
    adopted = stored_objects(kubectl)
    assert kept_values(adopted) == kept_values(before)
    assert kept_values(before)["replicas"] == 3
    labels = "app.kubernetes.io/managed-by"
    assert {item["metadata"]["labels"][labels] for item in adopted.values()} == {"Helm"}
    assert pod_templates(adopted).items() >= pod_templates(before).items(), "no Pod is replaced"

    run_helm(user, f"{UPGRADE} --set guard=warn --set kinds={{all}}")
    upgraded = stored_objects(kubectl)
    assert guard_actions(upgraded) == {"Warn", "Audit"}
    assert f"kinds.{chart.NAME}.io" in webhooks(upgraded.values())
    type_in(INSTALL, "Remove the guard", folder, kubectl)
    assert guard_actions(stored_objects(kubectl)) == set()
    run_helm(user, f"helm rollback {chart.NAME} 1 --namespace {chart.NAME}")
    rolled_back = stored_objects(kubectl)
    assert guard_actions(rolled_back) == {"Deny"}
    for item in list(adopted):
        # The guard was deleted and created again, so it has new uids.
        if adopted[item]["metadata"]["labels"].get("app.kubernetes.io/component") == "guard":
            del adopted[item], rolled_back[item]
    assert kept_values(rolled_back) == kept_values(adopted)

    type_in(INSTALL, "Uninstall", folder, kubectl)
    assert kubectl.get_json(f"{CLUSTER_KINDS},{WEBHOOK_KINDS}", *SELECTOR)["items"] == []


def test_placement_is_drained_and_then_removed(user: tuple[Kubectl, Path]) -> None:
    kubectl, folder = user
    install = f"helm install {chart.NAME} manifests/chart --namespace {chart.NAME} --create-namespace"
    run_helm(user, f"{install} --set claims={{default}} --set image.registry=registry.example.com")
    table, program = "ConfigMap/ultraserver-webhook-rules", "Deployment/ultraserver-placement"
    assert {"30-placement.yaml", "rules.yaml"} == {*stored_objects(kubectl)[table]["data"]}
    assert len(kubectl.in_namespace("default").get_json("resourceclaimtemplates")["items"]) == 4
    type_in("docs/placement.md", "Take it out", folder, kubectl)
    draining = stored_objects(kubectl)
    assert {*draining[table]["data"]} == {"rules.yaml"}
    assert program in draining
    type_in("docs/placement.md", "Delete the program", folder, kubectl)
    remaining = stored_objects(kubectl)
    assert not [name for name in remaining if "ultraserver-placement" in name]
    # The values of the first installation stay.
    (container,) = remaining[f"Deployment/{chart.NAME}"]["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("registry.example.com/")
    assert len(kubectl.in_namespace("default").get_json("resourceclaimtemplates")["items"]) == 4
    run_helm(user, f"helm uninstall {chart.NAME} --namespace {chart.NAME}")
    assert kubectl.in_namespace("default").get_json("resourceclaimtemplates")["items"] == []


def test_the_webhook_does_not_refuse_the_table_of_another_version(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    running = webhook.start(control_plane.programs, tmp_path, name="rule-tables")
    (document,) = of_kind(chart.objects(), "ValidatingWebhookConfiguration")
    (hook,) = [item for item in document["webhooks"] if item["name"].startswith("rule-table.")]
    bundle = base64.b64encode(running.ca.read_bytes()).decode()
    client = {"url": f"{running.url}/rules", "caBundle": bundle}
    document["webhooks"] = [{**hook, "clientConfig": client, "failurePolicy": "Fail"}]
    kubectl = control_plane.kubectl.share_namespace(chart.NAME)
    (table,) = of_kind(chart.objects(), "ConfigMap")
    table["data"]["rules.yaml"] += "unknown: {}\n"
    other_version = {**table, "metadata": table["metadata"] | {"labels": {**table["metadata"]["labels"]}}}
    other_version["metadata"]["labels"]["app.kubernetes.io/version"] = "0.0.1"

    def refusal(document: Object) -> str:
        try:
            kubectl.create(document, "--dry-run=server")
        except KubectlError as error:
            return error.stderr
        return ""

    kubectl.create(document)
    try:
        until(lambda: refusal(table), "a refusal of an unknown key")
        assert "unknown key 'unknown'" in refusal(table)
        assert refusal(other_version) == ""
        del other_version["metadata"]["labels"]["app.kubernetes.io/version"]
        assert "unknown key 'unknown'" in refusal(other_version), "a table without a version is checked"
    finally:
        kubectl.run("delete", document["kind"], chart.NAME)
        kubectl.run("delete", "namespace", chart.NAME)
        control_plane.programs.stop(running.program)
