"""How hard Hypothesis tries, and how pytest-xdist shares out the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from xdist.remote import Producer  # type: ignore[import-untyped]
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

TOGETHER = {
    "tests/cluster/realnodes/": "real nodes",
    "tests/cluster/install/": "real nodes",
    "tests/cluster/": "control plane",
    "tests/attack/test_live_reviews.py": "live reviews",
    "tests/attack/test_framing.py": "framing",
    "tests/attack/test_malformed.py": "malformed",
    "tests/attack/test_certificates.py": "certificates",
}
"""Tests that one worker runs one after the other, by where they are. What they share is started once, and
real nodes and live reviews are not loaded by two of them at a time."""

# These machines are small and noisy, so no example has a deadline.
settings.register_profile("default", deadline=None)
settings.register_profile("thorough", deadline=None, max_examples=4000)
settings.load_profile("default")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """Sends tests that belong together to one worker; the others go anywhere.

    The mark ``xdist_group`` would say the same, but xdist 3.8 sets it in a way that pytest 9.2 ignores.
    """
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 - the hook is called by xdist only

    class InGroups(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return next((group for start, group in TOGETHER.items() if nodeid.startswith(start)), nodeid)

    return InGroups(config, log) if config.getoption("dist") == "load" else None
