"""Previews in a cluster: the API server passes them on for users who may ask it to, and for no others."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from testbed import chart
from testbed.mpijob import mpijob
from testbed.plane import nodes
from testbed.plane.controlplane import ControlPlane, answers_ok
from testbed.plane.jobs import together
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.process import free_ports
from testbed.waiting import until
from tests.plane.fleets.installed import runs

NAME = f"{chart.NAME}-preview"
JOB = mpijob(4)
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
    (port,) = free_ports(1)
    parts = {part["kind"]: part for part in chart.objects() if part["metadata"]["name"] == NAME}
    (container,) = parts["Deployment"]["spec"]["template"]["spec"]["containers"]
    own = ("--port=", "--rules=")
    options = [option for option in container["args"] if not option.startswith(own)]
    command = [sys.executable, "-m", "webhook", container["command"][1], *options, f"--port={port}"]
    program = plane.programs.start("previews", command, cwd=chart.REPOSITORY)
    program.wait_ready(lambda: answers_ok(f"http://127.0.0.1:{port}/readyz"), 20)
    kubectl = plane.kubectl.create_namespace("previews")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "preview",
            "labels": parts["Deployment"]["spec"]["template"]["metadata"]["labels"],
        },
        "spec": {
            "nodeName": nodes.plain_nodes(1)[0]["metadata"]["name"],
            "containers": [
                {"name": "preview", "image": "x", "ports": [{"name": "http", "containerPort": port}]}
            ],
        },
    }
    parts["Service"]["metadata"]["namespace"] = kubectl.namespace
    kubectl.create(together(parts["Service"], pod))
    runs(kubectl, "preview")
    yield kubectl
    kubectl.delete("pod", "preview", at_once=True)
    plane.programs.stop(program)


def test_users_reach_previews_with_their_own_rights_and_no_others(served: Kubectl) -> None:
    """Protects from previews for anybody who reaches the API server."""
    path = RAW.format(served.namespace)
    user = served.acting_as(USER)
    until(lambda: served.api.send("POST", path, JOB)[0] == HTTPStatus.OK, "the endpoint of the Service")
    assert user.api.send("POST", path, JOB)[0] == HTTPStatus.FORBIDDEN
    served.create(proxy_role(str(served.namespace)))
    until(lambda: user.api.send("POST", path, JOB)[0] == HTTPStatus.OK, "the user's right")
    _, answer = user.api.send("POST", path, JOB)
    (item,) = answer["items"]
    assert "ultraserver-webhook.io/whole-job" in json.dumps(item["patch"]), "by the installed table"
