"""Fixtures: a control plane and a registered webhook for the session, and a new namespace for every test.

Each process of pytest-xdist that runs one of these tests starts its own control plane.
"""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.plane import nodes, previews, webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import NO_LATE_PODS_POLICY, retire_namespace
from testbed.plane.kubectl import Kubectl
from testbed.plane.webhook import RunningWebhook

ULTRASERVERS = 24
PLAIN_NODES = 2
_namespace_numbers = itertools.count()


@pytest.fixture(scope="session")
def control_plane(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The control plane, with 24 UltraServers and two nodes without devices, and without a webhook."""
    with ControlPlane(tmp_path_factory.mktemp("control-plane"), tools) as running:
        nodes.create(running.kubectl, nodes.ultraserver_nodes(ULTRASERVERS) + nodes.plain_nodes(PLAIN_NODES))
        running.kubectl.apply(NO_LATE_PODS_POLICY)
        yield running


@pytest.fixture(scope="session")
def passed_on() -> None:
    """Skips a test if this machine has no address to which the API server can proxy requests."""
    try:
        previews.address()
    except previews.NoAddressError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def labels_by_node(control_plane: ControlPlane) -> dict[str, dict[str, str]]:
    """The labels of every node, by the node's name."""
    items = control_plane.kubectl.get_json("nodes")["items"]
    return {node["metadata"]["name"]: node["metadata"]["labels"] for node in items}


@pytest.fixture(scope="module")
def servers(plane: ControlPlane) -> dict[str, str]:
    """The server id of each UltraServer node, by the node's name, on the control plane of the package."""
    items = plane.kubectl.get_json("nodes")["items"]
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in items}
    return {name: value[nodes.SERVER_ID_4] for name, value in labels.items() if nodes.SERVER_ID_4 in value}


@pytest.fixture(scope="session")
def registered_webhook(control_plane: ControlPlane) -> Iterator[RunningWebhook]:
    """The webhook with the packaged table, to which the API server sends every new MPIJob.

    The API server does not send the MPIJobs of opted-out namespaces, such as ``plain_namespace``.
    """
    running = webhook.start(control_plane.programs, control_plane.folder / "webhook")
    inside = control_plane.kubectl.create_namespace("webhook-probe")
    with webhook.register(inside, webhook.configuration(running)):
        yield running


@pytest.fixture
def namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """Kubectl for a new namespace. Its jobs and Pods are deleted after the test, to free their nodes."""
    yield from _new_namespace(control_plane, request.node.name, {})


@pytest.fixture
def second_namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """Kubectl for a second new namespace, for tests with jobs in two namespaces."""
    yield from _new_namespace(control_plane, f"2-{request.node.name}", {})


@pytest.fixture
def plain_namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """Kubectl for a new namespace that is opted out of the webhook."""
    yield from _new_namespace(control_plane, f"3-{request.node.name}", {webhook.INJECT: "disabled"})


def _new_namespace(control_plane: ControlPlane, test: str, labels: dict[str, str]) -> Iterator[Kubectl]:
    name = re.sub(r"[^a-z0-9]+", "-", test.lower().removeprefix("test_")).strip("-")[:50].rstrip("-")
    # Parametrized tests can have the same first 50 characters in their names.
    inside = control_plane.kubectl.create_namespace(f"{name}-{next(_namespace_numbers)}", labels)
    yield inside
    # The namespace itself is not deleted: that takes ten seconds, and its name is not used again.
    retire_namespace(inside)
