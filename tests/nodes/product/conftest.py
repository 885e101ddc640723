"""One plane with four real nodes, the nodes of one UltraServer, and one installation for this folder."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.images import layout, product
from testbed.nodes import story
from testbed.nodes.plane import RealPlane
from testbed.nodes.plugin import NeuronPlugin
from testbed.plane.kubectl import Kubectl
from testbed.plane.load import places
from testbed.waiting import until
from tests.nodes.commands import REGISTRY, type_in
from tests.nodes.product.job import Job
from tests.nodes.replicas import Product

_numbers = itertools.count()


# The nodes end with the tests of this folder: they would be in the way of what is tested afterwards.
@pytest.fixture(scope="package")
def started(
    node_tools: Path, product_images: None, release_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RealPlane, dict[str, NeuronPlugin]]]:
    """A control plane with four real nodes, which have a release's images, and their device plugins."""
    assert (product_images, node_tools.is_dir()) == (None, True)
    released = {name: release_folder / f"{name}-{product.version()}.tar" for name in product.TARGETS.values()}
    (job,) = (path for path in product.archives() if path.stem == "job")
    with story.plane(tmp_path_factory.mktemp("real-nodes"), [job, *released.values()]) as running:
        for name, archive in released.items():
            image = f"{name}@{layout.digest(archive)}"
            # Stands for the registry, which is not here.
            story.tag(running[0], f"{layout.IN_CONTAINERD}/{image}", f"{REGISTRY}/{image}")
        yield running


@pytest.fixture(scope="package")
def real_plane(started: tuple[RealPlane, dict[str, NeuronPlugin]]) -> RealPlane:
    """The control plane."""
    return started[0]


@pytest.fixture(scope="package")
def plugins(started: tuple[RealPlane, dict[str, NeuronPlugin]]) -> dict[str, NeuronPlugin]:
    """The device plugin of each node, by the node's name."""
    return started[1]


@pytest.fixture(scope="package")
def installed(real_plane: RealPlane, release_folder: Path) -> Kubectl:
    """A release, installed in its folder as the README says, and kubectl for its namespace."""
    type_in("README.md", "Install", release_folder, real_plane.kubectl)
    return story.wait_until_served(real_plane.kubectl)


@pytest.fixture(scope="package", name="product")
def installed_product(real_plane: RealPlane, installed: Kubectl) -> Product:
    """The installed product and a namespace with a load of jobs; every test leaves it as it found it."""
    made = Product(real_plane, installed, real_plane.kubectl.create_namespace("team-a"))
    until(lambda: places(real_plane.kubeconfig, "team-a"), "a job of team-a that the webhook places")
    return made


@pytest.fixture
def mended(plugins: dict[str, NeuronPlugin]) -> Iterator[dict[str, NeuronPlugin]]:
    """The device plugins, whose faults are taken back after the test."""
    yield plugins
    for plugin in plugins.values():
        plugin.mend()


@pytest.fixture
def job(real_plane: RealPlane, installed: Kubectl, mended: dict[str, NeuronPlugin], here: Kubectl) -> Job:
    """A job of a namespace of its own, not yet created; all nodes have all their devices."""
    story.wait_for_all_devices(installed, mended)
    return Job(here, real_plane)


@pytest.fixture
def here(real_plane: RealPlane, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """Kubectl for a new namespace, which is deleted after the test."""
    test = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))
    # Parametrised tests may be equal in what is left of their names.
    name = f"{test[:50].strip('-')}-{next(_numbers)}"
    inside = real_plane.kubectl.create_namespace(name)
    yield inside
    real_plane.kubectl.run("delete", "namespace", name, "--wait=false")
