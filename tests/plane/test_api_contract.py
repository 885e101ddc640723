"""The real API server answers as the one in memory, and refuses the fragments that the lint refuses."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kube.client import KubernetesApi, connect
from testbed.plane import podschema
from testbed.plane.controlplane import ControlPlane
from testbed.plane.kubectl import Kubectl
from tests.kube.contract import ApiContract, Server
from tests.rules.fragments import QUOTING, REFUSED, TAKEN, whole

NAMESPACE = "api-contract"
CORE = f"/api/v1/namespaces/{NAMESPACE}"


@pytest.fixture(scope="module")
def powerless(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> KubernetesApi:
    """The calls of an account without rights, in a namespace of the tests."""
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
    # The API server began to watch custom resources when they were defined.
    young = f"/apis/kubeflow.org/v2beta1/namespaces/{NAMESPACE}/mpijobs"
    yield Server(api, NAMESPACE, powerless, lambda: monkeypatch.setattr("kube.rest.PAGE_SIZE", 2), young)
    for left in (api.get(f"{CORE}/configmaps") or {})["items"]:
        if left["metadata"]["name"] != "kube-root-ca.crt":
            api.delete(f"{CORE}/configmaps/{left['metadata']['name']}")


class TestRealApi(ApiContract):
    """The control plane's."""


def test_the_words_that_a_fragment_may_have_are_those_of_the_api_server(control_plane: ControlPlane) -> None:
    """Protects rule tables from words that this release does not take, or takes and lint refuses."""
    served = json.loads(control_plane.kubectl.run("get", "--raw", "/openapi/v3/api/v1").stdout)
    types = {name.rpartition(".")[2]: body for name, body in served["components"]["schemas"].items()}
    result = {
        (name, key): sorted(types.get(name, {}).get("properties", {}).get(key, {}).get("enum", values))
        for (name, key), values in podschema.VALUES.items()
    }
    assert result == {place: sorted(values) for place, values in podschema.VALUES.items()}


def refused(kubectl: Kubectl, fragment: Any) -> bool:
    """Returns whether the API server refuses a pod template with a fragment in it."""
    made = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": whole(fragment)}
    requests = ("create", "--dry-run=server", "--validate=false", "-f", "-")
    done = kubectl.run(*requests, stdin=json.dumps(made), check=False)
    assert done.returncode == 0 or "is invalid" in done.stderr or "cannot be handled" in done.stderr
    return done.returncode != 0


def test_the_api_server_refuses_what_the_lint_refuses_and_takes_the_rest(plain_namespace: Kubectl) -> None:
    """Protects tables from problems that are none, and jobs from those that the lint would not know."""
    wrong = [name for name, (fragment, _) in REFUSED.items() if not refused(plain_namespace, fragment)]
    wrong += [name for name in TAKEN.keys() - QUOTING if refused(plain_namespace, TAKEN[name])]
    assert wrong == []
