"""Every file of the release, over a running installation, does what it says; then it goes again.

Only the kinds of cert-manager and the Prometheus operator are there, not their programs.
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
from testbed.plane.controlplane import established
from testbed.plane.jobs import text, together
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.managers import definition
from testbed.plane.webhook import INJECT
from testbed.waiting import until
from tests.nodes.person import Person
from tests.nodes.product.overlays import SAYS, Cluster, base
from tests.nodes.replicas import restarts, wait_for_table

pytestmark = pytest.mark.soak
REGISTRATIONS = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")
KINDS = {
    "cert-manager.io/v1": ("Certificate", "Issuer"),
    "monitoring.coreos.com/v1": ("ServiceMonitor", "PrometheusRule"),
}


def objects(folder: Path, name: str = "") -> list[Object]:
    """Returns what is in the file of a recommended set of values; in the default's without."""
    content = (folder / (f"install-{name}.yaml" if name else "install.yaml")).read_text(encoding="utf-8")
    return list(yaml.safe_load_all(content))


def identity(obj: Object) -> tuple[str, str]:
    return obj["kind"], obj["metadata"]["name"]


def settled(cluster: Cluster, parts: list[Object]) -> None:
    """Waits until what was applied is what runs: every Deployment, every table, every registration."""
    for kind, name in map(identity, parts):
        if kind == "Deployment":
            story.wait_for_rollout(cluster.own, name)
    (tables,) = (one["data"] for one in parts if identity(one) == ("ConfigMap", "ultraserver-webhook-rules"))
    wait_for_table(cluster.own, tables)

    def trusted(obj: Object) -> bool:
        return all("caBundle" in hook["clientConfig"] for item in obj["items"] for hook in item["webhooks"])

    for kind in REGISTRATIONS:
        cluster.own.wait_for(trusted, kind)


def sound(cluster: Cluster, earlier: dict[str, int]) -> None:
    """Asserts that nothing was started again, and that our namespace takes nothing that is not restricted."""
    now = restarts(cluster.pods())
    assert now == {pod: earlier.get(pod, 0) for pod in now}
    privileged = {"name": "main", "image": "x", "securityContext": {"privileged": True}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "root"},
        "spec": {"containers": [privileged]},
    }
    refused = cluster.own.run("create", "--dry-run=server", "-f", "-", stdin=text(pod), check=False)
    assert 'violates PodSecurity "restricted' in refused.stderr


@pytest.fixture(scope="module")
def plain(installed: Kubectl, release_folder: Path) -> Iterator[Kubectl]:
    """The installation, and the kinds that they name; afterwards it is as it was."""
    definitions = [definition(group, kind) for group, each in KINDS.items() for kind in each]
    installed.run("apply", "-f", "-", stdin=text(together(*definitions)))
    for one in definitions:
        installed.wait_for(established, "crd", one["metadata"]["name"])
    yield installed
    settled(Cluster(installed, installed, installed), objects(release_folder))
    installed.run("delete", "-f", "-", stdin=text(together(*definitions)))


@pytest.fixture
def cluster(plain: Kubectl, here: Kubectl) -> Iterator[Cluster]:
    """The plain installation, a user who may edit one namespace, and another namespace that asks."""
    here.run("create", "rolebinding", "edit", "--clusterrole=edit", "--user=person")
    name = f"{here.namespace}-asks"
    yield Cluster(plain, here, plain.create_namespace(name, {INJECT: "enabled"}))
    plain.run("delete", "namespace", name, "--wait=false")


@pytest.mark.parametrize("overlay", ["", *chart.RECOMMENDED])
def test_a_recommended_value_on_a_running_installation_has_the_documented_effect(
    overlay: str, cluster: Cluster, release_folder: Path, mended: dict[str, NeuronPlugin]
) -> None:
    story.wait_for_all_devices(cluster.own, mended)
    if overlay not in {"", "failclosed"}:
        assert not SAYS[overlay](cluster)
    before = {*map(identity, objects(release_folder))}
    parts, earlier = objects(release_folder, overlay), restarts(cluster.pods())
    cluster.own.run(
        "apply", "-f", str(release_folder / (f"install-{overlay}.yaml" if overlay else "install.yaml"))
    )
    try:
        settled(cluster, parts)
        until(lambda: SAYS[overlay](cluster), f"a cluster as {overlay or 'the default'} says")
        sound(cluster, earlier)
    finally:
        cluster.here.run("delete", "mpijobs", "--all")
        cluster.own.run("apply", "-f", str(release_folder / "install.yaml"))
        added = [part for part in parts if identity(part) not in before]
        if added:
            cluster.own.run("delete", "-f", "-", stdin=text(together(*added)))


def test_a_provided_certificate_needs_no_overlay(
    cluster: Cluster, real_plane: RealPlane, tmp_path: Path
) -> None:
    host = f"--host=ultraserver-webhook.{story.NAMESPACE}.svc"
    command = [sys.executable, "-m", "certs", "dev", "--dir", str(tmp_path), host]
    subprocess.run(command, check=True, capture_output=True)
    ours = (tmp_path / "ca.crt").read_text(encoding="utf-8").strip()

    def trusted(obj: Object) -> bool:
        hooks = [hook["clientConfig"] for item in obj["items"] for hook in item["webhooks"]]
        return all(ours in base64.b64decode(hook["caBundle"]).decode() for hook in hooks)

    person, earlier = Person(real_plane, tmp_path), restarts(cluster.pods())
    try:
        person.types("A certificate without a clone")
        for kind in REGISTRATIONS:
            cluster.own.wait_for(trusted, kind)
        until(lambda: base(cluster), "a job that is placed")
        sound(cluster, earlier)
    finally:
        person.types("Back to the program's own certificate")
