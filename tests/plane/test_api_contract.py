"""Tests that the real API server answers like `FakeApi`, and refuses the fragments that the lint refuses."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kube.client import KubernetesApi, connect
from testbed.plane import podschema
from testbed.plane.controlplane import ControlPlane
from testbed.plane.kubectl import Kubectl
from tests.kube.contract import ApiContract, Server
from tests.rules.fragments import ACCEPTED, REFUSED, WITH_PLACEHOLDERS, complete_template

NAMESPACE = "api-contract"
CORE = f"/api/v1/namespaces/{NAMESPACE}"


@pytest.fixture(scope="module")
def powerless(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> KubernetesApi:
    """A client with the token of a ServiceAccount that has no rights, in the namespace of these tests."""
    control_plane.kubectl.create_namespace(NAMESPACE)
    api = connect(control_plane.kubeconfig)
    api.create(f"{CORE}/serviceaccounts", {"metadata": {"name": "powerless"}})
    token = api.create(f"{CORE}/serviceaccounts/powerless/token", {"spec": {}})["status"]["token"]
    config = json.loads(control_plane.kubeconfig.read_text(encoding="utf-8"))
    config["users"][0]["user"] = {"token": token}
    path = tmp_path_factory.mktemp("powerless") / "kubeconfig"
    path.write_text(json.dumps(config), encoding="utf-8")
    return connect(path)


@pytest.fixture
def server(
    control_plane: ControlPlane, powerless: KubernetesApi, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Server]:
    api = connect(control_plane.kubeconfig)
    # A custom resource has no versions from before its definition was created, so version 1 is too old.
    new_collection = f"/apis/kubeflow.org/v2beta1/namespaces/{NAMESPACE}/mpijobs"
    yield Server(
        api, NAMESPACE, powerless, lambda: monkeypatch.setattr("kube.rest.PAGE_SIZE", 2), new_collection
    )
    for config_map in (api.get(f"{CORE}/configmaps") or {})["items"]:
        if config_map["metadata"]["name"] != "kube-root-ca.crt":
            api.delete(f"{CORE}/configmaps/{config_map['metadata']['name']}")


class TestRealApi(ApiContract):
    """Runs the tests of `ApiContract` on the API server of the control plane."""


def test_the_lint_accepts_the_enum_values_that_the_api_server_publishes(control_plane: ControlPlane) -> None:
    """Protects rule tables from values about which the lint and this Kubernetes release disagree."""
    served = json.loads(control_plane.kubectl.run("get", "--raw", "/openapi/v3/api/v1").stdout)
    types = {name.rpartition(".")[2]: body for name, body in served["components"]["schemas"].items()}
    result = {
        (name, key): sorted(types.get(name, {}).get("properties", {}).get(key, {}).get("enum", values))
        for (name, key), values in podschema.VALUES.items()
    }
    assert result == {place: sorted(values) for place, values in podschema.VALUES.items()}


def is_refused(kubectl: Kubectl, fragment: Any) -> bool:
    """Returns whether the API server refuses a pod template with a fragment in it."""
    document = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "x"},
        "template": complete_template(fragment),
    }
    command = ("create", "--dry-run=server", "--validate=false", "-f", "-")
    output = kubectl.run(*command, stdin=json.dumps(document), check=False)
    assert output.returncode == 0 or "is invalid" in output.stderr or "cannot be handled" in output.stderr
    return output.returncode != 0


def test_the_api_server_refuses_the_fragments_that_the_lint_refuses_and_accepts_the_rest(
    plain_namespace: Kubectl,
) -> None:
    """Protects tables from false alarms of the lint, and jobs from faults that the lint does not find."""
    wrong = [name for name, (fragment, _) in REFUSED.items() if not is_refused(plain_namespace, fragment)]
    wrong += [
        name for name in ACCEPTED.keys() - WITH_PLACEHOLDERS if is_refused(plain_namespace, ACCEPTED[name])
    ]
    assert wrong == []
