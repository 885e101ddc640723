"""Fixtures: one plane with four real nodes, the nodes of one UltraServer, for all tests that need any."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import pytest

from tests.cluster import nodes
from tests.cluster.realnodes import images, product
from tests.cluster.realnodes.archives import Image
from tests.cluster.realnodes.plane import RealPlane
from tests.cluster.realnodes.plugin import NeuronPlugin
from tests.initscript.topology import servers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl


_numbers = itertools.count()


# The nodes end with the tests of this folder: they would be in the way of what is tested afterwards.
@pytest.fixture(scope="package")
def real_plane(node_tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPlane]:
    """A control plane with four real nodes, each with a device plugin."""
    folder = tmp_path_factory.mktemp("real-nodes")
    archives = images.small(folder, node_tools) + product.built()
    with RealPlane(folder, nodes.ultraserver_nodes(1), archives) as running:
        yield running


@pytest.fixture(scope="session")
def image_archives() -> dict[str, Image]:
    """The product's images and the one below them, by the name of the archive."""
    return {path.stem: Image.read(path) for path in product.archives() if path.stem != "job"}


@pytest.fixture(scope="package")
def plugins(real_plane: RealPlane) -> dict[str, NeuronPlugin]:
    """The device plugin of each node, by the node's name."""
    return {
        name: NeuronPlugin(node, sysfs)
        for (name, node), sysfs in zip(real_plane.nodes.items(), servers(4), strict=True)
    }


@pytest.fixture
def mended(plugins: dict[str, NeuronPlugin]) -> Iterator[dict[str, NeuronPlugin]]:
    """The device plugins, whose faults are taken back after the test."""
    yield plugins
    for plugin in plugins.values():
        plugin.mend()


@pytest.fixture
def here(real_plane: RealPlane, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """Kubectl for a new namespace, which is deleted after the test."""
    test = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))
    # Parametrised tests may be equal in what is left of their names.
    name = f"{test[:50].strip('-')}-{next(_numbers)}"
    inside = real_plane.kubectl.create_namespace(name)
    yield inside
    real_plane.kubectl.run("delete", "namespace", name, "--wait=false")
