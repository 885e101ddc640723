"""Fleets need Debian's openssh-server, openmpi-bin and iproute2, and the right to make namespaces."""

import os

import pytest

from tests.initscript.machine import missing

LACKING = missing()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what needs a fleet where there can be none, unless REQUIRE_SSHD says that there must be one."""
    if not LACKING or os.environ.get("REQUIRE_SSHD") == "1":
        return
    skip = pytest.mark.skip(reason=f"no fleet of sshd here: {', '.join(LACKING)} missing")
    for item in items:
        if item.get_closest_marker("fleet"):
            item.add_marker(skip)
