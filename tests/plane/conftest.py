"""Fixtures: one control plane and one registered webhook a session, a namespace of its own for every test.

Every process of pytest-xdist that gets such a test starts its own control plane.
"""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.plane import nodes, previews, webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import NOBODY_COMES_LATE, leave
from testbed.plane.kubectl import Kubectl
from testbed.plane.webhook import RunningWebhook

ULTRASERVERS = 24
PLAIN_NODES = 2
_numbers = itertools.count()


@pytest.fixture(scope="session")
def control_plane(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The control plane with the nodes of 24 UltraServers and two plain machines, and no webhook."""
    with ControlPlane(tmp_path_factory.mktemp("control-plane"), tools) as running:
        nodes.create(running.kubectl, nodes.ultraserver_nodes(ULTRASERVERS) + nodes.plain_nodes(PLAIN_NODES))
        running.kubectl.apply(NOBODY_COMES_LATE)
        yield running


@pytest.fixture(scope="session")
def passed_on() -> None:
    """Asked for by what needs the API server to pass requests on to this machine."""
    try:
        previews.address()
    except previews.NoAddressError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def control_plane_nodes(control_plane: ControlPlane) -> dict[str, dict[str, str]]:
    """The labels of every node, by its name."""
    items = control_plane.kubectl.get_json("nodes")["items"]
    return {node["metadata"]["name"]: node["metadata"]["labels"] for node in items}


@pytest.fixture(scope="module")
def servers(plane: ControlPlane) -> dict[str, str]:
    """The UltraServer of every node that is in one, by the node's name, on a package's own control plane."""
    items = plane.kubectl.get_json("nodes")["items"]
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in items}
    return {name: each[nodes.SERVER_ID_4] for name, each in labels.items() if nodes.SERVER_ID_4 in each}


@pytest.fixture(scope="session")
def registered_webhook(control_plane: ControlPlane) -> Iterator[RunningWebhook]:
    """The webhook with its packaged table, asked by the API server about every new MPIJob from here on.

    Namespaces that are labelled as opted out are left alone: ``plain_namespace`` is one.
    """
    running = webhook.start(control_plane.programs, control_plane.folder / "webhook")
    inside = control_plane.kubectl.create_namespace("webhook-probe")
    with webhook.registered(inside, webhook.configuration(running)):
        yield running


@pytest.fixture
def namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """Kubectl for a new namespace; what is in it is deleted after the test, so that its nodes are free."""
    yield from _namespace(control_plane, request.node.name, {})


@pytest.fixture
def second_namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """Kubectl for one more new namespace, for jobs that must stay out of each other's way."""
    yield from _namespace(control_plane, f"2-{request.node.name}", {})


@pytest.fixture
def plain_namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """Kubectl for a new namespace that is opted out of the webhook."""
    yield from _namespace(control_plane, f"3-{request.node.name}", {webhook.INJECT: "disabled"})


def _namespace(control_plane: ControlPlane, test: str, labels: dict[str, str]) -> Iterator[Kubectl]:
    name = re.sub(r"[^a-z0-9]+", "-", test.lower().removeprefix("test_")).strip("-")[:50].rstrip("-")
    # Parametrised tests may be equal in what is left of their names.
    inside = control_plane.kubectl.create_namespace(f"{name}-{next(_numbers)}", labels)
    yield inside
    # Not the namespace itself: its deletion takes ten seconds, and no one needs its name again.
    leave(inside)
