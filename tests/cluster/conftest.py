"""Fixtures: one control plane and one registered webhook a session, a namespace of its own for every test.

A test that asks for any of them is marked ``cluster``. Under pytest-xdist one worker gets all tests of this
folder but those on real nodes (``tests/conftest.py``), so that the control plane is started once; with a
``--dist`` other than ``load`` every worker that gets such a test starts its own: slower, and as correct.
"""

from __future__ import annotations

import itertools
import os
import re
from typing import TYPE_CHECKING

import pytest

from tests.cluster import nodes, webhook
from tests.cluster.controlplane import ControlPlane
from tests.cluster.jobs import clear
from tests.cluster.realnodes import build as node_build
from tests.cluster.realnodes import namespaces, product, report
from tests.cluster.tools import build

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl
    from tests.cluster.webhook import RunningWebhook

ULTRASERVERS = 24
PLAIN_NODES = 2
_numbers = itertools.count()
_reported: list[BaseException] = []
"""Why the last test on real nodes failed that did."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what needs the control plane, real nodes or images, before ``-m`` looks at the marks."""
    for item in items:
        names = {*getattr(item, "fixturenames", ())}
        if "tools" in names:
            item.add_marker(pytest.mark.cluster)
        if "node_tools" in names:
            item.add_marker(pytest.mark.real_nodes)
        if {"product_images", "image_archives"} & names:
            item.add_marker(pytest.mark.images)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips what this machine cannot run, or fails it where ``REQUIRE_CLUSTER=1`` or ``REQUIRE_NODES=1``."""
    kit = build.CONTROL_PLANE
    variable, reason = "REQUIRE_CLUSTER", ""
    if item.get_closest_marker("cluster") and kit.missing(kit.directory()):
        reason = "the control plane's programs are not built: make cluster-tools"
    elif lacking := _lacking_for_nodes(item):
        variable, reason = "REQUIRE_NODES", f"no real nodes: {lacking}"
    if not reason:
        return
    if os.environ.get(variable) == "1":
        pytest.fail(reason, pytrace=False)
    # Here and not in a fixture, so that the summary folds all of them into one line.
    pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds to the report of a failed test what its real nodes say, before their namespaces are gone."""
    made = yield
    if made.failed and call.excinfo and item.get_closest_marker("real_nodes"):
        # Once, where many tests fail by one fixture: they have the same exception.
        if call.excinfo.value not in _reported:
            made.sections.extend(report.sections())
        _reported[:] = [call.excinfo.value]
    return made


def _lacking_for_nodes(item: pytest.Item) -> str:
    """What a test that needs real nodes cannot have here; empty if nothing."""
    if item.get_closest_marker("real_nodes"):
        if reason := namespaces.unusable():
            return reason
        if node_build.missing(node_build.directory()):
            return "their programs are not built: make node-tools"
    if item.get_closest_marker("images") and product.missing():
        return "the images of this checkout are not built: make images"
    return ""


@pytest.fixture(scope="session")
def tools() -> Path:
    """The folder of the control plane's programs."""
    return build.CONTROL_PLANE.directory()


@pytest.fixture(scope="session")
def node_tools(tools: Path) -> Path:
    """The folder of the programs of a node; ``tools``, those of the control plane, are needed as well."""
    assert tools.is_dir()
    return node_build.directory()


@pytest.fixture(scope="session")
def product_images() -> None:
    """Asked for by what needs the product's images on the nodes; without them it is skipped."""


@pytest.fixture(scope="session")
def control_plane(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The control plane with the nodes of 24 UltraServers and two plain machines, and no webhook."""
    with ControlPlane(tmp_path_factory.mktemp("control-plane"), tools) as running:
        nodes.create(running.kubectl, nodes.ultraserver_nodes(ULTRASERVERS) + nodes.plain_nodes(PLAIN_NODES))
        yield running


@pytest.fixture(scope="session")
def control_plane_nodes(control_plane: ControlPlane) -> dict[str, dict[str, str]]:
    """The labels of every node, by its name."""
    found = control_plane.kubectl.get_json("nodes")["items"]
    return {node["metadata"]["name"]: node["metadata"]["labels"] for node in found}


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
    # Not the namespace itself: its deletion takes ten seconds, and nobody needs its name again.
    clear(inside)
