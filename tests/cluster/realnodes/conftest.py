"""Fixtures: one plane with four real nodes, the nodes of one UltraServer, for all tests that need any."""

from __future__ import annotations

import itertools
import os
import re
from typing import TYPE_CHECKING, NoReturn

import pytest

from tests.cluster.load import places
from tests.cluster.realnodes import images, product, release, story
from tests.cluster.realnodes.archives import Image
from tests.cluster.realnodes.job import Job
from tests.cluster.realnodes.plane import RealPlane
from tests.cluster.realnodes.plugin import SYSFS, NeuronPlugin, ultraserver
from tests.cluster.realnodes.replicas import Product
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl

_numbers = itertools.count()


def refuse(reason: str) -> NoReturn:
    """Skips a test, or fails it where ``REQUIRE_NODES=1``."""
    if os.environ.get("REQUIRE_NODES") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


# The nodes end with the tests of this folder: they would be in the way of what is tested afterwards.
@pytest.fixture(scope="package")
def real_plane(node_tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPlane]:
    """A control plane with four real nodes, each with a device plugin."""
    folder = tmp_path_factory.mktemp("real-nodes")
    archives = images.small(folder, node_tools) + product.built()
    with RealPlane(folder, ultraserver(), archives) as running:
        yield running


@pytest.fixture(scope="package")
def installed(real_plane: RealPlane, product_images: None) -> Kubectl:
    """The product, installed as docs/install.md says, and kubectl for its namespace."""
    assert product_images is None
    return story.install(real_plane.kubectl)


@pytest.fixture(scope="session")
def release_folder() -> Path:
    """The release of this checkout, as ``make release`` writes it."""
    if reason := release.stale():
        refuse(reason)
    return release.folder(product.version())


@pytest.fixture(scope="session")
def release_before() -> Path:
    """The release before this one, as ``make release-before`` builds it."""
    if reason := release.not_held():
        pytest.skip(reason)
    if not release.before().is_dir():
        refuse("the release before is not built: make release-before")
    return release.before()


@pytest.fixture(scope="session")
def image_archives() -> dict[str, Image]:
    """The product's images and the one below them, by the name of the archive."""
    return {path.stem: Image.read(path) for path in product.archives() if path.stem != "job"}


@pytest.fixture(scope="package")
def plugins(real_plane: RealPlane) -> dict[str, NeuronPlugin]:
    """The device plugin of each node, by the node's name."""
    return {
        name: NeuronPlugin(node, sysfs)
        for (name, node), sysfs in zip(real_plane.nodes.items(), SYSFS, strict=True)
    }


@pytest.fixture(scope="package", name="product")
def installed_product(real_plane: RealPlane, installed: Kubectl) -> Product:
    """The installed product and a namespace with a load of jobs; every test leaves it as it found it."""
    made = Product(real_plane, installed, real_plane.kubectl.create_namespace("team-a"))
    until(lambda: places(real_plane.kubeconfig, "team-a"))
    return made


@pytest.fixture
def mended(plugins: dict[str, NeuronPlugin]) -> Iterator[dict[str, NeuronPlugin]]:
    """The device plugins, whose faults are taken back after the test."""
    yield plugins
    for plugin in plugins.values():
        plugin.mend()


@pytest.fixture
def job(installed: Kubectl, mended: dict[str, NeuronPlugin], here: Kubectl) -> Job:
    """A job of a namespace of its own, not yet created; all nodes have all their devices."""
    story.all_offered(installed, mended)
    return Job(here)


@pytest.fixture
def here(real_plane: RealPlane, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """Kubectl for a new namespace, which is deleted after the test."""
    test = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))
    # Parametrised tests may be equal in what is left of their names.
    name = f"{test[:50].strip('-')}-{next(_numbers)}"
    inside = real_plane.kubectl.create_namespace(name)
    yield inside
    real_plane.kubectl.run("delete", "namespace", name, "--wait=false")
