"""Fixtures of all tests on real nodes: releases, images, and the state of the nodes if a test fails."""

import os
from collections.abc import Generator
from pathlib import Path
from typing import NoReturn

import pytest

from testbed.images import product
from testbed.images.archives import Image
from testbed.release import release
from tests.nodes import report

_last_failure: list[BaseException] = []
"""The exception of the last failed test on real nodes; empty if no test has failed."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the state of the real nodes to the report of a failed test, before the nodes end."""
    test_report = yield
    if test_report.failed and call.excinfo and item.get_closest_marker("real_nodes"):
        # If a fixture fails for many tests, all have the same exception. It is reported once.
        if call.excinfo.value not in _last_failure:
            test_report.sections.extend(report.sections())
        _last_failure[:] = [call.excinfo.value]
    return test_report


def skip_or_fail(reason: str) -> NoReturn:
    """Skips a test, or fails it if ``REQUIRE_NODES=1``."""
    if os.environ.get("REQUIRE_NODES") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def release_folder() -> Path:
    """The release of this checkout, as ``make release`` writes it."""
    if reason := release.why_stale():
        skip_or_fail(reason)
    return release.folder(product.version())


@pytest.fixture(scope="session")
def release_before() -> Path:
    """The previous release, as ``make release-before`` builds it."""
    if reason := release.why_previous_unbuildable():
        pytest.skip(reason)
    if not release.previous_folder().is_dir():
        skip_or_fail("the previous release is not built; run make release-before")
    return release.previous_folder()


@pytest.fixture(scope="session")
def image_archives() -> dict[str, Image]:
    """The product's images and their base image, by the name of the archive."""
    return {path.stem: Image.read(path) for path in product.archives() if path.stem != "job"}
