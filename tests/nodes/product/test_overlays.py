"""Tests that each manifest of the release, applied over an installation, has its effect and can be removed.

The plane has only the CRDs of cert-manager and of the Prometheus operator, not their programs.
"""

import base64
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from testbed import chart
from testbed.nodes import story
from testbed.nodes.plane import RealPlane
from testbed.nodes.plugin import NeuronPlugin
from testbed.plane.controlplane import is_established
from testbed.plane.jobs import list_object, to_json
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.managers import definition
from testbed.plane.webhook import INJECT
from testbed.waiting import until
from tests.nodes.person import Person
from tests.nodes.product.overlays import CHECKS, Cluster, places_jobs
from tests.nodes.replicas import restarts, wait_for_table

pytestmark = pytest.mark.soak
REGISTRATIONS = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")
KINDS = {
    "cert-manager.io/v1": ("Certificate", "Issuer"),
    "monitoring.coreos.com/v1": ("ServiceMonitor", "PrometheusRule"),
}


def objects(folder: Path, name: str = "") -> list[Object]:
    """Returns the objects in the manifest of a recommended set of values; without a name, of the default."""
    content = (folder / (f"install-{name}.yaml" if name else "install.yaml")).read_text(encoding="utf-8")
    return list(yaml.safe_load_all(content))


def identity(obj: Object) -> tuple[str, str]:
    return obj["kind"], obj["metadata"]["name"]


def wait_until_applied(cluster: Cluster, parts: list[Object]) -> None:
    """Waits until the applied objects are in use: the Deployments, the rule table, the caBundles."""
    for kind, name in map(identity, parts):
        if kind == "Deployment":
            story.wait_for_rollout(cluster.own, name)
    (tables,) = (obj["data"] for obj in parts if identity(obj) == ("ConfigMap", "ultraserver-webhook-rules"))
    wait_for_table(cluster.own, tables)

    def are_trusted(obj: Object) -> bool:
        return all("caBundle" in hook["clientConfig"] for item in obj["items"] for hook in item["webhooks"])

    for kind in REGISTRATIONS:
        cluster.own.wait_for(are_trusted, kind)


def assert_unharmed(cluster: Cluster, restarts_before: dict[str, int]) -> None:
    """Asserts that no container was restarted, and that the product's namespace refuses privileged Pods."""
    now = restarts(cluster.pods())
    assert now == {pod: restarts_before.get(pod, 0) for pod in now}
    privileged = {"name": "main", "image": "x", "securityContext": {"privileged": True}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "root"},
        "spec": {"containers": [privileged]},
    }
    output = cluster.own.run("create", "--dry-run=server", "-f", "-", stdin=to_json(pod), check=False)
    assert 'violates PodSecurity "restricted' in output.stderr


@pytest.fixture(scope="module")
def with_definitions(installed: Kubectl, release_folder: Path) -> Iterator[Kubectl]:
    """The installation with the CRDs that the manifests need. It is restored after the tests."""
    definitions = [definition(group, kind) for group, kinds in KINDS.items() for kind in kinds]
    installed.run("apply", "-f", "-", stdin=to_json(list_object(*definitions)))
    for crd in definitions:
        installed.wait_for(is_established, "crd", crd["metadata"]["name"])
    yield installed
    wait_until_applied(Cluster(installed, installed, installed), objects(release_folder))
    installed.run("delete", "-f", "-", stdin=to_json(list_object(*definitions)))


@pytest.fixture
def cluster(with_definitions: Kubectl, kubectl: Kubectl) -> Iterator[Cluster]:
    """The installation, a user who may edit one namespace, and another namespace that is opted in."""
    kubectl.run("create", "rolebinding", "edit", "--clusterrole=edit", "--user=person")
    name = f"{kubectl.namespace}-asks"
    yield Cluster(with_definitions, kubectl, with_definitions.create_namespace(name, {INJECT: "enabled"}))
    with_definitions.run("delete", "namespace", name, "--wait=false")


@pytest.mark.parametrize("overlay", ["", *chart.RECOMMENDED])
def test_a_recommended_set_of_values_has_its_effect_on_a_running_installation(
    overlay: str, cluster: Cluster, release_folder: Path, faulty_plugins: dict[str, NeuronPlugin]
) -> None:
    story.wait_for_all_devices(cluster.own, faulty_plugins)
    if overlay not in {"", "failclosed"}:
        assert not CHECKS[overlay](cluster)
    before = {*map(identity, objects(release_folder))}
    parts, restarts_before = objects(release_folder, overlay), restarts(cluster.pods())
    cluster.own.run(
        "apply", "-f", str(release_folder / (f"install-{overlay}.yaml" if overlay else "install.yaml"))
    )
    try:
        wait_until_applied(cluster, parts)
        until(lambda: CHECKS[overlay](cluster), f"the effect of {overlay or 'the default'}")
        assert_unharmed(cluster, restarts_before)
    finally:
        cluster.team.run("delete", "mpijobs", "--all")
        cluster.own.run("apply", "-f", str(release_folder / "install.yaml"))
        added = [part for part in parts if identity(part) not in before]
        if added:
            cluster.own.run("delete", "-f", "-", stdin=to_json(list_object(*added)))


def test_a_provided_certificate_needs_no_overlay(
    cluster: Cluster, real_plane: RealPlane, tmp_path: Path
) -> None:
    host = f"--host=ultraserver-webhook.{story.NAMESPACE}.svc"
    command = [sys.executable, "-m", "certs", "dev", "--dir", str(tmp_path), host]
    subprocess.run(command, check=True, capture_output=True)
    ours = (tmp_path / "ca.crt").read_text(encoding="utf-8").strip()

    def are_trusted(obj: Object) -> bool:
        hooks = [hook["clientConfig"] for item in obj["items"] for hook in item["webhooks"]]
        return all(ours in base64.b64decode(hook["caBundle"]).decode() for hook in hooks)

    person, restarts_before = Person(real_plane, tmp_path), restarts(cluster.pods())
    try:
        person.run("A certificate without a clone")
        for kind in REGISTRATIONS:
            cluster.own.wait_for(are_trusted, kind)
        until(lambda: places_jobs(cluster), "a job that the webhook places")
        assert_unharmed(cluster, restarts_before)
    finally:
        person.run("Back to the program's own certificate")
