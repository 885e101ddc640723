"""A release's files alone: an installation from them, and an upgrade from the release before and back."""

from __future__ import annotations

import json
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.cluster.install.installation import steps, type_in
from tests.cluster.jobs import own_part
from tests.cluster.load import jobs_keep_coming, places
from tests.cluster.realnodes import product, release, story
from tests.helpers import mpijob
from tests.waiting import until
from webhook.engine import Request, evaluate
from webhook.rules.load import load_default

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.realnodes.node import Node
    from tests.cluster.realnodes.plane import RealPlane
    from tests.cluster.realnodes.plugin import NeuronPlugin

INSTALL = "docs/install.md"
CHECK, IMPORT = "From a release, without a clone", "Import the images"
APPLY, BACK = "Apply a release's manifests", "Roll back"
REGISTRATIONS = "mutatingwebhookconfiguration,validatingwebhookconfiguration"


@dataclass(frozen=True)
class Person:
    """Somebody with kubectl, the folder of a release, and no clone.

    Attributes:
        plane: what is installed on.
        folder: the release's.
    """

    plane: RealPlane
    folder: Path

    @property
    def version(self) -> str:
        """Which version the release is of."""
        return str(json.loads((self.folder / release.ABOUT).read_text(encoding="utf-8"))["version"])

    def types(self, heading: str) -> None:
        """Runs what the document shows under a heading, in the folder."""
        type_in(INSTALL, heading, self.folder, self.plane.kubectl)

    def imports_on(self, node: Node) -> None:
        """Runs on a node what the document shows for it."""
        (step,) = steps(INSTALL, IMPORT)
        path = f"PATH={self.plane.node_tools}:/usr/bin:/bin"
        node.run("env", f"--chdir={self.folder}", path, "bash", "-ec", step.command)
        assert not lacks(node, self.version)

    def imports(self) -> None:
        """The same on every node."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(self.imports_on, self.plane.nodes.values()))


def node_images(node: Node) -> dict[str, str]:
    """The images of a node: the digest by name."""
    rows = [line.split() for line in node.ctr("images", "list").splitlines()[1:]]
    return {row[0]: row[2] for row in rows}


def lacks(node: Node, version: str) -> set[str]:
    """Which of the product's images a node does not have."""
    have = {name.rpartition("/")[2] for name in node_images(node)}
    return {f"{name}:{version}" for name in product.TARGETS.values()} - have


def forget(node: Node) -> None:
    """Removes the product's images from a node, under whatever name it has them."""
    found = node_images(node)
    ours = {digest for name, digest in found.items() if "/ultraserver-webhook" in name}
    names = [name for name, digest in found.items() if digest in ours]
    if names:
        node.ctr("images", "remove", "--sync", *names)
    assert not ours & {*node_images(node).values()}


@pytest.fixture
def bare(real_plane: RealPlane, installed: Kubectl, mended: dict[str, NeuronPlugin]) -> Iterator[RealPlane]:
    """The plane after the product was removed; it is installed again afterwards."""
    story.all_offered(installed, mended)
    kubectl = real_plane.kubectl
    kubectl.run("delete", REGISTRATIONS, "ultraserver-webhook")
    kubectl.run("delete", "-k", str(story.OVERLAY), "--ignore-not-found")
    yield real_plane
    for node in real_plane.nodes.values():
        # A test that failed midway may have left none.
        if lacks(node, product.version()):
            for archive in product.archives():
                node.ctr("images", "import", str(archive))
    kubectl.in_namespace("default").run("delete", "mpijobs", "--all")
    story.install(kubectl)


def restarts(pods: list[Object]) -> dict[str, int]:
    """How often the containers of each Pod were started again, by its uid: one made anew has another."""
    return {
        pod["metadata"]["uid"]: sum(each["restartCount"] for each in pod["status"]["containerStatuses"])
        for pod in pods
    }


def test_a_release_alone_is_installed_on_nodes_without_its_images_and_places_a_job(
    bare: RealPlane, release_folder: Path, tmp_path: Path
) -> None:
    person = Person(bare, release_folder)
    for node in bare.nodes.values():
        forget(node)
    person.types(CHECK)
    person.imports()
    person.types(APPLY)
    assert story.serving(bare.kubectl) == {f"ultraserver-webhook:{person.version}"}
    inside = bare.kubectl.in_namespace("default")
    until(lambda: places(bare.kubeconfig, "default"))
    (sdist,) = release_folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (job,) = tmp_path.glob("*/examples/four-node.yaml")
    inside.run("apply", "-f", str(job))
    assert story.ADDED in json.dumps(inside.get_json("mpijob", "demo"))
    story.placed(inside, "demo", 4)


def lasting(name: str, *, suspend: bool = False) -> Object:
    """A job of two workers that goes on until it is deleted, or waits to be told to begin."""
    job = mpijob(2, name=name)
    job["spec"]["runPolicy"] = {"suspend": suspend}
    launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    launcher["containers"][0]["command"] = ["sleep", "3600"]
    return job


def changes_today(job: Object) -> tuple[object, ...]:
    """What this checkout's table would change about a job that is stored."""
    metadata = job["metadata"]
    request = Request(own_part(job), metadata["namespace"], metadata["uid"], "somebody")
    return evaluate(load_default(), request).operations


def test_an_upgrade_from_the_release_before_and_the_way_back_lose_no_admission(
    bare: RealPlane, release_before: Path, release_folder: Path
) -> None:
    old, new = Person(bare, release_before), Person(bare, release_folder)
    assert old.version != new.version
    old.types(CHECK)
    old.imports()
    new.imports()
    old.types(APPLY)
    inside = bare.kubectl.in_namespace("default")
    until(lambda: places(bare.kubeconfig, "default"))
    inside.create(lasting("suspended", suspend=True))
    inside.create(lasting("running"))
    before = restarts(story.placed(inside, "running", 2))

    with jobs_keep_coming(bare.kubeconfig, "default", a_second=4) as load:
        load.more(20)
        for person, heading, version in (
            (new, APPLY, new.version),
            (new, BACK, old.version),
            (old, APPLY, old.version),
            (new, APPLY, new.version),
        ):
            person.types(heading)
            assert story.serving(bare.kubectl) == {f"ultraserver-webhook:{version}"}
            load.more(20)
    sys.stderr.write(f"upgrade, roll back, upgrade: {load}\n")
    assert load.lost == []

    for job in inside.get_json("mpijobs")["items"]:
        assert changes_today(job) == (), job["metadata"]["name"]
    assert restarts(story.placed(inside, "running", 2)) == before
    inside.run("delete", "mpijob", "running")
    inside.run(
        "patch", "mpijob", "suspended", "--type=merge", "-p", '{"spec": {"runPolicy": {"suspend": false}}}'
    )
    story.placed(inside, "suspended", 2)
