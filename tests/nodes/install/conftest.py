"""One plane and one installation for the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.images import images, product
from testbed.plane import nodes
from tests.nodes.install.installation import INSTALL, MUTATING, TEAM, Installation, PartlyReal, manifests


# The nodes end with the tests of this folder: they would be in the way of what is tested afterwards.
@pytest.fixture(scope="package")
def bare(
    node_tools: Path, product_images: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """Two real nodes for the product, four UltraServers that are objects only, and nothing installed."""
    assert product_images is None
    folder = tmp_path_factory.mktemp("install")
    archives = images.small(folder, node_tools) + product.archives()
    with PartlyReal(folder / "plane", nodes.plain_nodes(2), archives) as running:
        nodes.create(running.kubectl, nodes.ultraserver_nodes(4))
        running.kubectl.create_namespace(TEAM)
        (folder / "work").mkdir()
        yield Installation(running, manifests(folder / "work"))


@pytest.fixture
def installed(bare: Installation) -> Installation:
    """The same after the commands of the document; every test leaves it as it found it, or removes it."""
    if bare.kubectl.run("get", *MUTATING, "--ignore-not-found").stdout == "":
        bare.run(INSTALL, "Install")
        bare.wait_places()
    return bare
