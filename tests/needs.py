"""Skips tests whose programs, nodes or images this machine does not have, or fails them in CI.

This module is a pytest plugin, see ``tests/conftest.py``.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from testbed.images import product
from testbed.kits import build
from testbed.kits import nodes as node_build
from testbed.nodes import namespaces
from tests.plane.initscript import machine

KITS = {
    "tools": build.CONTROL_PLANE,
    "kueue_tools": build.KUEUE,
    "controller_tools": build.CONTROLLERS,
    "helm": build.HELM,
}
"""The programs that a test needs, by the fixture that it uses."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests that need the control plane, real nodes or images, before ``-m`` selects by marks."""
    for item in items:
        names = {*getattr(item, "fixturenames", ())}
        if "tools" in names:
            item.add_marker(pytest.mark.cluster)
        if "node_tools" in names:
            item.add_marker(pytest.mark.real_nodes)
        if {"product_images", "image_archives"} & names:
            item.add_marker(pytest.mark.images)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test that this machine cannot run. A variable such as ``REQUIRE_CLUSTER=1`` makes it fail."""
    names = {*getattr(item, "fixturenames", ())}
    variable, reason = "REQUIRE_CLUSTER", ""
    if any(kit.missing(kit.directory()) for name, kit in KITS.items() if name in names):
        reason = "the control plane's programs are not built: make cluster-tools"
    elif missing := _why_no_nodes(item):
        variable, reason = "REQUIRE_NODES", f"no real nodes: {missing}"
    elif item.get_closest_marker("fleet") and (programs := machine.missing()):
        variable, reason = "REQUIRE_SSHD", f"no fleet of sshd on this machine: {', '.join(programs)} missing"
    elif uninstalled := [name for name in _programs(item) if shutil.which(name) is None]:
        variable, reason = "CI", f"not installed: {', '.join(uninstalled)}"
    if not reason:
        return
    if os.environ.get(variable) in {"1", "true"}:
        pytest.fail(reason, pytrace=False)
    # All tests are skipped here and not in fixtures, so that they have one line in pytest's summary.
    pytest.skip(reason)


def _programs(item: pytest.Item) -> Sequence[str]:
    """Returns the programs of the machine that the mark ``program`` of a test names."""
    mark = item.get_closest_marker("program")
    return mark.args if mark else ()


def _why_no_nodes(item: pytest.Item) -> str:
    """Returns why this machine lacks the real nodes or images of a test; empty if it has them."""
    if item.get_closest_marker("real_nodes"):
        if reason := namespaces.why_unusable():
            return reason
        if node_build.missing(node_build.directory()):
            return "the programs of the nodes are not built: make node-tools"
    if item.get_closest_marker("images") and product.missing():
        return "the images of this checkout are not built: make images"
    return ""


@pytest.fixture(scope="session")
def tools() -> Path:
    """The folder of the control plane's programs."""
    return build.CONTROL_PLANE.directory()


@pytest.fixture(scope="session")
def kueue_tools(tools: Path) -> None:
    """Required by tests that need Kueue in addition to ``tools``."""


@pytest.fixture(scope="session")
def controller_tools(tools: Path) -> None:
    """Required by tests that need the controllers of other kinds of job in addition to ``tools``."""


@pytest.fixture(scope="session")
def helm(tools: Path) -> None:
    """Required by tests that render the chart with values, or install it, in addition to ``tools``."""


@pytest.fixture(scope="session")
def node_tools(tools: Path) -> Path:
    """The folder of the programs of a node. Nodes also need ``tools``, the programs of the control plane."""
    assert tools.is_dir()
    return node_build.directory()


@pytest.fixture(scope="session")
def product_images() -> None:
    """Required by tests that need the product's images on the nodes."""
