"""Helm installs, takes over, upgrades, rolls back and uninstalls on a real API server.

No kubelet runs the programs here, so no one answers: tests/nodes/install has what happens to admissions.
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
CLUSTER = "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"
HOOKS = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
OWN = (
    "deployments,services,poddisruptionbudgets,horizontalpodautoscalers,"
    "configmaps,serviceaccounts,roles,rolebindings,networkpolicies"
)
OURS = ("-l", "app.kubernetes.io/part-of=ultraserver-webhook")
UPGRADE = f"helm upgrade {chart.NAME} manifests/chart --namespace {chart.NAME}"


@pytest.fixture
def person(control_plane: ControlPlane, tmp_path: Path) -> Iterator[tuple[Kubectl, Path]]:
    """Kubectl, and a folder that looks like the repository; afterwards nothing of ours is there."""
    kubectl, folder = control_plane.kubectl, session.folder_with_examples(tmp_path)
    yield kubectl, folder
    for name in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
        kubectl.run("delete", name, chart.NAME, "--ignore-not-found")
    kubectl.run("delete", CLUSTER, *OURS)
    kubectl.run("delete", "namespace", chart.NAME, "--ignore-not-found")


def stored(kubectl: Kubectl) -> dict[str, Object]:
    """Returns all of ours, by kind and name."""
    items = kubectl.get_json(f"{CLUSTER},{HOOKS}", *OURS)["items"]
    items += kubectl.in_namespace(chart.NAME).get_json(OWN, *OURS)["items"]
    return {f"{item['kind']}/{item['metadata']['name']}": item for item in items}


def typed(person: tuple[Kubectl, Path], command: str) -> str:
    """Runs a command of Helm's, as ``type_in`` runs those of a document."""
    kubectl, folder = person
    env = {"KUBECONFIG": str(kubectl.kubeconfig)}
    output, status = session.run(command, folder, path=[str(chart.helm().parent)], env=env)
    assert status == 0, output
    return output


def installed_by_kubectl(kubectl: Kubectl) -> None:
    """Applies ``install.yaml``; the certificate program writes caBundles, the autoscaler a replica."""
    kubectl.run("apply", "-f", "-", stdin=chart.rendered())
    bundle = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
    for part in filter(None, yaml.safe_load_all(chart.rendered())):
        if part["kind"] in {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}:
            patch = [
                {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle}
                for index in range(len(part["webhooks"]))
            ]
            kubectl.run("patch", part["kind"].lower(), chart.NAME, "--type=json", "-p", json.dumps(patch))
    kubectl.run("-n", chart.NAME, "scale", "deployment", chart.NAME, "--replicas=3")


def kept(objects: dict[str, Object]) -> dict[str, Any]:
    """Returns what an upgrade leaves alone: which objects they are, caBundles, and the number of replicas."""
    hooks = webhooks(objects.values())
    return {
        "uids": {name: item["metadata"]["uid"] for name, item in objects.items()},
        "bundles": {name: hook["clientConfig"].get("caBundle") for name, hook in hooks.items()},
        "replicas": objects[f"Deployment/{chart.NAME}"]["spec"]["replicas"],
    }


def pods_of(objects: dict[str, Object]) -> dict[str, Object]:
    """Returns what Pods each Deployment makes."""
    deployments = of_kind(objects.values(), "Deployment")
    return {item["metadata"]["name"]: item["spec"]["template"] for item in deployments}


def actions(objects: dict[str, Object]) -> set[str]:
    """Returns what the guard does."""
    bindings = of_kind(objects.values(), "ValidatingAdmissionPolicyBinding")
    guard = [item for item in bindings if "-guard-" in item["metadata"]["name"]]
    return {action for item in guard for action in item["spec"]["validationActions"]}


