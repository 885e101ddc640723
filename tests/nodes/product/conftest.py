"""The plane of the tests in this folder: an installation, and four real nodes of one UltraServer."""

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
from testbed.plane.load import webhook_mutates_jobs
from testbed.waiting import until
from tests.nodes.commands import REGISTRY, type_in
from tests.nodes.product.job import Job
from tests.nodes.replicas import Product

_numbers = itertools.count()


# The nodes end with the tests of this folder, because they would disturb later tests.
@pytest.fixture(scope="package")
def plane_and_plugins(
    node_tools: Path, product_images: None, release_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RealPlane, dict[str, NeuronPlugin]]]:
    """A control plane with four real nodes, which have a release's images, and their device plugins."""
    assert (product_images, node_tools.is_dir()) == (None, True)
    archives = {name: release_folder / f"{name}-{product.version()}.tar" for name in product.TARGETS.values()}
    (job,) = (path for path in product.archives() if path.stem == "job")
    with story.plane(tmp_path_factory.mktemp("real-nodes"), [job, *archives.values()]) as started_plane:
        for name, archive in archives.items():
            image = f"{name}@{layout.digest(archive)}"
            # There is no registry, so the image gets the name that it would have in the registry.
            story.tag(started_plane[0], f"{layout.IN_CONTAINERD}/{image}", f"{REGISTRY}/{image}")
        yield started_plane


@pytest.fixture(scope="package")
def real_plane(plane_and_plugins: tuple[RealPlane, dict[str, NeuronPlugin]]) -> RealPlane:
    """The control plane."""
    return plane_and_plugins[0]


@pytest.fixture(scope="package")
def plugins(plane_and_plugins: tuple[RealPlane, dict[str, NeuronPlugin]]) -> dict[str, NeuronPlugin]:
    """The device plugin of each node, by the node's name."""
    return plane_and_plugins[1]


@pytest.fixture(scope="package")
def installed(real_plane: RealPlane, release_folder: Path) -> Kubectl:
    """Kubectl for the namespace of a release, which was installed with the README's command."""
    type_in("README.md", "Install", release_folder, real_plane.kubectl)
    return story.wait_until_served(real_plane.kubectl)


@pytest.fixture(scope="package", name="product")
def installed_product(real_plane: RealPlane, installed: Kubectl) -> Product:
    """The installed product, and a namespace for jobs. Every test restores the product."""
    result = Product(real_plane, installed, real_plane.kubectl.create_namespace("team-a"))
    until(
        lambda: webhook_mutates_jobs(real_plane.kubeconfig, "team-a"),
        "a job of team-a that the webhook places",
    )
    return result


@pytest.fixture
def faulty_plugins(plugins: dict[str, NeuronPlugin]) -> Iterator[dict[str, NeuronPlugin]]:
    """The device plugins. A test may give them faults, which are removed after the test."""
    yield plugins
    for plugin in plugins.values():
        plugin.remove_faults()


@pytest.fixture
def job(
    real_plane: RealPlane, installed: Kubectl, faulty_plugins: dict[str, NeuronPlugin], kubectl: Kubectl
) -> Job:
    """A job that is not created yet, for a new namespace. All nodes have all their devices."""
    story.wait_for_all_devices(installed, faulty_plugins)
    return Job(kubectl, real_plane)


@pytest.fixture
def kubectl(real_plane: RealPlane, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """Kubectl for a new namespace, which is deleted after the test."""
    test = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))
    # The shortened names of two parametrized tests may be equal.
    name = f"{test[:50].strip('-')}-{next(_numbers)}"
    yield real_plane.kubectl.create_namespace(name)
    real_plane.kubectl.run("delete", "namespace", name, "--wait=false")
