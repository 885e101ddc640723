"""Previews in a cluster: the API server passes them on for users who may ask it to, and for no others."""

import json
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from testbed.mpijob import mpijob
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import together
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.previews import NAME, previews
from testbed.waiting import until

JOB = mpijob(4)
RAW = f"/api/v1/namespaces/{{}}/services/{NAME}:http/proxy/v1/preview"
USER = "a-data-scientist"


def proxy_role(namespace: str) -> Object:
    """Returns what a team gives its users, for the one Service."""
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
def served(plane: ControlPlane, passed_on: None) -> Iterator[Kubectl]:
    """The chart's previews, in a namespace of this test."""
    assert passed_on is None
    with previews(plane, "previews") as inside:
        yield inside


def test_users_reach_previews_with_their_own_rights_and_no_others(served: Kubectl) -> None:
    """Protects from previews for every user who reaches the API server."""
    path = RAW.format(served.namespace)
    user = served.acting_as(USER)
    until(lambda: served.api.send("POST", path, JOB)[0] == HTTPStatus.OK, "the endpoint of the Service")
    assert user.api.send("POST", path, JOB)[0] == HTTPStatus.FORBIDDEN
    served.create(proxy_role(str(served.namespace)))
    until(lambda: user.api.send("POST", path, JOB)[0] == HTTPStatus.OK, "the user's right")
    _, answer = user.api.send("POST", path, JOB)
    (item,) = answer["items"]
    assert "ultraserver-webhook.io/whole-job" in json.dumps(item["patch"]), "by the installed table"