@pytest.mark.limit(60, "Helm ten times, each a process that reads the API server's discovery")
def test_helm_takes_over_what_kubectl_installed_upgrades_rolls_back_and_uninstalls(
    person: tuple[Kubectl, Path],
) -> None:
    kubectl, folder = person
    installed_by_kubectl(kubectl)
    before = stored(kubectl)
    with pytest.raises(AssertionError, match="cannot be imported into the current release"):
        typed(person, f"helm install {chart.NAME} manifests/chart --namespace {chart.NAME}")
    output = type_in(INSTALL, "Move from kubectl to Helm", folder, kubectl)
    assert "guard enforce, whole-job admission on, failurePolicy Ignore" in output
    taken = stored(kubectl)
    assert kept(taken) == kept(before)
    assert kept(before)["replicas"] == 3
    labels = "app.kubernetes.io/managed-by"
    assert {item["metadata"]["labels"][labels] for item in taken.values()} == {"Helm"}
    assert pods_of(taken).items() >= pods_of(before).items(), "no Pod is replaced"

    typed(person, f"{UPGRADE} --set guard=warn --set kinds={{all}}")
    upgraded = stored(kubectl)
    assert actions(upgraded) == {"Warn", "Audit"}
    assert f"kinds.{chart.NAME}.io" in webhooks(upgraded.values())
    type_in(INSTALL, "Remove the guard", folder, kubectl)
    assert actions(stored(kubectl)) == set()
    typed(person, f"helm rollback {chart.NAME} 1 --namespace {chart.NAME}")
    back = stored(kubectl)
    assert actions(back) == {"Deny"}
    for item in list(taken):
        # It was deleted in between, and is there again.
        if taken[item]["metadata"]["labels"].get("app.kubernetes.io/component") == "guard":
            del taken[item], back[item]
    assert kept(back) == kept(taken)

    type_in(INSTALL, "Uninstall", folder, kubectl)
    assert kubectl.get_json(f"{CLUSTER},{HOOKS}", *OURS)["items"] == []


def test_placement_is_drained_and_then_taken_out(person: tuple[Kubectl, Path]) -> None:
    kubectl, folder = person
    fresh = f"helm install {chart.NAME} manifests/chart --namespace {chart.NAME} --create-namespace"
    typed(person, f"{fresh} --set claims={{default}} --set image.registry=registry.example.com")
    table, program = "ConfigMap/ultraserver-webhook-rules", "Deployment/ultraserver-placement"
    assert {"30-placement.yaml", "rules.yaml"} == {*stored(kubectl)[table]["data"]}
    assert len(kubectl.in_namespace("default").get_json("resourceclaimtemplates")["items"]) == 4
    type_in("docs/placement.md", "Take it out", folder, kubectl)
    draining = stored(kubectl)
    assert {*draining[table]["data"]} == {"rules.yaml"}
    assert program in draining
    type_in("docs/placement.md", "Delete the program", folder, kubectl)
    left = stored(kubectl)
    assert not [name for name in left if "ultraserver-placement" in name]
    # What was set before stays.
    (container,) = left[f"Deployment/{chart.NAME}"]["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("registry.example.com/")
    assert len(kubectl.in_namespace("default").get_json("resourceclaimtemplates")["items"]) == 4
    typed(person, f"helm uninstall {chart.NAME} --namespace {chart.NAME}")
    assert kubectl.in_namespace("default").get_json("resourceclaimtemplates")["items"] == []


def test_a_table_of_another_version_is_not_refused_by_the_pods_that_are_still_there(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    running = webhook.start(control_plane.programs, tmp_path, name="rule-tables")
    (document,) = of_kind(chart.objects(), "ValidatingWebhookConfiguration")
    (hook,) = [each for each in document["webhooks"] if each["name"].startswith("rule-table.")]
    bundle = base64.b64encode(running.ca.read_bytes()).decode()
    client = {"url": f"{running.url}/rules", "caBundle": bundle}
    document["webhooks"] = [{**hook, "clientConfig": client, "failurePolicy": "Fail"}]
    kubectl = control_plane.kubectl.share_namespace(chart.NAME)
    (table,) = of_kind(chart.objects(), "ConfigMap")
    table["data"]["rules.yaml"] += "unknown: {}\n"
    theirs = {**table, "metadata": table["metadata"] | {"labels": {**table["metadata"]["labels"]}}}
    theirs["metadata"]["labels"]["app.kubernetes.io/version"] = "0.0.1"

    def refused(document: Object) -> str:
        try:
            kubectl.create(document, "--dry-run=server")
        except KubectlError as error:
            return error.stderr
        return ""

    kubectl.create(document)
    try:
        until(lambda: refused(table), "a refusal of an unknown key")
        assert "unknown key 'unknown'" in refused(table)
        assert refused(theirs) == ""
        del theirs["metadata"]["labels"]["app.kubernetes.io/version"]
        assert "unknown key 'unknown'" in refused(theirs), "a table that kubectl made by hand"
    finally:
        kubectl.run("delete", document["kind"], chart.NAME)
        kubectl.run("delete", "namespace", chart.NAME)
        control_plane.programs.stop(running.program)
