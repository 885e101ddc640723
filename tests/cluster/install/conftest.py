"""One control plane and one installation for the tests of this folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.cluster import nodes
from tests.cluster.install.installation import (
    NAMESPACE,
    TEAM,
    Installation,
    LoopbackServices,
    manifests,
)
from tests.cluster.standin import container
from tests.cluster.standin.node import StandIn
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HURRIED = {
    "ULTRASERVER_CERTS_INTERVAL_SECONDS": "1",
    "ULTRASERVER_CERTS_LEASE_SECONDS": "3",
    "ULTRASERVER_CERTS_SETTLE_SECONDS": "1",
}
"""What a test cannot wait for: half a minute between two looks at caBundle and Secrets, and the five minutes
that a Secret may take to reach a Pod; the stand-in's volumes need less than a second."""


@pytest.fixture(scope="package")
def bare(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A control plane before anything is installed."""
    if container.unusable():
        refuse = pytest.fail if os.environ.get("REQUIRE_CLUSTER") == "1" else pytest.skip
        refuse(f"Pods cannot be stood in for: {container.unusable()}")
    folder = tmp_path_factory.mktemp("install")
    with (
        LoopbackServices(folder / "control-plane", tools) as running,
        StandIn(running, NAMESPACE, HURRIED) as stand_in,
    ):
        nodes.create(running.kubectl, nodes.ultraserver_nodes(4) + nodes.plain_nodes(2))
        running.kubectl.create_namespace(TEAM)
        (folder / "work").mkdir()
        yield Installation(running, stand_in, manifests(folder / "work"))


@pytest.fixture(scope="package")
def installed(bare: Installation) -> Installation:
    """The same after the commands of the document; every test leaves it as it found it."""
    bare.run("docs/install.md", "Install")
    until(bare.places)
    return bare
