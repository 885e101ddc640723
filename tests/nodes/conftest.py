"""What all tests on real nodes share: the releases, the images, and reports of failures."""

import os
from collections.abc import Generator
from pathlib import Path
from typing import NoReturn

import pytest

from testbed.images import product
from testbed.images.archives import Image
from testbed.release import release
from tests.nodes import report

_reported: list[BaseException] = []
"""Why the last test on real nodes failed that did."""


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


def refuse(reason: str) -> NoReturn:
    """Skips a test, or fails it where ``REQUIRE_NODES=1``."""
    if os.environ.get("REQUIRE_NODES") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def release_folder() -> Path:
    """The release of this checkout, as ``make release`` writes it."""
    if reason := release.stale():
        refuse(reason)
    return release.folder(product.version())


@pytest.fixture(scope="session")
def release_before() -> Path:
    """The release before this one, as ``make release-before`` builds it."""
    if reason := release.not_held():
        pytest.skip(reason)
    if not release.before().is_dir():
        refuse("the release before is not built: make release-before")
    return release.before()


@pytest.fixture(scope="session")
def image_archives() -> dict[str, Image]:
    """The product's images and the one below them, by the name of the archive."""
    return {path.stem: Image.read(path) for path in product.archives() if path.stem != "job"}
