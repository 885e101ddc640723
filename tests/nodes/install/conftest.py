"""The plane and the installation of the tests in this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.images import images, product
from testbed.plane import nodes
from tests.nodes.install.installation import INSTALL, MUTATING, TEAM, Installation, PartlyReal, create_folder


# The nodes end with the tests of this folder, because they would disturb later tests.
@pytest.fixture(scope="package")
def bare(
    node_tools: Path, product_images: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """Two real nodes for the product, four UltraServers that are only objects, and no installation."""
    assert product_images is None
    folder = tmp_path_factory.mktemp("install")
    archives = images.small(folder, node_tools) + product.archives()
    with PartlyReal(folder / "plane", nodes.plain_nodes(2), archives) as plane:
        nodes.create(plane.kubectl, nodes.ultraserver_nodes(4))
        plane.kubectl.create_namespace(TEAM)
        (folder / "work").mkdir()
        yield Installation(plane, create_folder(folder / "work"))


@pytest.fixture
def installed(bare: Installation) -> Installation:
    """The plane after the document's installation commands. Each test restores or uninstalls the product."""
    if bare.kubectl.run("get", *MUTATING, "--ignore-not-found").stdout == "":
        bare.run(INSTALL, "Install")
        bare.wait_until_jobs_are_placed()
    return bare
