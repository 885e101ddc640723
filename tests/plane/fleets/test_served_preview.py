"""Previews in a cluster: the API server passes them on for users who may ask it to, and for no others."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from testbed import chart
from testbed.plane.controlplane import ControlPlane, answers_ok
from testbed.plane.jobs import together
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.process import free_ports
from testbed.waiting import until
from tests.plane.fleets.test_check import address

NAME = f"{chart.NAME}-preview"
JOB = str(chart.REPOSITORY / "examples" / "four-node.yaml")
RAW = f"/api/v1/namespaces/{{}}/services/{NAME}:http/proxy/v1/preview"
USER = "a-data-scientist"


def proxy_role(namespace: str) -> Object:
    """What a team gives its users, for the one Service."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "previews", "namespace": namespace},
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["services/proxy"],
                "resourceNames": [f"{NAME}:http"],
                "verbs": ["create"],
            }
        ],
    }
    binding = {
        "apiVersion": role["apiVersion"],
        "kind": "RoleBinding",
        "metadata": {"name": "previews", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "previews"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    }
    return together(role, binding)


@pytest.fixture
def served(plane: ControlPlane) -> Iterator[Kubectl]:
    """The chart's Service and command, where a kubelet would run them: on an address of this machine."""
    here, (port,) = address(), free_ports(1)
    parts = {part["kind"]: part for part in chart.objects() if part["metadata"]["name"] == NAME}
    (container,) = parts["Deployment"]["spec"]["template"]["spec"]["containers"]
    own = ("--port=", "--rules=")
    options = [option for option in container["args"] if not option.startswith(own)]
    command = [sys.executable, "-m", "webhook", container["command"][1], *options, f"--port={port}"]
    program = plane.programs.start("previews", command, cwd=chart.REPOSITORY)
    program.wait_ready(lambda: answers_ok(f"http://127.0.0.1:{port}/readyz"), 20)
    kubectl = plane.kubectl.create_namespace("previews")
    service = parts["Service"]
    service["metadata"]["namespace"] = kubectl.namespace
    del service["spec"]["selector"]
    points = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": NAME},
        "subsets": [{"addresses": [{"ip": here}], "ports": [{"name": "http", "port": port}]}],
    }
    kubectl.create(together(service, points))
    yield kubectl
    plane.programs.stop(program)


def test_users_reach_previews_with_their_own_rights_and_no_others(served: Kubectl) -> None:
    """Protects from previews for anybody, and from an API server that the program does not know."""
    path = RAW.format(served.namespace)
    until(lambda: not served.run("create", "-f", JOB, "--raw", path, check=False).returncode, "an answer")
    user = served.acting_as(USER)
    refused = user.run("create", "-f", JOB, "--raw", path, check=False)
    assert refused.returncode
    assert "Forbidden" in refused.stderr
    served.create(proxy_role(str(served.namespace)))
    until(
        lambda: not user.run("create", "-f", JOB, "--raw", path, check=False).returncode, "the user's right"
    )
    answer = json.loads(user.run("create", "-f", JOB, "--raw", path).stdout)
    assert [item["outcome"] for item in answer["items"]] == ["changed"]
